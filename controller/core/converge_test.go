package core

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// cluster is a core with honest agents, a store that may be slow, and links that
// break; agents and controller die and come back. Whatever happens, the job must
// end done, with every task done and every export somewhere.
type testCluster struct {
	world
	rt     *rapid.T
	g      *dag.Graph
	agents []*honest
	final  *comms.Progress
	spread bool // tasks go to any agents
	mail   []notice
}

// notice is what one agent tells another of a job.
type notice struct {
	from, to *honest
	incs     [2]uint64
	job      comms.JobID
	epoch    uint64
	data     []comms.Desc
}

// honest is an agent as the protocol wants it, which runs a task in a moment.
type honest struct {
	name   string
	inc    uint64
	link   LinkID
	next   uint64 // number of the next event
	jobs   map[comms.JobID]*honestJob
	events []*comms.Events // not committed
	sent   int             // of events, on this link
}

type honestJob struct {
	life    uint64
	epoch   uint64
	peers   []comms.Assignment
	remote  map[comms.DatasetRef]string // datasets to be fetched from agents
	run     map[dag.TaskIndex]uint32    // tasks to run, by attempt
	done    map[dag.TaskIndex]uint32
	data    map[comms.DatasetRef]comms.Desc
	drained bool
}

func (j *honestJob) refs() []comms.DatasetRef {
	return slices.SortedFunc(maps.Keys(j.data), comms.DatasetRef.Compare)
}

func (c *testCluster) deliver(actions []Action) {
	for _, a := range actions {
		switch a := a.(type) {
		case Send:
			c.message(a)
		case CloseLink:
			c.rt.Fatalf("the core closes a link: %s", a.Why)
		case StoreAgent:
			c.rows[a.Row.Name] = a.Row
		case Wake, GaveUp:
		default:
			c.todo = append(c.todo, a)
		}
	}
}

func (c *testCluster) event(ev Event) {
	actions := slices.Clone(c.c.Step(c.now, ev))
	if err := c.c.Check(); err != nil {
		c.rt.Fatalf("after %T: %v", ev, err)
	}
	c.checkHeld()
	c.checkExports()
	c.deliver(actions)
}

// checkHeld compares what agents have of jobs with what each task says of it.
func (c *testCluster) checkHeld() {
	for name := range c.c.agents {
		got := map[comms.JobID]Held{}
		for _, h := range c.c.HeldBy(name) {
			got[h.Job] = h
		}
		for _, j := range c.c.running {
			p := j.partOf(name)
			if p == nil || p.gone || j.states == nil || j.ending != nil {
				continue
			}
			var runs, waiting []dag.TaskIndex
			j.states.Each(func(t dag.TaskIndex, s TaskState) {
				if s.Over() || s == TaskAbsent || j.parts[j.ownerOf(t)] != p {
					return
				}
				if s == TaskRunning {
					runs = append(runs, t)
					return
				}
				waiting = append(waiting, t)
			})
			if h := got[j.id]; !slices.Equal(h.Runs, comms.Ranges(runs)) || !slices.Equal(h.Waiting, comms.Ranges(waiting)) {
				c.rt.Fatalf("agent %s has %+v of job %s; runs there %v, waits %v", name, h, j.id, runs, waiting)
			}
		}
	}
}

// checkExports compares what is found of exports from a place on with each dataset of them.
func (c *testCluster) checkExports() {
	for _, j := range c.c.running {
		if j.states == nil || len(j.graph.Exports) == 0 {
			continue
		}
		want := true
		for i := range j.graph.Exports {
			sources := j.graph.Exports[i].Sources
			here := !slices.ContainsFunc(sources, func(src dag.Source) bool {
				refs, complete := j.states.Expand(src)
				return !complete || slices.ContainsFunc(refs, func(r comms.DatasetRef) bool { _, ok := j.exports[r]; return !ok })
			})
			if got := j.all(sources, &place{}); got != here {
				c.rt.Fatalf("export %d is there: %v, want %v", i, got, here)
			}
			want = want && here
		}
		if got := j.complete(); got != want {
			c.rt.Fatalf("all exports are there: %v, want %v", got, want)
		}
	}
}

func (c *testCluster) message(s Send) {
	if p, ok := s.Msg.(*comms.Progress); ok && p.Final {
		c.final = p
	}
	for _, a := range c.agents {
		if a.link != s.Link {
			continue
		}
		switch m := s.Msg.(type) {
		case *comms.Assign:
			c.assign(a, m)
		case *comms.Steer:
			if m.Action == comms.SteerForget {
				delete(a.jobs, m.Job)
			}
		case *comms.Retain:
			if j := a.jobs[m.Job]; j != nil {
				maps.DeleteFunc(j.data, func(r comms.DatasetRef, _ comms.Desc) bool { return !slices.Contains(m.Keep, r) })
			}
		case *comms.Committed:
			for len(a.events) > 0 && lastOf(a.events[0]) <= m.UpTo {
				a.events, a.sent = a.events[1:], max(0, a.sent-1)
			}
		}
	}
}

func lastOf(e *comms.Events) uint64 { return e.First + uint64(len(e.Jobs[0].Events)) - 1 }

func (c *testCluster) assign(a *honest, m *comms.Assign) {
	j := a.jobs[m.Job]
	if j != nil && m.Epoch <= j.epoch {
		return
	}
	if j == nil {
		j = &honestJob{done: map[dag.TaskIndex]uint32{}, data: map[comms.DatasetRef]comms.Desc{}}
		a.jobs[m.Job] = j
	}
	j.life = m.JobIncarnation
	j.epoch, j.run, j.drained = m.Epoch, map[dag.TaskIndex]uint32{}, false
	k := 0
	for _, r := range m.Run {
		for t := r.First; t <= r.Last; t++ {
			attempt := uint32(1)
			if m.Attempts != nil {
				attempt = m.Attempts[k]
			}
			if attempt > j.done[t] {
				j.run[t] = attempt
			}
			k++
		}
	}
	j.peers, j.remote = m.Peers, map[comms.DatasetRef]string{}
	if m.Run == nil && m.Peers == nil {
		for t := range 6 {
			j.run[dag.TaskIndex(t)] = 1
		}
	}
	for _, d := range m.Datasets {
		if _, ok := j.data[d.Ref]; ok {
			continue
		}
		switch d.Place.Kind {
		case comms.PlaceInline:
			j.data[d.Ref] = d
		case comms.PlaceAgent:
			j.remote[d.Ref] = d.Place.Where
		case comms.PlaceSegment: // it should be here
			j.remote[d.Ref] = a.name
		}
	}
	for _, ref := range j.refs() { // new peers may know of nothing
		c.notify(a, m.Job, j, j.data[ref])
	}
}

// notify tells the peers that have consumers of a dataset.
func (c *testCluster) notify(a *honest, id comms.JobID, j *honestJob, d comms.Desc) {
	for _, p := range j.peers {
		reads := slices.ContainsFunc(c.g.Consumers(d.Ref.Task), func(e dag.Edge) bool {
			return slices.ContainsFunc(p.Run, func(r comms.Range) bool { return r.First <= e.Consumer && e.Consumer <= r.Last })
		})
		if to := c.agent(p.Agent); reads && to.inc == p.Incarnation {
			c.mail = append(c.mail, notice{a, to, [2]uint64{a.inc, to.inc}, id, j.epoch, []comms.Desc{d}})
		}
	}
}

func (c *testCluster) agent(name string) *honest {
	return c.agents[slices.IndexFunc(c.agents, func(a *honest) bool { return a.name == name })]
}

// deliverMail hands over one notice; those of a link keep their order. One for a
// higher epoch than the receiver's stays.
func (c *testCluster) deliverMail(from, to *honest) {
	for i, n := range c.mail {
		if n.from != from || n.to != to {
			continue
		}
		j := to.jobs[n.job]
		if n.incs == [2]uint64{from.inc, to.inc} && (j == nil || j.epoch < n.epoch) {
			return
		}
		c.mail = slices.Delete(c.mail, i, i+1)
		if n.incs != [2]uint64{from.inc, to.inc} {
			return
		}
		for _, d := range n.data {
			if _, mine := j.run[d.Ref.Task]; mine || j.data[d.Ref].Attempt >= d.Attempt {
				continue
			}
			if d.Place.Kind == comms.PlaceInline {
				j.data[d.Ref] = d
			} else {
				j.remote[d.Ref] = from.name
			}
		}
		return
	}
}

// fetch brings a dataset from where it is said to be; ok is false when it is not there.
func (c *testCluster) fetch(id comms.JobID, j *honestJob, ref comms.DatasetRef) (ok bool) {
	from := c.agent(j.remote[ref])
	if k := from.jobs[id]; k != nil && k != j {
		if d, has := k.data[ref]; has {
			j.data[ref] = d
			return true
		}
	}
	return false
}

// work runs the first task that can run, and tells of it when the job ends or by chance.
func (c *testCluster) work(a *honest, id comms.JobID) {
	j := a.jobs[id]
	if j == nil || j.drained {
		return
	}
	events := c.fetchInputs(id, j)
	for _, t := range slices.Sorted(maps.Keys(j.run)) {
		if !c.runnable(j, t) {
			continue
		}
		d := comms.Desc{Ref: comms.DatasetRef{Task: t}, Attempt: j.run[t], Place: comms.Place{Kind: comms.PlaceSegment}}
		if c.rt != nil && rapid.IntRange(0, 3).Draw(c.rt, "inline") == 0 {
			d.Place.Kind = comms.PlaceInline
		}
		j.data[d.Ref], j.done[t] = d, j.run[t]
		events = append(events, comms.Event{Kind: comms.EventFinished, Task: t, Attempt: j.run[t], Outputs: []comms.Desc{d}})
		delete(j.run, t)
		c.notify(a, id, j, d)
		break
	}
	if len(j.run) == 0 {
		j.drained = true
		events = append(events, comms.Event{Kind: comms.EventDrained})
	}
	if len(events) == 0 {
		return
	}
	a.events = append(a.events, &comms.Events{First: a.next, Jobs: []comms.JobEvents{{Job: id, JobIncarnation: j.life, Epoch: j.epoch, Events: events}}})
	a.next += uint64(len(events))
	c.sendEvents(a)
}

// fetchInputs brings what tasks need that run here; it returns what it tells of
// those datasets that are not where they should be.
func (c *testCluster) fetchInputs(id comms.JobID, j *honestJob) (events []comms.Event) {
	for _, ref := range slices.SortedFunc(maps.Keys(j.remote), comms.DatasetRef.Compare) {
		wanted := false
		for t := range j.run {
			ins, err := c.g.Inputs(t)
			if err != nil {
				c.rt.Fatal(err)
			}
			for _, in := range ins {
				wanted = wanted || slices.ContainsFunc(in.Sources, func(s dag.Source) bool { return s.Task == ref.Task })
			}
		}
		_, here := j.data[ref]
		if _, mine := j.run[ref.Task]; here || mine || !wanted {
			continue
		}
		if !c.fetch(id, j, ref) {
			events = append(events, comms.Event{Kind: comms.EventLost, Cause: comms.Cause{Kind: comms.CauseSubmit, Ref: ref}})
			delete(j.remote, ref)
		}
	}
	return events
}

func (c *testCluster) runnable(j *honestJob, t dag.TaskIndex) bool {
	ins, err := c.g.Inputs(t)
	if err != nil {
		c.rt.Fatal(err)
	}
	for _, in := range ins {
		for _, src := range in.Sources {
			if _, ok := j.data[comms.DatasetRef{Task: src.Task}]; !ok {
				return false
			}
		}
	}
	return true
}

func (c *testCluster) sendEvents(a *honest) {
	for a.link != 0 && a.sent < len(a.events) {
		m := a.events[a.sent]
		a.sent++
		c.event(Received{a.link, m})
	}
}

func (c *testCluster) connect(a *honest) {
	if a.link != 0 {
		return
	}
	c.next++
	a.link, a.sent = c.next, 0
	c.event(LinkUp{Link: a.link, Agent: true, Name: a.name, Incarnation: a.inc})
	c.event(Received{a.link, &comms.Register{Agent: a.name, Incarnation: a.inc, Total: comms.Resources{CPU: 2000}, LastEvent: a.next - 1}})
	s := &comms.Snapshot{Done: true}
	for id, j := range a.jobs {
		js := comms.JobState{Job: id, JobIncarnation: j.life, Epoch: j.epoch, Drained: j.drained && len(a.events) == 0}
		for _, ref := range j.refs() {
			js.Datasets = append(js.Datasets, j.data[ref])
		}
		s.Jobs = append(s.Jobs, js)
	}
	c.event(Received{a.link, s})
	c.sendEvents(a)
}

func (c *testCluster) cut(a *honest) {
	if a.link != 0 {
		c.event(LinkDown{Link: a.link})
		a.link = 0
	}
}

// restartController loses what the store has not done yet.
func (c *testCluster) restartController() {
	for _, a := range c.agents {
		a.link = 0
	}
	c.c, c.todo = New(Config{Spread: c.spread}), nil
	for _, name := range slices.Sorted(maps.Keys(c.rows)) {
		c.event(Known{c.rows[name]})
	}
	for _, k := range c.kept {
		c.event(k.Loaded())
	}
	c.event(Started{})
}

// finishOne completes the oldest slow action; those of the store keep their order.
func (c *testCluster) finishOne() {
	if len(c.todo) == 0 {
		return
	}
	a := c.todo[0]
	c.todo = c.todo[1:]
	switch a := a.(type) {
	case Create:
		c.kept[a.Row.ID] = NewKept(a, c.g)
		c.event(Stored{Token: a.Token})
	case Store:
		c.kept[a.Commit.Job].Apply(&a.Commit)
		c.event(Stored{Token: a.Token})
	case Prepare:
		// The store answers after everything that was submitted to it before.
		ev := Prepared{Token: a.Token, Job: a.Job, Graph: c.g, Bytes: []byte("g"), Plan: c.plan(a.Cluster)}
		if a.Past {
			ev.Past = c.kept[a.Job].Past()
		}
		c.event(ev)
	case Ask:
		c.event(Answered{Token: a.Token, Msg: c.answer(a.Msg)})
	default:
		c.rt.Fatalf("unexpected %T", a)
	}
}

// plan puts tasks anywhere when the job is to be spread.
func (c *testCluster) plan(cl planner.Cluster) *planner.Plan {
	p := planOf(c.rt, c.g, cl)
	if c.spread && len(cl.Hosts) > 1 {
		for range p.Tasks {
			p.Homes = append(p.Homes, int32(rapid.IntRange(0, len(cl.Hosts)-1).Draw(c.rt, "home")))
		}
	}
	return p
}

func planOf(t *rapid.T, g *dag.Graph, cl planner.Cluster) *planner.Plan {
	plan, err := planner.Make(g, profiles.Snapshot{}, cl)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestJobConverges(t *testing.T) { converges(t, 2, false) }

func TestJobOnSeveralAgentsConverges(t *testing.T) { converges(t, 3, true) }

func converges(t *testing.T, agents int, spread bool) {
	g := mustParse(t, `
job: d
environments: {e: {go: ./e}}
tasks:
  a: {run: "e:F", for: {i: "0..1"}, out: [x]}
  b: {run: "e:F", for: {i: "0..1"}, in: {x: "a[${i}].x"}, out: [x]}
  c: {run: "e:F", in: {x: "b[*].x", y: "a[0].x"}, out: [x]}
  d: {run: "e:F", in: {x: c.x}, out: [x]}
outputs: [d.x, "b[0].x"]
`)
	rapid.Check(t, func(rt *rapid.T) {
		c := &testCluster{rt: rt, g: g, spread: spread}
		c.world = world{t: t, now: time.Unix(1000, 0), graphs: map[string]*dag.Graph{"g": g}, kept: map[comms.JobID]*Kept{}, rows: map[string]records.Agent{}}
		for n := range agents {
			c.agents = append(c.agents, &honest{name: fmt.Sprintf("a%d", n), inc: 1, next: 1, jobs: map[comms.JobID]*honestJob{}})
		}
		id := testJob("1")
		c.restartController()
		client := func() LinkID {
			c.next++
			c.event(LinkUp{Link: c.next, Name: "c"})
			return c.next
		}
		for _, a := range c.agents[:rapid.IntRange(0, agents).Draw(rt, "first")] {
			c.connect(a)
		}
		c.event(Received{client(), &comms.Submit{Req: 1, Job: id, Graph: []byte("g"), GraphHash: "g"}})
		for c.kept[id] == nil {
			c.finishOne()
		}
		pick := func() *honest { return c.agents[rapid.IntRange(0, agents-1).Draw(rt, "agent")] }
		rt.Repeat(map[string]func(*rapid.T){
			"connect": func(*rapid.T) { c.connect(pick()) },
			"work":    func(*rapid.T) { c.work(pick(), id) },
			"work2":   func(*rapid.T) { c.work(pick(), id) },
			"mail":    func(*rapid.T) { c.deliverMail(pick(), pick()) },
			"mail2":   func(*rapid.T) { c.deliverMail(pick(), pick()) },
			"store":   func(*rapid.T) { c.finishOne() },
			"store2":  func(*rapid.T) { c.finishOne() },
			"cut":     func(*rapid.T) { c.cut(pick()) },
			"die": func(rt *rapid.T) {
				a := pick()
				c.cut(a)
				a.inc++
				a.events, a.sent = nil, 0
				for job, j := range a.jobs { // some of its datasets are found again, its work is not
					j.epoch, j.run, j.done, j.drained = 0, nil, map[dag.TaskIndex]uint32{}, true
					j.peers, j.remote = nil, nil
					for _, ref := range j.refs() {
						if rapid.Bool().Draw(rt, "gone") {
							delete(j.data, ref)
						}
					}
					if len(j.data) == 0 {
						delete(a.jobs, job)
					}
				}
			},
			"controller dies": func(rt *rapid.T) { c.restartController() },
			"time": func(rt *rapid.T) {
				c.now = c.now.Add(20 * time.Second)
				c.event(Tick{})
			},
			"rerun": func(rt *rapid.T) {
				c.event(Received{client(), &comms.Control{Req: 9, Job: id, Action: comms.SteerRerun, Tasks: []string{rapid.SampledFrom([]string{"a[0]", "b", "c", "d"}).Draw(rt, "task")}}})
			},
		})
		c.settleAll(id, client)
	})
}

// settleAll lets everything work until nothing changes, and requires the end.
func (c *testCluster) settleAll(id comms.JobID, client func() LinkID) {
	for _, a := range c.agents {
		c.connect(a)
	}
	for range 200 {
		for len(c.todo) > 0 {
			c.finishOne()
		}
		for _, a := range c.agents {
			c.connect(a)
			c.work(a, id)
			for _, b := range c.agents {
				c.deliverMail(a, b)
			}
		}
	}
	c.final = nil
	c.event(Received{client(), &comms.Watch{Req: 99, Job: id}})
	for len(c.todo) > 0 {
		c.finishOne()
	}
	j := c.c.jobs[id]
	if c.final == nil || c.final.Phase != comms.JobDone {
		for _, a := range c.agents {
			c.rt.Logf("agent %s: %+v", a.name, a.jobs[id])
		}
		for _, b := range c.kept[id].Batches {
			c.rt.Logf("batch %+v", b)
		}
		if j.live == nil {
			c.rt.Fatalf("the job has ended %s on %s at epoch %d: it must end done", j.remains.phase, j.remains.agent, j.remains.epoch)
		}
		j.states.Each(func(t dag.TaskIndex, s TaskState) {
			_, attempt := j.states.Get(t)
			c.rt.Logf("task %d is %s, attempt %d", t, s, attempt)
		})
		c.rt.Fatalf("the job is %s (stage %d) on %s at epoch %d: it must end done", j.rec.Phase, j.stage, j.rec.Agent, j.rec.Epoch)
	}
	for _, g := range c.final.Groups {
		if g.Done != g.Total {
			c.rt.Fatalf("group %+v of a job that is done", g)
		}
	}
	for _, name := range []string{"d", "b[0]"} {
		i, _ := c.g.Lookup(name)
		d, ok := j.exports[comms.DatasetRef{Task: i}]
		if !ok {
			c.rt.Fatalf("export %s is not known", name)
		}
		// A dataset may be lost with its agent once the job has ended; else it must be where it is said to be.
		if d.Desc.Place.Kind == comms.PlaceSegment {
			for _, a := range c.agents {
				if a.name == d.Agent && a.jobs[id] != nil {
					if _, there := a.jobs[id].data[d.Desc.Ref]; !there {
						c.rt.Fatalf("export %s is not on %s", name, a.name)
					}
				}
			}
		}
	}
	// What the store has alone tells the same.
	c.restartController()
	if again := c.c.jobs[id]; again.remains.phase != comms.JobDone || len(again.exports) != len(j.exports) {
		c.rt.Fatalf("after a restart the job is %s with %d exports, it was done with %d", again.remains.phase, len(again.exports), len(j.exports))
	}
}
