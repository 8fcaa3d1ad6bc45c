//go:build linux

package chaos

import (
	"errors"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// waitingGraph has a session run a graph that waits at a gate, on the host of a resource. It returns its job.
func waitingGraph(t *testing.T, h *Host, c *cascade.Client, s *cascade.Session, pipe, resource string) (cascade.GraphRun, cascade.Future[float64], *cascade.Job) {
	t.Helper()
	g := cascade.NewGraph("waits")
	x := gateTask.Add(g, "gate", cascade.With(gateSettings{pipe}), cascade.Resource(resource, 1))
	g.Output(x, "")
	from := h.Journal.Len()
	run := g.Go(s.Context())
	out := cascade.OutputOf(run, x)
	h.Journal.AwaitLen(from + 1) // it waits at the gate
	rows, err := cascade.Rows[comms.JobRow](t.Context(), c, comms.QueryJobs, comms.JobID{}, "waits")
	if err != nil || len(rows) != 1 {
		t.Fatalf("the jobs of the graph are %v, %v", rows, err)
	}
	id, err := comms.ParseJobID(rows[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	return run, out, c.Job(id)
}

// The agent of a session is killed that runs a graph on another host: the graph ends, although that host lives.
func TestGraphEndsWithItsAgent(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller("--grace", "500ms")
	agent := h.Agent("--cpu", "1")
	c := h.ReadyClient(1)
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.SecondAgent("--cpu", "1", "--resource", "at_a2=1")
	h.ReadyClient(2)
	run, _, job := waitingGraph(t, h, c, s, h.Pipe("shut"), "at_a2")
	agent.Kill()
	var failed *cascade.JobError
	if _, err := job.Wait(t.Context()); !errors.As(err, &failed) {
		t.Errorf("the job of the graph ended with %v", err)
	}
	if err := run.Wait(t.Context()); !errors.Is(err, cascade.ErrSessionLost) {
		t.Errorf("the run of the graph ended with %v", err)
	}
	if err := s.Close(t.Context()); !errors.Is(err, cascade.ErrSessionLost) {
		t.Errorf("the session ended with %v", err)
	}
}

// The controller is killed while a session waits for a graph: the next one tells the agent how that ends.
func TestGraphMeetsNextController(t *testing.T) {
	t.Parallel()
	h := New(t)
	controller := h.Controller()
	h.Agent("--cpu", "1", "--resource", "here=1")
	c := h.ReadyClient(1)
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pipe := h.Pipe("shut")
	run, out, job := waitingGraph(t, h, c, s, pipe, "here")
	controller.Kill()
	h.Controller()
	openGate(t, pipe)
	if x, err := out.Get(s.Context()); err != nil || x != 1 {
		t.Errorf("the graph returned %v, %v", x, err)
	}
	if err := run.Wait(s.Context()); err != nil {
		t.Error(err)
	}
	if p, err := job.Wait(t.Context()); err != nil || p.Phase != comms.JobDone {
		t.Errorf("its job ended with %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
