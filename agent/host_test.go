//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// testPatience only keeps a failing test from hanging: a build for a test may take minutes on a busy host.
const testPatience = 5 * time.Minute

// host is an agent with real executors, and the controller of the test.
type host struct {
	t     testing.TB
	agent *Agent
	dir   string // the jobs' folder
	ctrl  *fakeController
	stop  func() error
}

// startHost starts an agent whose executors are this test binary.
func startHost(t testing.TB, change func(*Config)) *host {
	t.Helper()
	h := &host{t: t}
	h.ctrl = newFakeController(t)
	cfg := Config{
		Name: "host", Controller: h.ctrl.ln.Addr(), Inproc: h.ctrl.inproc,
		State: t.TempDir(), Cache: t.TempDir(), Dir: t.TempDir(),
		CPU: 2000, Memory: 1 << 30, Store: 64 << 20, Warm: 1, Log: testLog(t),
		Env: []string{"GORACE=atexit_sleep_ms=0"},
	}
	if change != nil {
		change(&cfg)
	}
	h.dir = cfg.Dir
	var err error
	if h.agent, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- h.agent.Run(ctx) }()
	h.stop = sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-ran, h.agent.Close())
	})
	t.Cleanup(func() {
		if err := h.stop(); err != nil {
			t.Errorf("stop agent: %v", err)
		}
	})
	return h
}

// testLog prints the agent's log when CASCADE_TEST_LOG is set.
func testLog(t testing.TB) zerolog.Logger {
	if os.Getenv("CASCADE_TEST_LOG") == "" {
		return zerolog.Nop()
	}
	return zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).With().Timestamp().Str("test", t.Name()).Logger()
}

// fakeController takes one agent's events, commits them, and lets tests wait for them.
type fakeController struct {
	t      testing.TB
	ln     *comms.Listener
	inproc *comms.Inproc

	mu     sync.Mutex
	change sync.Cond
	link   *comms.Link
	known  comms.Snapshot
	events map[comms.JobID][]comms.Event
	flows  []comms.Flow
	over   bool
}

func newFakeController(t testing.TB) *fakeController {
	t.Helper()
	c := &fakeController{t: t, inproc: comms.NewInproc(), events: map[comms.JobID][]comms.Event{}}
	c.change.L = &c.mu
	var err error
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.ln, err = comms.Listen("inproc://controller,ipc://"+filepath.Join(dir, "c.sock"), comms.Config{
		Self:    comms.Identity{Role: "controller", Name: "controller", Incarnation: 1, PID: os.Getpid()},
		Handler: c, Inproc: c.inproc, Replay: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.ln.Close() })
	return c
}

func (c *fakeController) Up(l *comms.Link, _ comms.Identity, _ bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = l
	c.change.Broadcast()
}

func (c *fakeController) Message(l *comms.Link, head, _ []byte) {
	m, err := comms.Decode(head)
	if err != nil {
		c.t.Errorf("controller got: %v", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := m.(type) {
	case *comms.Snapshot:
		c.known.Jobs = append(c.known.Jobs, m.Jobs...)
		c.known.Done = m.Done
	case *comms.Events:
		n := m.First - 1
		for _, j := range m.Jobs {
			for i := range j.Events {
				j.Events[i].Each(func(e *comms.Event) bool { c.events[j.Job] = append(c.events[j.Job], *e); return true })
			}
			n += uint64(len(j.Events))
		}
		c.flows = append(c.flows, m.Flows...)
		l.Send(comms.Encode(&comms.Committed{UpTo: n}), nil)
	}
	c.change.Broadcast()
}

func (c *fakeController) Credit(*comms.Link)      {}
func (c *fakeController) Down(*comms.Link, error) {}

// await waits until ok says so. The limit only keeps a failing test from hanging.
func (c *fakeController) await(what string, ok func() bool) {
	c.t.Helper()
	late := time.AfterFunc(testPatience, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.over = true
		c.change.Broadcast()
	})
	defer late.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !ok() {
		if c.over {
			c.t.Fatalf("%s does not happen; events: %.4000s", what, fmt.Sprintf("%+v", c.events))
		}
		c.change.Wait()
	}
}

func (c *fakeController) send(m comms.Message) {
	c.t.Helper()
	c.await("a link to the agent", func() bool { return c.link != nil })
	if err := c.link.Send(comms.Encode(m), nil); err != nil {
		c.t.Fatal(err)
	}
}

// job is a job that a test gave to a host.
type job struct {
	host  *host
	id    comms.JobID
	graph *dag.Graph
}

// submit reads a job file and assigns all of it.
func (h *host) submit(yaml string) *job {
	h.t.Helper()
	j := h.prepare(yaml)
	j.assign()
	return j
}

// prepare reads a job file.
func (h *host) prepare(yaml string) *job {
	h.t.Helper()
	graph, err := dag.ParseYAML("job.yaml", []byte(yaml), dag.Override{}, dag.Options{Dir: h.dir})
	if err != nil {
		h.t.Fatal(err)
	}
	id, err := comms.NewJobID()
	if err != nil {
		h.t.Fatal(err)
	}
	return &job{h, id, graph}
}

// assign gives the job to the host.
func (j *job) assign() {
	j.host.t.Helper()
	j.host.ctrl.send(&comms.Assign{Job: j.id, Epoch: 1, Graph: j.graph.Encode(), Dir: j.host.dir})
}

// ended waits until nothing of the job runs any more, and returns how its tasks
// ended: one line a task that ended, in order of the graph.
func (j *job) ended() string {
	j.host.t.Helper()
	j.drained()
	c := j.host.ctrl
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := make([]string, j.graph.NumTasks())
	for _, e := range c.events[j.id] {
		if int(e.Task) >= len(lines) {
			continue
		}
		name := j.graph.TaskName(e.Task)
		switch e.Kind {
		case comms.EventFinished:
			lines[e.Task] = fmt.Sprintf("%s finished %d", name, e.Attempt)
		case comms.EventFailed:
			lines[e.Task] = fmt.Sprintf("%s failed %d %s", name, e.Attempt, e.Error.Text())
		case comms.EventSkipped:
			lines[e.Task] = name + " skipped"
		case comms.EventCancelled:
			lines[e.Task] = name + " cancelled"
		}
	}
	return strings.Join(lines, "\n")
}

// event waits for an event of a task.
func (j *job) event(task string, kind comms.EventKind) comms.Event {
	j.host.t.Helper()
	index, ok := j.graph.Lookup(task)
	if !ok {
		j.host.t.Fatalf("no task %s", task)
	}
	var found comms.Event
	c := j.host.ctrl
	c.await(fmt.Sprintf("event %d of %s", kind, task), func() bool {
		for _, e := range c.events[j.id] {
			if e.Task == index && e.Kind == kind {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// output waits for the task's end and returns the descriptor of its output.
func (j *job) output(task string) comms.Desc {
	j.host.t.Helper()
	e := j.event(task, comms.EventFinished)
	if len(e.Outputs) == 0 {
		j.host.t.Fatalf("task %s finished without outputs: %+v", task, e)
	}
	return e.Outputs[0]
}

// bytes fetches a dataset from the agent, or takes it out of its descriptor.
func (h *host) bytes(job comms.JobID, d comms.Desc) []byte {
	h.t.Helper()
	if d.Place.Kind == comms.PlaceInline {
		return d.Place.Bytes
	}
	return h.fetch(&comms.Fetch{Data: comms.DatasetID{Job: job, DatasetRef: d.Ref}})
}

// log fetches all that a task wrote.
func (h *host) log(job comms.JobID, task string) string {
	h.t.Helper()
	return string(h.fetch(&comms.Fetch{Log: true, Task: task, Data: comms.DatasetID{Job: job}}))
}

// fetch asks for piece after piece.
func (h *host) fetch(m *comms.Fetch) []byte {
	h.t.Helper()
	got := make(chan answer, 1)
	link, err := comms.Dial(context.Background(), "ipc://"+filepath.Join(h.agent.cfg.Runtime, "agent.sock"), comms.Config{
		Self:    comms.Identity{Role: "client", Name: "test", Incarnation: uint64(time.Now().UnixNano()), PID: os.Getpid()},
		Handler: answers(got), Replay: true,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	defer link.Close()
	var all []byte
	for {
		m.Req++
		m.Offset = uint64(len(all))
		if err := link.Send(comms.Encode(m), nil); err != nil {
			h.t.Fatal(err)
		}
		a := <-got
		chunk, ok := a.msg.(*comms.Chunk)
		if !ok || chunk.Req != m.Req || chunk.Offset != m.Offset {
			h.t.Fatalf("answer %+v, error %v", a.msg, a.err)
		}
		all = append(all, a.body...)
		if uint64(len(all)) >= chunk.Total {
			return all
		}
		if len(a.body) == 0 {
			h.t.Fatalf("%d of %d bytes, and no more", len(all), chunk.Total)
		}
	}
}

type answer struct {
	msg  comms.Message
	body []byte
	err  error
}

// answers is the handler of a client's link.
type answers chan answer

func (a answers) Up(*comms.Link, comms.Identity, bool) {}
func (a answers) Credit(*comms.Link)                   {}
func (a answers) Down(_ *comms.Link, err error)        { a <- answer{err: errors.Join(err, io.EOF)} }
func (a answers) Message(_ *comms.Link, head, body []byte) {
	m, err := comms.Decode(head)
	a <- answer{m, body, err}
}

// dump prints all events of a job, for people who look into a failing test.
func (j *job) dump() {
	j.host.ctrl.mu.Lock()
	defer j.host.ctrl.mu.Unlock()
	for _, e := range j.host.ctrl.events[j.id] {
		j.host.t.Logf("kind %d task %d attempt %d cause %+v error %+v", e.Kind, e.Task, e.Attempt, e.Cause, e.Error)
	}
}

// drained waits until nothing of the job runs any more.
func (j *job) drained() {
	j.host.t.Helper()
	c, seen := j.host.ctrl, 0
	c.await("the end of the job", func() bool {
		events := c.events[j.id]
		for ; seen < len(events); seen++ {
			if events[seen].Kind == comms.EventDrained {
				return true
			}
		}
		return false
	})
}
