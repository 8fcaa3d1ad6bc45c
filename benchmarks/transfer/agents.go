//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/internal/hosts"
	"github.com/cascade-run/cascade/dag"
)

var (
	_ = cascade.Func1("transfer_make", produce, "with -> data")
	_ = cascade.Func2("transfer_read", consume, "data, with -> sum")
)

type makeSettings struct{ Bytes int }

const step = 4096 // of the bytes that are written and read: one of each page

func produce(ctx context.Context, s makeSettings) (cascade.Array[uint8], error) {
	a, err := cascade.Alloc[uint8](ctx, s.Bytes)
	for i := 0; i < len(a.Data); i += step {
		a.Data[i] = 1
	}
	return a, err
}

func consume(_ context.Context, a cascade.Array[uint8], s makeSettings) (int64, error) {
	sum := int64(0)
	for i := 0; i < len(a.Data); i += step {
		sum += int64(a.Data[i])
	}
	if want := (s.Bytes + step - 1) / step; sum != int64(want) || len(a.Data) != s.Bytes {
		return 0, fmt.Errorf("%d bytes with the sum %d came, want %d with %d", len(a.Data), sum, s.Bytes, want)
	}
	return sum, nil
}

// agents has a task on one host make a dataset that a task on another reads, and
// tells what memory their agents took meanwhile.
func (o *options) agents() error {
	most, err := o.moveByAgents()
	if err != nil {
		return err
	}
	t := newTable(fmt.Sprintf("memory of whole agents while a job moves %s between them", size(o.large)), "", "private, before", "private, most", "shared, most")
	for i, who := range []string{"sender", "receiver"} {
		m := &most[i]
		t.row(who, size(m.before), size(m.private), size(m.shared))
	}
	return t.w.Flush()
}

// taken is the memory of a process.
type taken struct{ before, private, shared int64 }

func (o *options) moveByAgents() (most [2]taken, err error) {
	c, err := hosts.Open(hosts.Config{Hosts: 2, Store: o.large + 64<<20, Spread: true})
	if err != nil {
		return most, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	text := fmt.Sprintf(`job: large
tasks:
  make: {run: transfer_make, with: {bytes: %d}, out: [data], resources: {at_%s: 1}}
  read: {run: transfer_read, in: {data: make.data}, with: {bytes: %d}, out: [sum], resources: {at_%s: 1}}
`, o.large, hosts.Name(0), o.large, hosts.Name(1))
	g, err := dag.ParseYAML("large.yaml", []byte(text), dag.Override{}, dag.Options{})
	if err != nil {
		return most, err
	}
	stop, watched := make(chan struct{}), make(chan error, 1)
	go func() { watched <- watch(c.Agents, &most, stop) }()
	err = submit(c.Client, g)
	close(stop)
	return most, errors.Join(err, <-watched)
}

func submit(c *cascade.Client, g *dag.Graph) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	j, err := c.Submit(ctx, g)
	if err == nil {
		_, err = j.Wait(ctx)
	}
	return err
}

// watch keeps the most memory that two processes have until it is stopped.
func watch(processes []*exec.Cmd, most *[2]taken, stop <-chan struct{}) error {
	next := time.NewTicker(10 * time.Millisecond)
	defer next.Stop()
	for first := true; ; first = false {
		for i, p := range processes {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
			private, err1 := field(text, "RssAnon:")
			shared, err2 := field(text, "RssShmem:")
			if err := errors.Join(err, err1, err2); err != nil {
				return fmt.Errorf("memory of agent %s: %w", hosts.Name(i), err)
			}
			m := &most[i]
			if first {
				m.before = private
			}
			m.private, m.shared = max(m.private, private), max(m.shared, shared)
		}
		select {
		case <-next.C:
		case <-stop:
			return nil
		}
	}
}

// field reads a number of kB from the text of a process's status, as bytes.
func field(text []byte, name string) (int64, error) {
	_, rest, found := bytes.Cut(text, []byte(name))
	fields := bytes.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("no %s in the status of the process", name)
	}
	kb, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return kb << 10, err
}
