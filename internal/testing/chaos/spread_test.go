//go:build linux

package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
)

var (
	_            = cascade.Func1("chaos_gather", gather, "with -> n")
	gatheredTask = cascade.Func1("chaos_arrive", arrive, "with -> n")
)

type gatherSettings struct {
	Calls int
	At    string // socket at which calls say that they have begun
}

// gather makes calls, and waits for all of them.
func gather(ctx context.Context, s gatherSettings) (int, error) {
	all := make([]cascade.Future[int], s.Calls)
	for n := range all {
		all[n] = gatheredTask.Go(ctx, cascade.Val(s))
	}
	sum := 0
	for n, f := range all {
		one, err := f.Get(ctx)
		if err != nil {
			return 0, fmt.Errorf("call %d: %w", n, err)
		}
		sum += one
	}
	return sum, nil
}

// arrive says on which agent it is, and ends when it is told to.
func arrive(_ context.Context, s gatherSettings) (int, error) {
	c, err := net.Dial("unix", s.At)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if _, err := io.WriteString(c, os.Getenv(agentVar)); err != nil {
		return 0, err
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return 0, fmt.Errorf("it was not told to end: %w", err)
	}
	return 1, nil
}

// met is a call that has begun and waits to be let go.
type met struct {
	agent string
	conn  net.Conn
}

func (m met) leave(t *testing.T) {
	t.Helper()
	if _, err := m.conn.Write([]byte{1}); err != nil {
		t.Error(err)
	}
	m.conn.Close()
}

// spreads starts two agents of one core and a job of so many calls. next waits for a call that begins.
func spreads(t *testing.T, calls int) (job *Job, next func() met) {
	t.Helper()
	h := New(t)
	h.Patience = time.Minute // a call that waits behind another would wait for ever
	h.Controller()
	for n, start := range []func(...string) *Process{h.Agent, h.SecondAgent} {
		h.Env = []string{fmt.Sprintf("%s=a%d", agentVar, n+1)}
		start("--cpu", "1")
	}
	client := h.ReadyClient(2)
	h.Env = nil
	at := filepath.Join(h.Sockets, "arrive")
	l, err := net.Listen("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	arrived := make(chan met, calls)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			name := make([]byte, 2)
			if _, err := io.ReadFull(c, name); err == nil {
				arrived <- met{string(name), c}
			}
		}
	}()
	job = h.Submit(client, fmt.Sprintf(`job: gather
tasks:
  gather: {run: chaos_gather, with: {calls: %d, at: %s}, out: [n]}
outputs: [gather.n]
`, calls, at), nil)
	return job, func() met {
		t.Helper()
		select {
		case m := <-arrived:
			return m
		case <-job.ended:
			t.Fatalf("the job has ended before its calls")
		}
		return met{}
	}
}

// Of equal  calls each of two agents runs half: no call ends before another runs beside it.
func TestCallsSpread(t *testing.T) {
	t.Parallel()
	const calls = 8
	job, next := spreads(t, calls)
	for range calls / 2 {
		a, b := next(), next()
		if a.agent == b.agent {
			t.Errorf("two  calls run on agent %s, which has one core", a.agent)
		}
		a.leave(t)
		b.leave(t)
	}
	job.Done()
}

// While one call runs and does not end, on whichever agent, the other agent runs all others: none waits behind it.
func TestCallsDoNotWaitBehindLongOnes(t *testing.T) {
	t.Parallel()
	for _, long := range []string{"a1", "a2"} {
		t.Run(long, func(t *testing.T) {
			const calls = 8
			job, next := spreads(t, calls)
			var held met
			for n := 0; n < calls; n++ {
				switch m := next(); {
				case m.agent == long && held.conn == nil:
					held = m
				case m.agent == long:
					t.Fatalf("two  calls run on agent %s, which has one core", long)
				default:
					m.leave(t)
				}
			}
			if held.conn == nil {
				t.Fatalf("no call went to agent %s", long)
			}
			held.leave(t)
			job.Done()
		})
	}
}
