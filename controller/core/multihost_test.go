package core

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// holder is an agent with room for its members of one gang at a time.
type holder struct {
	name  string
	in    []*comms.GangCommand
	out   []*comms.GangStatus
	parts map[dag.TaskIndex]*holding // by gang
	bound dag.TaskIndex              // the gang that it holds all for
	busy  bool                       // it does
}

// holding is one agent's members of a gang.
type holding struct {
	members int
	able    bool // they could start
	said    comms.GangState
	told    comms.GangStep
	turn    uint64
}

// gatherers is a core with some agents, and gangs that each have members on several.
type gatherers struct {
	rt     *rapid.T
	c      *Core
	j      *job
	agents []*holder
	size   int
	gangs  []dag.TaskIndex
}

func newGatherers(rt *rapid.T) *gatherers {
	w := &gatherers{rt: rt, c: New(Config{Spread: true}), size: 4}
	n := rapid.IntRange(1, 3).Draw(rt, "gangs")
	var text strings.Builder
	text.WriteString("job: d\nenvironments: {e: {go: ./e}}\ntasks:\n")
	for i := range n {
		fmt.Fprintf(&text, "  g%d: {run: \"e:F\", gang: %d, priority: %d}\n", i, w.size, rapid.IntRange(0, 1).Draw(rt, "priority"))
	}
	g, err := dag.ParseYAML("job.yaml", []byte(text.String()), dag.Override{}, dag.Options{})
	if err != nil {
		rt.Fatal(err)
	}
	w.c.started = true
	w.j = &job{id: testJob("1"), life: 1, stage: stageActive, durable: true, live: &live{graph: g, states: NewStates(g), request: &comms.Submit{}}}
	w.j.rec = records.Job{ID: w.j.id, JobIncarnation: 1, Phase: comms.JobRunning, Epoch: 1}
	w.c.jobs[w.j.id], w.c.running[w.j.id] = w.j, w.j
	var parts []*part
	for i := range 3 {
		a := &holder{name: fmt.Sprintf("a%d", i), parts: map[dag.TaskIndex]*holding{}}
		w.agents = append(w.agents, a)
		l := &link{id: LinkID(i + 1), agent: true, name: a.name, watches: map[*watch]struct{}{}}
		w.c.links[l.id] = l
		w.c.agents[a.name] = &agent{row: records.Agent{Name: a.name, Incarnation: 1}, link: l, synced: true}
		parts = append(parts, &part{agent: a.name, incarnation: 1, told: 1})
	}
	for i := range n {
		first := dag.TaskIndex(i * w.size)
		w.gangs = append(w.gangs, first)
		for m := range w.size {
			k := m % 2 // at least two agents
			if m > 1 {
				k = rapid.IntRange(0, 2).Draw(rt, "agent")
			}
			t := first + dag.TaskIndex(m)
			parts[k].run = append(parts[k].run, comms.Range{First: t, Last: t})
			h := w.agents[k].parts[first]
			if h == nil {
				h = &holding{}
				w.agents[k].parts[first] = h
			}
			h.members++
		}
	}
	w.j.setParts(parts)
	return w
}

// step takes what the core says to the agents.
func (w *gatherers) step(ev Event) {
	for _, a := range w.c.Step(time.Unix(1000, 0), ev) {
		s, is := a.(Send)
		if m, ok := s.Msg.(*comms.GangCommand); is && ok {
			to := w.agents[s.Link-1]
			to.in = append(to.in, m)
		}
	}
}

// say has an agent tell what changed of its members.
func (w *gatherers) say(a *holder) {
	for _, first := range w.gangs {
		h := a.parts[first]
		if h == nil || h.told == comms.GangStart {
			continue
		}
		if h.able && h.told == comms.GangReserve && !a.busy {
			a.busy, a.bound = true, first
		}
		want := comms.GangWaiting
		switch {
		case h.able && a.busy && a.bound == first:
			want = comms.GangReserved
		case h.able:
			want = comms.GangReady
		}
		if want == h.said || want == comms.GangWaiting && h.said == 0 {
			continue
		}
		m := &comms.GangStatus{Job: w.j.id, JobIncarnation: 1, Epoch: 1, Task: first, State: want}
		if want == comms.GangReserved {
			m.Turn = h.turn
			for i := range h.members {
				m.Members = append(m.Members, fmt.Sprintf("%s:%d.%d", a.name, h.turn, i))
			}
		}
		if h.said = want; want == comms.GangWaiting && !(a.busy && a.bound == first) {
			h.told = 0
		}
		a.out = append(a.out, m)
	}
}

// hear has an agent take one message.
func (w *gatherers) hear(a *holder) {
	m := a.in[0]
	a.in = a.in[1:]
	w.rt.Logf("%s <- gang %d step %d turn %d", a.name, m.Task, m.Step, m.Turn)
	h := a.parts[m.Task]
	holds := a.busy && a.bound == m.Task
	switch m.Step {
	case comms.GangReserve:
		h.said, h.told, h.turn = comms.GangReady, m.Step, m.Turn
	case comms.GangStart:
		if !holds || h.turn != m.Turn {
			w.rt.Fatalf("%s is told to start members of gang %d in turn %d: it holds nothing for them", a.name, m.Task, m.Turn)
		}
		if len(m.Members) != w.size {
			w.rt.Fatalf("gang %d is told of %d members: %v", m.Task, len(m.Members), m.Members)
		}
		for _, at := range m.Members { // what was said in this turn
			if !strings.Contains(at, fmt.Sprintf(":%d.", m.Turn)) {
				w.rt.Fatalf("gang %d is told in turn %d of %v", m.Task, m.Turn, m.Members)
			}
		}
		h.told, a.busy = m.Step, false // they end at once
	case comms.GangAbort:
		if h.turn == m.Turn || h.told == 0 {
			if h.said, h.told = 0, 0; holds {
				a.busy = false
			}
		}
	}
	w.say(a)
}

// started lists the agents that were told to start their members of a gang.
func (w *gatherers) started(first dag.TaskIndex) (n, of int) {
	for _, a := range w.agents {
		if h := a.parts[first]; h != nil {
			of++
			if h.told == comms.GangStart {
				n++
			}
		}
	}
	return n, of
}

// Gangs on agents that each have room for one at a time, and that now and then
// cannot: whatever the order of messages, nobody is told to start what it does not
// hold, and when all could start all do.
func TestGathering(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newGatherers(rt)
		deliver := func(a *holder) {
			switch in := len(a.in) > 0; {
			case in && (len(a.out) == 0 || rapid.Bool().Draw(rt, "to the agent")):
				w.hear(a)
			case len(a.out) > 0:
				m := a.out[0]
				a.out = a.out[1:]
				rt.Logf("%s -> gang %d state %d turn %d", a.name, m.Task, m.State, m.Turn)
				w.step(Received{LinkID(slices.Index(w.agents, a) + 1), m})
			}
		}
		for range rapid.IntRange(0, 80).Draw(rt, "steps") {
			a := w.agents[rapid.IntRange(0, 2).Draw(rt, "who")]
			if rapid.IntRange(0, 3).Draw(rt, "what") > 0 {
				deliver(a)
				continue
			}
			if h := a.parts[w.gangs[rapid.IntRange(0, len(w.gangs)-1).Draw(rt, "gang")]]; h != nil {
				h.able = !h.able
				w.say(a)
			}
		}
		for _, a := range w.agents {
			for _, h := range a.parts {
				h.able = true
			}
			w.say(a)
		}
		for steps := 0; slices.ContainsFunc(w.agents, func(a *holder) bool { return len(a.in)+len(a.out) > 0 }); steps++ {
			for _, a := range w.agents {
				deliver(a)
			}
			if steps > 10_000 {
				rt.Fatal("it never settles")
			}
		}
		for _, first := range w.gangs {
			if n, of := w.started(first); n != of {
				rt.Fatalf("of gang %d %d of %d agents were told to start their members", first, n, of)
			}
		}
	})
}

// What makes no sense in an agent's word is said to be wrong.
func TestWrongMuster(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte("job: d\nenvironments: {e: {go: ./e}}\ntasks:\n  a: {run: \"e:F\"}\n  g: {run: \"e:F\", gang: 2}\n"), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		m    comms.GangStatus
		want string
	}{
		{comms.GangStatus{Task: 1, State: comms.GangReady}, ""},
		{comms.GangStatus{Task: 1, State: comms.GangReserved, Members: []string{"h1:1", "[::1]:2"}}, ""},
		{comms.GangStatus{Task: 3, State: comms.GangReady}, "a gang of task number 3, of 3"},
		{comms.GangStatus{Task: 0, State: comms.GangReady}, "task number 0 is not the first of a gang"},
		{comms.GangStatus{Task: 2, State: comms.GangReady}, "task number 2 is not the first of a gang"},
		{comms.GangStatus{Task: 1}, "the members of a gang are in state 0"},
		{comms.GangStatus{Task: 1, State: comms.GangStarted + 1}, "the members of a gang are in state 5"},
		{comms.GangStatus{Task: 1, State: comms.GangReserved, Members: []string{"h1:1", "h1:2", "h1:3"}}, "3 members of a gang of 2"},
		{comms.GangStatus{Task: 1, State: comms.GangReserved, Members: []string{"h1:1,h2:2"}}, `a member of a gang is reached at "h1:1,h2:2": want host:port`},
	} {
		if got := wrongMuster(g, &tt.m); got != tt.want {
			t.Errorf("%+v: it says %q, want %q", tt.m, got, tt.want)
		}
	}
}
