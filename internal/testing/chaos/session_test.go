//go:build linux

package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// sessionVar in the environment of the test binary makes it a program that opens a session
// at this address.
const sessionVar = "CASCADE_CHAOS_SESSION"

// sessionProgram opens a session, calls a function that does not end, and says how that ended.
func sessionProgram(address string) int {
	ctx := context.Background()
	fail := func(err error) int {
		fmt.Println("failed:", err)
		return 1
	}
	c, err := cascade.Dial(ctx, address, cascade.WithPatience(patience))
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	if err := c.Ready(ctx, 1); err != nil {
		return fail(err)
	}
	s, err := c.Session(ctx)
	if err != nil {
		return fail(err)
	}
	if os.Getenv(treeVar) != "" {
		if err := treeProgram(s); err != nil {
			return fail(err)
		}
		return 0
	}
	fmt.Printf("session %s.\n", s.ID())
	values := cascade.Array[float64]{Shape: []int{30_000}, Data: make([]float64, 30_000)} // it goes through memory that is leased
	if _, err := stepTask.Go(s.Context(), cascade.Val(values), cascade.Val(stepSettings{})).Get(s.Context()); err != nil {
		return fail(err)
	}
	_, err = badTask.Go(s.Context(), cascade.Val(badSettings{"forever"})).Get(s.Context())
	fmt.Printf("the call ended, the session is lost: %v: %v\n", errors.Is(err, cascade.ErrSessionLost), err)
	fmt.Printf("close, the session is lost: %v\n", errors.Is(s.Close(ctx), cascade.ErrSessionLost))
	return 0
}

// session starts a program that has opened a session and called a function, which runs.
// It returns the session, and the descriptor of the process that runs the function.
func session(t *testing.T, h *Host) (p *Process, id comms.JobID, runs int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from := h.Journal.Len()
	p = h.startWith(append(h.Env, sessionVar+"="+h.Address()), "program", self)
	h.Journal.AwaitLen(from + 3) // start and end of the first call, start of the second
	p.Await(".\n")               // it has told which session it has
	_, text, _ := strings.Cut(p.Output(), "session ")
	text, _, _ = strings.Cut(text, ".")
	if id, err = comms.ParseJobID(text); err != nil {
		t.Fatalf("the program has opened no session: %v\n%s", err, p.Output())
	}
	return p, id, processOf(t, h.Journal.Lines(from)[2])
}

// processOf returns a descriptor of the process that has written a line.
func processOf(t *testing.T, line Line) (fd int) {
	t.Helper()
	fd, err := unix.PidfdOpen(line.PID, 0)
	if err != nil {
		t.Fatalf("find the process that runs %s: %v", line.Task, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// awaitEnd waits until the process of a descriptor has ended.
func awaitEnd(t *testing.T, fd int) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(patience/time.Millisecond))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n == 0 || err != nil {
			t.Fatalf("the process that runs what was called lives on: %v", err)
		}
		return
	}
}

// sessionEnd waits for the end of a session's job.
func sessionEnd(t *testing.T, c *cascade.Client, id comms.JobID) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := c.Job(id).Wait(ctx)
	if ctx.Err() != nil {
		t.Fatalf("session %s has not ended: %v", id, err)
	}
	return err
}

// The program of a session is killed: its job fails, and the process ends that runs what
// it had called and does not look at its context.
func TestSessionProgramKilled(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	c := h.ReadyClient(1)
	p, id, runs := session(t, h)
	p.Kill()
	if err := sessionEnd(t, c, id); err == nil || !strings.Contains(err.Error(), "its program has ended") {
		t.Errorf("the job of the session ended with: %v", err)
	}
	awaitEnd(t, runs)
	next, id, _ := session(t, h) // the agent takes others
	next.Kill()
	if err := sessionEnd(t, c, id); err == nil {
		t.Error("the job of the next session ended well")
	}
}

// The agent of a session is killed: the program learns that the session is lost, and its
// job ends.
func TestSessionAgentKilled(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	agent := h.Agent()
	c := h.ReadyClient(1)
	p, id, runs := session(t, h)
	agent.Kill()
	p.Await("the call ended, the session is lost: true")
	p.Await("close, the session is lost: true")
	if code := p.Wait(); code != 0 {
		t.Errorf("the program ended with %d:\n%s", code, p.Output())
	}
	awaitEnd(t, runs)
	h.Agent()
	if err := sessionEnd(t, c, id); err == nil {
		t.Error("the job of the lost session ended well")
	}
}

// Program and agent are killed together: the session ends when the next agent comes.
func TestSessionBothKilled(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	agent := h.Agent()
	c := h.ReadyClient(1)
	p, id, runs := session(t, h)
	p.Kill()
	agent.Kill()
	awaitEnd(t, runs)
	h.Agent()
	if err := sessionEnd(t, c, id); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("the job of the session ended with: %v", err)
	}
}

// measures reads what an agent says of itself.
func measures(t *testing.T, address string) map[string]float64 {
	t.Helper()
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	all := map[string]float64{}
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		var name string
		var value float64
		if n, _ := fmt.Sscan(lines.Text(), &name, &value); n == 2 {
			all[name] = value
		}
	}
	return all
}

// Of a session whose program is killed, and that has called and made values, its agent has nothing any more: no row, no
// dataset, no run.
func TestNothingStaysOfASession(t *testing.T) {
	t.Parallel()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listen.Addr().String()
	if err := listen.Close(); err != nil {
		t.Fatal(err)
	}
	h := New(t)
	h.Controller()
	h.Agent("--metrics", address)
	c := h.ReadyClient(1)
	p, id, runs := session(t, h)
	names := []string{"cascade_agent_jobs", "cascade_agent_datasets", "cascade_agent_dispatched_attempts"}
	for _, name := range names {
		if n := measures(t, address)[name]; n == 0 {
			t.Errorf("%s is %v while the session runs", name, n)
		}
	}
	began := time.Now()
	p.Kill()
	if err := sessionEnd(t, c, id); err == nil {
		t.Error("the job of the session ended well")
	}
	awaitEnd(t, runs)
	for _, name := range names {
		for measures(t, address)[name] > 0 {
			if time.Since(began) > patience {
				t.Fatalf("%s is %v: %v after its program was killed", name, measures(t, address)[name], patience)
			}
		}
	}
	t.Logf("nothing is left %v after the program was killed", time.Since(began).Round(time.Millisecond))
}
