package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/memnet"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/dag"
)

// client submits jobs, watches them, and asks for this and that. It repeats what
// was not answered when its link was lost.
type client struct {
	process
	jobs    []*clientJob
	req     uint64
	waits   map[uint64]func(comms.Message) // by request; nil for a Watch
	up      bool
	stage   int
	fetched map[uint64]comms.DatasetID // by request
	left    int                        // answers due in this stage
	dialled bool                       // the agents
	reached map[string]bool            // agents
	reads   map[uint64]*reading        // by request
	asking  bool                       // again is planned
}

// reading is an output that the client asked an agent for.
type reading struct {
	j *clientJob
	d *comms.LocatedData
}

type clientJob struct {
	id                         comms.JobID
	graph                      *dag.Graph
	bytes                      []byte
	hold                       bool
	submitted, accepted, final bool
	doubt                      int // reruns that were asked for, and whose answers have not come
	phase                      comms.JobPhase
	err                        error
}

// Stages of a client's life after all is well.
const (
	stageWork = iota
	stageFetch
	stageForget
	stageOver
)

// lateNews is how long a run goes on when its jobs are forgotten: news of peers about a
// job that was forgotten wait for a minute, and no link may end for them.
const lateNews = 65 * time.Second

func newClient(w *world) *client {
	c := &client{process: process{w: w, name: "client"}, waits: map[uint64]func(comms.Message){}, fetched: map[uint64]comms.DatasetID{}, reached: map[string]bool{}, reads: map[uint64]*reading{}}
	for i := range w.fate.jobs {
		j := &clientJob{hold: w.chance(50)}
		j.id[15] = byte(i + 1)
		g := randomGraph(w.rnd, fmt.Sprintf("job%d", i+1), &w.fate, w.without)
		j.bytes = g.Encode()
		j.graph = g
		c.jobs = append(c.jobs, j)
		w.oracle.add(j.id, g)
	}
	return c
}

func (c *client) boot() {
	c.begin()
	w := c.w
	w.net.Start(w.now, c.name)
	if err := w.net.Connect(w.now, c.name, w.controller.name); err != nil {
		w.fail(comms.JobID{}, "%v", err)
	}
	for _, j := range c.jobs {
		c.after(w.between(0, w.fate.heal/2), func() { j.submitted = true; c.submit(j) })
	}
}

func (c *client) deliver(d memnet.Delivery[comms.Message]) {
	if d.From != c.w.controller.name {
		switch d.Kind {
		case memnet.Message:
			c.post(func() { c.answered(d.Msg) })
		case memnet.Up:
			c.post(func() { c.agentUp(d.From, d.Resumed) })
		case memnet.Down, memnet.Credit:
		}
		return
	}
	switch d.Kind {
	case memnet.Up:
		c.post(func() {
			c.up = true
			if !d.Resumed {
				c.again()
			}
		})
	case memnet.Down:
		c.post(func() { c.up = false })
	case memnet.Message:
		c.post(func() {
			c.w.tellMessage(c.name, "from controller", d.Msg)
			c.answered(d.Msg)
		})
	case memnet.Credit:
	}
}

// send asks something; then gets the answer. A request that cannot be sent is repeated after the next Up.
func (c *client) send(m comms.Message, then func(comms.Message)) {
	c.waits[c.req] = then
	c.w.tellMessage(c.name, "to controller", m)
	if err := c.w.net.Send(c.w.now, c.name, c.w.controller.name, m); err != nil {
		delete(c.waits, c.req)
		if !c.asking {
			c.asking = true
			c.after(10*time.Millisecond, func() { c.asking = false; c.again() })
		}
	}
}

func (c *client) next() uint64 { c.req++; return c.req }

func (c *client) submit(j *clientJob) {
	c.send(&comms.Submit{Req: c.next(), Job: j.id, Graph: j.bytes, Hold: j.hold, Watch: true}, func(m comms.Message) {
		switch m := m.(type) {
		case *comms.Accepted:
			j.accepted = true
		case *comms.Progress:
			c.progressed(j, m)
		case *comms.Reply:
			if m.Code != comms.CodeUnavailable {
				c.w.fail(j.id, "a submit is refused: %s", m.Message)
				return
			}
			c.after(50*time.Millisecond, func() {
				if !j.accepted { // asked anew meanwhile
					c.submit(j)
				}
			})
		}
	})
}

func (c *client) watch(j *clientJob) {
	c.send(&comms.Watch{Req: c.next(), Job: j.id, Every: int64(time.Millisecond)}, func(m comms.Message) {
		switch m := m.(type) {
		case *comms.Progress:
			c.progressed(j, m)
		case *comms.Reply:
			c.w.fail(j.id, "the job was accepted and cannot be watched: %s", m.Message)
		}
	})
}

func (c *client) progressed(j *clientJob, m *comms.Progress) {
	if m.Final {
		j.final, j.phase = true, m.Phase
		if m.Error != nil {
			j.err = m.Error
		}
		delete(c.waits, m.Req)
		c.progress()
	}
}

// again asks anew for what a lost link may have swallowed.
func (c *client) again() {
	if len(c.waits) > 0 {
		clear(c.waits)
	}
	for _, j := range c.jobs {
		switch {
		case !j.submitted:
		case !j.accepted:
			c.submit(j)
		case !j.final || j.doubt > 0:
			j.final, j.doubt = false, 0
			if c.stage < stageForget {
				c.watch(j)
			}
		}
	}
	if c.stage > stageWork {
		c.stage--
		c.progress()
	}
}

func (c *client) answered(m comms.Message) {
	req, _ := comms.RequestOf(m)
	then := c.waits[req]
	if then == nil {
		return
	}
	switch m.(type) {
	case *comms.Accepted, *comms.Progress:
	default:
		delete(c.waits, req)
	}
	then(m)
	c.progress()
}

// steerReason is told with all that a client asks for.
const steerReason = "the client asks for it"

// steer asks for something at random.
func (c *client) steer() {
	w := c.w
	j := c.jobs[w.rnd.IntN(len(c.jobs))]
	what := w.rnd.IntN(6)
	t := dag.TaskIndex(w.rnd.IntN(max(1, j.graph.NumTasks())))
	back := w.between(0, w.fate.heal)
	if !c.up || !j.accepted {
		return
	}
	control := func(a comms.SteerAction, tasks []string, then func(comms.Message)) {
		c.send(&comms.Control{Req: c.next(), Job: j.id, Action: a, Tasks: tasks, Reason: steerReason}, then)
	}
	nothing := func(comms.Message) {}
	f := w.oracle.facts[j.id]
	switch what {
	case 0:
		f.cancel = true
		control(comms.SteerCancel, nil, nothing)
	case 1, 2:
		control(comms.SteerHold, nil, nothing)
		c.after(back, func() { control(comms.SteerRelease, nil, nothing) })
	case 3, 4:
		if j.graph.NumTasks() == 0 {
			return
		}
		f.rerun([]dag.TaskIndex{t})
		j.doubt++
		control(comms.SteerRerun, []string{j.graph.TaskName(t)}, func(m comms.Message) {
			j.doubt--
			if r, ok := m.(*comms.Reply); ok && r.Code == comms.CodeOK && j.final {
				j.final = false
				c.watch(j)
			}
		})
	case 5:
		c.send(&comms.Locate{Req: c.next(), Job: j.id}, nothing)
	}
}

// sawFailure is told of each attempt that has failed, before the client could know of it.
func (c *client) sawFailure(id comms.JobID) {
	w := c.w
	cancels, in := w.chance(w.fate.cancelFailing), w.between(0, 3*time.Millisecond)
	if !cancels || w.healed {
		return
	}
	c.after(in, func() {
		for _, j := range c.jobs {
			if j.id == id && c.up && j.accepted && c.stage == stageWork {
				w.oracle.facts[id].cancel = true
				c.send(&comms.Control{Req: c.next(), Job: id, Action: comms.SteerCancel}, func(comms.Message) {})
			}
		}
	})
}

// heal releases every job, until all have ended.
func (c *client) heal() {
	for _, j := range c.jobs {
		if c.up && j.accepted && !j.final && c.stage == stageWork {
			c.send(&comms.Control{Req: c.next(), Job: j.id, Action: comms.SteerRelease}, func(comms.Message) {})
		}
	}
	c.progress()
	if c.stage == stageWork {
		c.after(500*time.Millisecond, c.heal)
	}
}

// progress goes on to the next stage when this one is over.
func (c *client) progress() {
	if !c.w.healed || len(c.waits) > 0 || c.w.failed != nil {
		return
	}
	switch c.stage {
	case stageWork:
		for _, j := range c.jobs {
			if !j.final || !j.accepted || j.doubt > 0 {
				return
			}
		}
		c.stage = stageFetch
		c.fetch()
	case stageFetch:
		if c.left > 0 {
			return
		}
		c.stage = stageForget
		for _, j := range c.jobs {
			c.send(&comms.Control{Req: c.next(), Job: j.id, Action: comms.SteerForget}, func(m comms.Message) {
				if r, ok := m.(*comms.Reply); ok && r.Code != comms.CodeOK && r.Code != comms.CodeNotFound {
					c.w.fail(j.id, "the job cannot be forgotten: %s", r.Message)
				}
			})
		}
	case stageForget:
		c.stage = stageOver
		c.after(lateNews, func() { c.w.oracle.empty(); c.w.done = true })
	}
}

// fetch looks at every job and asks for its outputs.
func (c *client) fetch() {
	w := c.w
	for _, a := range w.agents {
		if !c.dialled {
			c.left++
			if err := w.net.Connect(w.now, c.name, a.name); err != nil {
				w.fail(comms.JobID{}, "%v", err)
			}
		}
	}
	c.dialled = true
	for _, j := range c.jobs {
		if w.oracle.ended(j); j.phase != comms.JobDone {
			continue
		}
		c.send(&comms.Locate{Req: c.next(), Job: j.id}, func(m comms.Message) {
			switch m := m.(type) {
			case *comms.Located:
				for i := range m.Data {
					c.fetchOne(j, &m.Data[i])
				}
			case *comms.Reply:
				w.fail(j.id, "the outputs of a job that is done cannot be located: %s", m.Message)
			}
		})
	}
}

func (c *client) fetchOne(j *clientJob, d *comms.LocatedData) {
	w := c.w
	f := w.oracle.facts[j.id]
	want := w.oracle.word(d.Agent, j.id, d.Desc.Ref, d.Desc.Attempt)
	switch {
	case d.Desc.Place.Kind == comms.PlaceInline:
		if got := string(d.Desc.Place.Bytes); got != want {
			w.fail(j.id, "output %s is %q instead of %q", d.Name, got, want)
		}
		return
	case d.Desc.Place.Kind == comms.PlaceNone || w.oracle.gone(d.Agent, f.made[d.Desc.Ref].incarn):
		if !f.mayRun(d.Desc.Ref.Task) {
			w.fail(j.id, "output %s is nowhere, and nothing of it was lost", d.Name)
		}
		return
	}
	req := c.next()
	c.fetched[req] = comms.DatasetID{Job: j.id, DatasetRef: d.Desc.Ref}
	c.reads[req] = &reading{j, d}
	c.waits[req] = func(m comms.Message) {
		r, ok := m.(*comms.Reply)
		switch {
		case ok && r.Code == comms.CodeUnavailable: // memory and disk were full a moment ago
			c.left++
			c.after(100*time.Millisecond, func() { c.fetchOne(j, d); c.left--; c.progress() })
		case ok && !f.mayRun(d.Desc.Ref.Task):
			w.fail(j.id, "output %s cannot be fetched: %s", d.Name, r.Message)
		}
	}
	if err := w.net.Send(w.now, c.name, d.Agent, &comms.Fetch{Req: req, Data: c.fetched[req]}); err != nil {
		delete(c.waits, req)
		c.after(10*time.Millisecond, func() { c.fetchOne(j, d) })
		c.left++
		c.after(11*time.Millisecond, func() { c.left--; c.progress() })
	}
}

// agentUp asks an agent anew for what it was asked for, if it has forgotten that:
// one that leaves may do so while the client reads.
func (c *client) agentUp(name string, resumed bool) {
	if !c.reached[name] {
		c.reached[name] = true
		c.left--
	}
	if !resumed {
		for _, req := range slices.Sorted(maps.Keys(c.waits)) {
			if r := c.reads[req]; r != nil && r.d.Agent == name {
				delete(c.waits, req)
				c.fetchOne(r.j, r.d)
			}
		}
	}
	c.progress()
}

// served sees what an agent reads for the client.
func (c *client) served(a *agent, m *comms.Chunk, got string) {
	id, ok := c.fetched[m.Req]
	if !ok {
		return
	}
	if want := c.w.oracle.word(a.name, id.Job, id.DatasetRef, c.reads[m.Req].d.Desc.Attempt); got != want && !c.w.oracle.made(id, got) {
		c.w.fail(id.Job, "%s serves %q instead of %q", a.name, got, want)
	}
}

// waitsFor tells what has not come to its end.
func (c *client) waitsFor() (job comms.JobID, text string) {
	for _, j := range c.jobs {
		if j.final && j.doubt == 0 {
			continue
		}
		k := c.w.controller.store.jobs[j.id]
		if k == nil {
			return j.id, fmt.Sprintf("%s is not in the store, accepted %v", jobName(j.id), j.accepted)
		}
		var b strings.Builder
		k.Past().States.Each(func(t dag.TaskIndex, s core.TaskState) {
			if !s.Over() && s != core.TaskAbsent {
				fmt.Fprintf(&b, "; task %d (%s) is %s", t, k.Graph.TaskName(t), s)
			}
		})
		return j.id, fmt.Sprintf("%s is %s on %s at epoch %d%s", jobName(j.id), k.Row.Phase, k.Row.Agent, k.Row.Epoch, b.String())
	}
	return comms.JobID{}, fmt.Sprintf("the client is in stage %d and waits for %d answers", c.stage, len(c.waits))
}
