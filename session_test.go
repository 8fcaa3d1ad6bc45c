//go:build linux

package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// call has a session call a function and waits for what that returns.
func call[T any](s *cascade.Session, function string, args ...any) (T, error) {
	fn, ok := executor.Default.Lookup(function)
	if !ok {
		var none T
		return none, fmt.Errorf("no function %s", function)
	}
	v, err := fn.Go(s.Context(), executor.CallOptions{}, args...).Output(0).Get(s.Context())
	return executor.As[T](v), err
}

func open(t *testing.T, c *cascade.Client, opts ...cascade.SessionOption) *cascade.Session {
	t.Helper()
	s, err := c.Session(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSession has this program call functions, which call others, on one core.
func TestSession(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client, cascade.WithSessionName("work"))
	if n, err := call[int](s, "fib", fibOf{7}); err != nil || n != 13 {
		t.Errorf("fib(7) is %d, %v", n, err)
	}
	a := cascade.Array[float64]{Shape: []int{large}, Data: make([]float64, large)}
	a.Data[large-1] = 4
	if b, err := call[cascade.Array[float64]](s, "scaled", a, 2.0); err != nil || b.Data[large-1] != 8 {
		t.Errorf("a large array was not doubled: %v", err)
	}
	if _, err := call[int](s, "complains", 1); !errors.Is(err, errNoData) {
		t.Errorf("the error of a function is %v", err)
	}
	rows, err := cascade.Rows[comms.JobRow](t.Context(), c.Client, comms.QueryJobs, s.ID(), "")
	if err != nil || len(rows) != 1 || rows[0].Name != "session work" || rows[0].Phase != "running" {
		t.Errorf("the session is listed as %+v, %v", rows, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := call[int](s, "fib", fibOf{1}); !errors.Is(err, cascade.ErrSessionClosed) {
		t.Errorf("a call of a closed session fails with %v", err)
	}
	if p, err := s.Job().Wait(t.Context()); err != nil || p.Phase != comms.JobDone {
		t.Errorf("the job of the session is %v, %v", p, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// said passes on what is written to it.
type said chan string

func (s said) Write(b []byte) (int, error) {
	s <- string(b)
	return len(b), nil
}

// says prints a word.
func says(_ context.Context, word string) (int, error) { return fmt.Println("it says", word) }

var _ = cascade.Func1("says", says, "word -> n")

// TestSessionOutput has this program told what the functions print that it calls.
func TestSessionOutput(t *testing.T) {
	c := cascadetest.Start(t)
	out := make(said, 8)
	s := open(t, c.Client, cascade.WithSessionOutput(out, nil))
	if _, err := call[int](s, "says", "hello"); err != nil {
		t.Error(err)
	}
	if text := <-out; text != "it says hello\n" {
		t.Errorf("it printed %q", text)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSessionsAtOnce has two sessions of one program beside each other.
func TestSessionsAtOnce(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			s, err := c.Session(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			for n, want := range []int{0, 1, 1, 2, 3, 5} {
				if got, err := call[int](s, "fib", fibOf{n}); err != nil || got != want {
					t.Errorf("session %d: fib(%d) is %d, %v", i, n, got, err)
				}
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestSessionSendsProgram calls functions of this program on agents whose own executor has none.
func TestSessionSendsProgram(t *testing.T) {
	address := twoPlatforms(t)
	client := dial(t, address, cascade.WithBinary(foreign, script(t, "")))
	if err := client.Ready(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	s := open(t, client)
	if path, err := call[string](s, "t_program", how{}); err != nil || !strings.Contains(path, "-cache/") {
		t.Errorf("the function ran in %q, %v", path, err)
	}
	f := program.Go(s.Context(), cascade.Val(how{}), cascade.Resource("two", 1))
	if path, err := f.Get(s.Context()); err != nil || strings.Contains(path, "-cache/") {
		t.Errorf("the function that needs another agent ran in %q, %v", path, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	s = open(t, dial(t, address)) // the program stays here, and the agents' own executor runs nothing
	if _, err := call[string](s, "t_program", how{}); err == nil || !strings.Contains(err.Error(), "did not start") {
		t.Errorf("a call without the program: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSessionCancelled has somebody cancel a session, and its program told.
func TestSessionCancelled(t *testing.T) {
	c := cascadetest.Start(t)
	s := open(t, c.Client)
	if err := c.Job(s.ID()).Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	<-s.Context().Done()
	if err := context.Cause(s.Context()); !strings.Contains(err.Error(), "enough") {
		t.Errorf("the context of the session ended with: %v", err)
	}
	if err := s.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("close after that: %v", err)
	}
	if p, err := s.Job().Wait(t.Context()); !errors.Is(err, cascade.ErrCancelled) {
		t.Errorf("the job of the session is %v, %v", p, err)
	}
}

// TestSessionRefused has programs ask for sessions that are none, or have their program.
func TestSessionRefused(t *testing.T) {
	c := cascadetest.Start(t)
	s := open(t, c.Client)
	rows, err := cascade.Rows[comms.AgentRow](t.Context(), c.Client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil || len(rows) != 1 || rows[0].Sessions == "" {
		t.Fatalf("the agent does not say where it takes sessions: %+v, %v", rows, err)
	}
	attach := func(id comms.JobID, want string) {
		t.Helper()
		other, err := executor.OpenSession(t.Context(), executor.SessionConfig{Address: rows[0].Sessions, Job: id})
		if err == nil {
			t.Errorf("session %s was opened again: %v", id, other.Close(t.Context()))
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal does not say %q: %v", want, err)
		}
	}
	attach(s.ID(), "has its program")
	j := begun(t, c)
	attach(j.ID(), "is no session")
	if err := j.Cancel(t.Context(), "enough"); err != nil {
		t.Error(err)
	}
	if n, err := call[int](s, "fib", fibOf{5}); err != nil || n != 5 {
		t.Errorf("after that fib(5) is %d, %v", n, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSessionLost has the cluster end under a session.
func TestSessionLost(t *testing.T) {
	state := cascade.WithState(t.TempDir())
	c, err := cascade.Local(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, c.Client)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	<-s.Context().Done()
	for what, err := range map[string]error{"its context": context.Cause(s.Context()), "a call": lastCall(s), "close": s.Close(t.Context())} {
		if !errors.Is(err, cascade.ErrSessionLost) {
			t.Errorf("%s of a lost session: %v", what, err)
		}
	}
	next, err := cascade.Local(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	var failed *cascade.JobError
	if _, err := next.Job(s.ID()).Wait(t.Context()); !errors.As(err, &failed) || failed.Phase != comms.JobFailed {
		t.Errorf("in the next cluster the job of the lost session: %v", err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

func lastCall(s *cascade.Session) error {
	n, err := call[int](s, "fib", fibOf{1})
	if err == nil {
		return fmt.Errorf("it returned %d", n)
	}
	return err
}

// rampUp makes an array that is large enough for shared memory.
func rampUp(_ context.Context, p fibOf) (cascade.Array[float64], error) {
	a := cascade.Array[float64]{Shape: []int{p.N}, Data: make([]float64, p.N)}
	for i := range a.Data {
		a.Data[i] = float64(i)
	}
	return a, nil
}

var rampUpTask = cascade.Func1("rampUp", rampUp, "with -> a")

// Functions call each other to a depth of 1,000 (in the gate 200): each of the tasks waits in a process of its own.
func TestNesting(t *testing.T) {
	depth := tier.Rounds(200, 1000)
	if raced {
		depth = 100 // such a process takes ten times the memory
	}
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client)
	n, err := deeperTask.Go(s.Context(), cascade.Val(depth)).Get(s.Context())
	if n != depth || err != nil {
		t.Errorf("it went to a depth of %d, %v", n, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
