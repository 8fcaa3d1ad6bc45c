package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cascade-run/cascade"
)

var logged = cascade.Func1("Logged", logAndSleep, "with -> out")

// note is what a task of kill writes down, and where.
type note struct {
	Path    string
	Number  int
	Seconds float64
}

// logAndSleep sleeps; a file gets a line at its start and one at its end: what, which, who, when.
func logAndSleep(_ context.Context, with note) (one int64, err error) {
	log, err := os.OpenFile(with.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	write := func(what string) error {
		_, err := fmt.Fprintf(log, "%s %d %d %d\n", what, with.Number, os.Getpid(), time.Now().UnixNano())
		return err
	}
	if err := write("start"); err != nil {
		return 0, err
	}
	pause{with.Seconds}.wait()
	return 1, write("end")
}

// kill is tasks of equal length; after a third of them SIGKILL for an executor that is at work.
func (r *runner) kill(ctx context.Context, a args) (values, error) {
	n := a.int("n")
	length, _ := a["seconds"].(float64)
	m := murder{path: filepath.Join(os.Getenv("PEERS_DIR"), fmt.Sprintf("kill-%d", time.Now().UnixNano())), after: n / 3}
	over, done := context.WithCancel(ctx)
	committed := make(chan error, 1)
	go func() { committed <- m.commit(over) }()
	v, err := r.run(ctx, func() shape {
		g := cascade.NewGraph("kill")
		tasks := make([]cascade.Ref[int64], n)
		for i := range tasks {
			tasks[i] = logged.Add(g, fmt.Sprintf("t%d", i), cascade.With(note{m.path, i, length}))
		}
		return shape{g, n + 1, total.Add(g, "total", cascade.Refs(tasks...)), int64(n)}
	})
	done()
	if err := errors.Join(err, <-committed); err != nil {
		return nil, err
	}
	story, err := m.story(n)
	if err != nil {
		return nil, err
	}
	story["added"] = v["seconds"] - float64(n)*length/float64(r.cores)
	return story, nil
}

// line is one of the file: start or end, which task, which process, when.
type line struct {
	what        string
	number, pid int
	nanos       int64
}

// murder waits until some tasks have ended, and kills the process of one that runs.
type murder struct {
	path         string
	after        int
	victim, lost int
	when         int64
}

func (m *murder) lines() (all []line, err error) {
	b, err := os.ReadFile(m.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // no task has begun
	}
	if err != nil {
		return nil, err
	}
	for text := range strings.Lines(string(b)) {
		var l line
		if !strings.HasSuffix(text, "\n") {
			break // it is being written
		}
		if _, err := fmt.Sscan(text, &l.what, &l.number, &l.pid, &l.nanos); err != nil {
			return nil, fmt.Errorf("read what tasks wrote: %q: %w", text, err)
		}
		all = append(all, l)
	}
	return all, nil
}

// commit ends with the murder, or with the context, when all tasks ended before.
func (m *murder) commit(ctx context.Context) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		lines, err := m.lines()
		if err != nil {
			return err
		}
		ended := map[int]bool{}
		for _, l := range lines {
			if l.what == "end" {
				ended[l.number] = true
			}
		}
		for _, l := range slices.Backward(lines) {
			if len(ended) >= m.after && l.what == "start" && !ended[l.number] {
				m.victim, m.lost, m.when = l.pid, l.number, time.Now().UnixNano()
				return syscall.Kill(l.pid, syscall.SIGKILL)
			}
		}
	}
}

// story is how the system went on: when the lost task ran again, when a new process began one, how many ran more than once.
func (m *murder) story(n int) (values, error) {
	if m.victim == 0 {
		return nil, errors.New("all tasks ended before an executor could be killed")
	}
	lines, err := m.lines()
	if err != nil {
		return nil, err
	}
	before, v, starts := map[int]bool{}, values{}, 0
	for _, l := range lines {
		if l.what != "start" {
			continue
		}
		starts++
		if l.nanos <= m.when {
			before[l.pid] = true
			continue
		}
		since := float64(l.nanos-m.when) / 1e9
		first := func(key string) {
			if earlier, ok := v[key]; !ok || since < earlier {
				v[key] = since
			}
		}
		if l.number == m.lost {
			first("rerun")
		}
		if !before[l.pid] {
			first("full")
		}
	}
	v["again"] = float64(starts - n)
	return v, nil
}
