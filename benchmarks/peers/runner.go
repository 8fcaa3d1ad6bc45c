package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cascade-run/cascade/agent/process"
)

// hello is what a runner says first, when its system is up and warm.
type hello struct {
	Version string `json:"version"`
	Model   string `json:"model"` // which processes run what, and what was tuned
}

// request asks for one measurement.
type request struct {
	Workload string `json:"workload"`
	Args     args   `json:"args"`
}

// answer is what a request gives: named numbers in seconds, bytes or counts.
type answer struct {
	Values  map[string]float64 `json:"values"`
	Error   string             `json:"error"`   // why there are none, in the system's own words
	Workers []int              `json:"workers"` // processes that run tasks, where the workload is about the others
}

// Errors that are not the system's own words.
var (
	errTime = errors.New("did not end in its time")
	errGone = errors.New("the runner ended")
)

const (
	startTime = 2 * time.Minute // for a system to come up, and as much again for each four hosts
	stopTime  = 20 * time.Second
)

// runner is one system that is up.
type runner struct {
	proc   *process.Process
	conn   net.Conn
	in     *bufio.Reader
	dir    string
	hosts  hosts
	before []string // what there was of others' shared memory and sockets
	hello
}

// start starts a system and waits until it is warm: on so many hosts, or with 0 on the machine as it is.
func (p place) start(ctx context.Context, s system, on int) (r *runner, err error) {
	dir, err := os.MkdirTemp("", "peers-") // short: sockets of systems lie in it
	if err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", s.name, err)
	}
	r = &runner{dir: dir, before: leftovers()}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stop())
			r = nil
		}
	}()
	if r.hosts, err = openHosts(on); err != nil {
		return r, err
	}
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return r, fmt.Errorf("open the socket of %s: %w", s.name, err)
	}
	defer func() { _ = listener.Close() }() // accept may have closed it
	if r.proc, err = process.Start(p.command(s, dir, socket, r.hosts)); err != nil {
		return r, fmt.Errorf("start %s: %w", s.name, err)
	}
	ctx, stop := context.WithTimeout(ctx, startTime*time.Duration(1+on/4))
	defer stop()
	if r.conn, err = accept(ctx, listener, r.proc); err != nil {
		return r, r.failed(s.name+" came not up", err)
	}
	r.in = bufio.NewReader(r.conn)
	if err = r.read(ctx, &r.hello); err != nil {
		return r, r.failed(s.name+" came not up", err)
	}
	return r, nil
}

// accept waits for the runner to connect, to end, or for the time to be up.
func accept(ctx context.Context, l net.Listener, p *process.Process) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // Accept says what came of it
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-p.Done():
			_ = l.Close()
		case <-ended:
		}
	}()
	conn, err := l.Accept()
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, errTime
	default:
		return nil, errGone
	}
}

// read takes one line from the runner.
func (r *runner) read(ctx context.Context, into any) error {
	stop := context.AfterFunc(ctx, func() {
		if err := r.conn.SetReadDeadline(time.Now()); err != nil {
			r.proc.Kill() // ends the read too
		}
	})
	defer stop()
	line, err := r.in.ReadBytes('\n')
	switch {
	case ctx.Err() != nil:
		return errTime
	case err != nil:
		return errGone
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("read what the runner says: %w: %.200s", err, line)
	}
	return nil
}

// ask makes one measurement. After an error of errTime or errGone the runner is of no use any more.
func (r *runner) ask(ctx context.Context, q request, limit time.Duration) (a answer, err error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	line, err := json.Marshal(q)
	if err != nil {
		return a, fmt.Errorf("write a request: %w", err)
	}
	if _, err := r.conn.Write(append(line, '\n')); err != nil {
		return a, r.failed(q.Workload, errGone)
	}
	if err := r.read(ctx, &a); err != nil {
		if errors.Is(err, errTime) {
			return a, fmt.Errorf("%w of %s", err, limit)
		}
		return a, r.failed(q.Workload, err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// failed ends the runner and adds its last words to an error.
func (r *runner) failed(what string, err error) error {
	r.proc.Kill()
	out := strings.TrimSpace(string(r.proc.Wait().Output))
	if lines := strings.Split(out, "\n"); len(lines) > 5 {
		out = strings.Join(lines[len(lines)-5:], "\n")
	}
	return fmt.Errorf("%s: %w: %s", what, err, out)
}

// stop ends the system and all its processes, and removes what it had.
func (r *runner) stop() error {
	if r.conn != nil {
		r.conn.Close() // the runner ends its system by itself then
		select {
		case <-r.proc.Done():
		case <-time.After(stopTime):
		}
	}
	if r.proc != nil {
		r.proc.Kill()
		<-r.proc.Done()
	}
	return errors.Join(r.hosts.close(), removeLeft(r.dir, r.before), os.RemoveAll(r.dir))
}
