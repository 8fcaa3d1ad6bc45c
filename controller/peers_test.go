package controller

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

const job1 = `
job: d
environments: {e: {go: ./e}}
tasks:
  a: {run: "e:F", for: {i: "0..2"}, out: [x]}
  b: {run: "e:G", in: {x: "a[*].x"}, out: [x, y]}
outputs: [b.x]
`

func parse(t testing.TB, src string) *dag.Graph {
	t.Helper()
	g, err := dag.ParseYAML("job.yaml", []byte(src), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// running is a controller under test.
type running struct {
	*Controller
	cancel context.CancelFunc
	ended  chan error
}

// resumeWindow of controllers under test. Nobody is given up in it, however slow the host is.
const resumeWindow = 4 * time.Minute

// patience only keeps a failing test from hanging.
const patience = 4 * time.Minute

func startController(t *testing.T, dir string, net *comms.Inproc) *running {
	t.Helper()
	c, err := New(Config{Address: "inproc://controller", State: dir, Inproc: net, Shards: 2, Memory: 64 << 20, MinFree: 1, ResumeWindow: resumeWindow})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{c, cancel, make(chan error, 1)}
	go func() { r.ended <- c.Run(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

// startCluster starts a controller and an agent, and returns a client of them.
func startCluster(t *testing.T) *peerEnd {
	t.Helper()
	net := comms.NewInproc()
	startController(t, t.TempDir(), net)
	t.Cleanup(dialAgent(t, net, &fakeAgent{name: "a1"}).close)
	c := dialClient(t, net)
	t.Cleanup(c.close)
	return c
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	if r.ended != nil {
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
		r.ended = nil
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// peerEnd is one end of a link in a test: a client, or an agent that follows a script.
type peerEnd struct {
	t    testing.TB
	link *comms.Link
	got  chan comms.Message
	down chan struct{}                 // capacity 1
	on   func(*peerEnd, comms.Message) // an agent's script
	up   func(*peerEnd)

	mu     sync.Mutex
	bodies map[comms.Hash][]byte
}

func dialPeer(t testing.TB, net *comms.Inproc, p *peerEnd, id comms.Identity) *peerEnd {
	t.Helper()
	p.t, p.got, p.down, p.bodies = t, make(chan comms.Message, 10_000), make(chan struct{}, 1), map[comms.Hash][]byte{}
	l, err := comms.Dial(context.Background(), "inproc://controller", comms.Config{Self: id, Handler: p, Inproc: net, Replay: true, RetryMin: time.Millisecond, RetryMax: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	p.setLink(l)
	return p
}

func (p *peerEnd) setLink(l *comms.Link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = l
}

func dialClient(t testing.TB, net *comms.Inproc) *peerEnd {
	return dialPeer(t, net, &peerEnd{}, comms.Identity{Role: "client", Name: t.Name(), Incarnation: uint64(time.Now().UnixNano())})
}

// Up is called by the link.
func (p *peerEnd) Up(l *comms.Link, _ comms.Identity, resumed bool) {
	if p.up != nil && !resumed {
		p.setLink(l)
		p.up(p)
	}
}

// Message is called by the link.
func (p *peerEnd) Message(_ *comms.Link, head, body []byte) {
	m, err := comms.Decode(head)
	if err != nil {
		p.t.Error(err)
		return
	}
	if b, ok := m.(*comms.Blob); ok {
		p.mu.Lock()
		p.bodies[b.Hash] = append(p.bodies[b.Hash], body...)
		p.mu.Unlock()
	}
	if p.on != nil {
		p.on(p, m)
	}
	select {
	case p.got <- m:
	default: // nobody reads what this agent hears
		if p.on == nil {
			p.t.Errorf("%T is lost: the test reads too slowly", m)
		}
	}
}

// Credit is called by the link.
func (p *peerEnd) Credit(*comms.Link) {}

// Down is called by the link.
func (p *peerEnd) Down(*comms.Link, error) {
	select {
	case p.down <- struct{}{}:
	default:
	}
}

func (p *peerEnd) say(m comms.Message) { p.sayBody(m, nil) }

func (p *peerEnd) linked() *comms.Link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

func (p *peerEnd) sayBody(m comms.Message, body []byte) {
	if err := p.linked().Send(comms.Encode(m), body); err != nil {
		p.t.Errorf("send %T: %v", m, err)
	}
}

func (p *peerEnd) close() {
	if err := p.linked().Close(); err != nil {
		p.t.Log(err) // the controller may be gone already
	}
}

// expect returns the next message of a type, passing over others.
func expect[M comms.Message](p *peerEnd, what string, ok func(M) bool) M {
	p.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case m := <-p.got:
			if r, isReply := m.(*comms.Reply); isReply && r.Code != comms.CodeOK {
				if _, wanted := any(*new(M)).(*comms.Reply); !wanted {
					p.t.Fatalf("waiting for %s: refused: %s", what, r.Message)
				}
			}
			if m, is := m.(M); is && (ok == nil || ok(m)) {
				return m
			}
		case <-timeout.C:
			p.t.Fatalf("no %s came", what)
		}
	}
}

// fakeAgent runs every task that it is assigned at once: outputs are inline.
type fakeAgent struct {
	*peerEnd
	name        string
	inc         uint64
	next        uint64
	jobs        map[comms.JobID]*comms.Assign // epochs
	uncommitted []*comms.Events
	hold        bool // takes assignments and does nothing
	keeps       bool // outputs are not inline, but here
}

func dialAgent(t testing.TB, net *comms.Inproc, a *fakeAgent) *fakeAgent {
	a.next, a.jobs = 1, map[comms.JobID]*comms.Assign{}
	if a.inc == 0 {
		a.inc = 1
	}
	a.peerEnd = &peerEnd{on: a.message, up: a.hello}
	dialPeer(t, net, a.peerEnd, comms.Identity{Role: "agent", Name: a.name, Incarnation: a.inc, Build: "1.2.3"})
	return a
}

func (a *fakeAgent) hello(p *peerEnd) {
	p.say(&comms.Register{Agent: a.name, Incarnation: a.inc, Total: comms.Resources{CPU: 4000}, Addresses: []string{"inproc://" + a.name}})
	s := &comms.Snapshot{Done: true}
	for j, m := range a.jobs {
		s.Jobs = append(s.Jobs, comms.JobState{Job: j, JobIncarnation: m.JobIncarnation, Epoch: m.Epoch})
	}
	p.say(s)
	for _, b := range a.uncommitted {
		p.say(b)
	}
}

func (a *fakeAgent) message(p *peerEnd, m comms.Message) {
	switch m := m.(type) {
	case *comms.Assign:
		a.jobs[m.Job] = m
		if !a.hold {
			a.work(p, m)
		}
	case *comms.Committed:
		for len(a.uncommitted) > 0 && a.uncommitted[0].First+uint64(len(a.uncommitted[0].Jobs[0].Events))-1 <= m.UpTo {
			a.uncommitted = a.uncommitted[1:]
		}
	}
}

func (a *fakeAgent) work(p *peerEnd, m *comms.Assign) {
	data := m.Graph
	if data == nil {
		p.mu.Lock()
		data = p.bodies[m.GraphHash]
		p.mu.Unlock()
	}
	g, err := dag.Decode(data)
	if err != nil {
		p.t.Error(err)
		return
	}
	run := m.Run
	if run == nil {
		run = []comms.Range{{First: 0, Last: dag.TaskIndex(g.NumTasks() - 1)}}
	}
	var events []comms.Event
	k := 0
	for _, r := range run {
		for i := r.First; i <= r.Last; i++ {
			attempt := uint32(1)
			if m.Attempts != nil {
				attempt = m.Attempts[k]
			}
			k++
			e := comms.Event{Kind: comms.EventFinished, Task: i, Attempt: attempt, At: time.Now().UnixNano(), Executor: 1,
				Cause: comms.Cause{Kind: comms.CauseSubmit}, Usage: &comms.Usage{Start: time.Now().UnixNano(), Duration: 2e9, BytesOut: 7, PeakRSS: 100}}
			for o := range g.Group(i).Outputs {
				at := comms.Place{Kind: comms.PlaceInline, Bytes: []byte("abc")}
				if a.keeps {
					at = comms.Place{Kind: comms.PlaceAgent, Where: a.name}
				}
				e.Outputs = append(e.Outputs, comms.Desc{Ref: comms.DatasetRef{Task: i, Output: uint32(o)}, Attempt: attempt, Codec: "raw", Size: 3, Place: at})
			}
			events = append(events, e)
		}
	}
	events = append(events, comms.Event{Kind: comms.EventEnv, Cause: comms.Cause{Text: "e"}}, comms.Event{Kind: comms.EventDrained})
	b := &comms.Events{First: a.next, Jobs: []comms.JobEvents{{Job: m.Job, JobIncarnation: m.JobIncarnation, Epoch: m.Epoch, Events: events}}}
	a.next += uint64(len(events))
	a.uncommitted = append(a.uncommitted, b)
	p.say(b)
}
