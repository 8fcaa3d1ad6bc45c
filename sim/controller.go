package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/memnet"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// controller drives a controller core as package controller does.
type controller struct {
	process
	core  *core.Core
	store *store
	ids   map[string]core.LinkID // by the peer's name
	peers map[core.LinkID]*peer
	next  core.LinkID
	local []core.Event // that came of actions
	wake  time.Time
	book  *profiles.Book // of the ways between agents; it outlives the process
}

type peer struct {
	name string
	out  outbox
	hand *comms.DrainStatus // of an agent that leaves: what it has begun, as far as the controller was told
}

func newController(w *world) *controller {
	c := &controller{process: process{w: w, name: "controller"}, book: profiles.NewBook()}
	c.store = newStore(w, c)
	return c
}

// boot starts the process: jobs come out of the store before anything else happens.
func (c *controller) boot() {
	c.begin()
	c.w.net.Start(c.w.now, c.name)
	c.core = core.New(core.Config{Incarnation: c.life * 1_000_000, Grace: c.w.fate.grace, Spread: c.w.fate.spread > 0, Effort: planner.Effort{Evaluations: c.w.fate.improves},
		Steal: c.w.fate.steals, Thrift: 1e-6})
	c.ids, c.peers, c.local, c.wake = map[string]core.LinkID{}, map[core.LinkID]*peer{}, nil, time.Time{}
	c.w.tell(c.name, nil, "starts")
	for _, name := range slices.Sorted(maps.Keys(c.store.agents)) {
		c.step(core.Known{Row: c.store.agents[name]})
	}
	for _, k := range c.store.sorted() {
		c.step(c.store.loaded(k))
	}
	c.step(core.Started{})
}

// crash ends the process and starts another after a while.
func (c *controller) crash(away time.Duration, why string) {
	if !c.running {
		return
	}
	c.w.tell(c.name, nil, "%s, back in %v", why, away)
	c.end()
	c.w.net.Stop(c.w.now, c.name)
	c.store.crash()
	c.w.after(away, c.boot)
}

// deliver is what the link's goroutine does.
func (c *controller) deliver(d memnet.Delivery[comms.Message]) {
	id, known := c.ids[d.From]
	switch d.Kind {
	case memnet.Up:
		if known && d.Resumed {
			return
		}
		if known {
			c.down(id)
		}
		c.next++
		up := core.LinkUp{Link: c.next, Agent: d.From != c.w.client.name, Name: d.From, Incarnation: d.Incarnation}
		c.ids[d.From] = c.next
		c.post(func() {
			c.peers[up.Link] = &peer{name: up.Name}
			c.step(up)
		})
	case memnet.Message:
		if !known {
			return
		}
		m := d.Msg
		if s, ok := m.(*comms.Submit); ok {
			sum := blake3.Sum256(s.Graph)
			s.GraphHash = comms.Hash(append([]byte{comms.HashBLAKE3}, sum[:]...))
		}
		c.post(func() {
			c.w.tellMessage(c.name, "from "+d.From, m)
			if held, ok := m.(*comms.DrainStatus); ok && c.peers[id] != nil {
				c.peers[id].hand = held
			}
			c.step(core.Received{Link: id, Msg: m})
		})
	case memnet.Credit:
		c.post(func() {
			if p := c.peers[id]; p != nil && c.ids[p.name] == id && p.out.credit(c.w, c.w.net, c.name, p.name) {
				c.step(core.Free{Link: id})
			}
		})
	case memnet.Down:
		if d.Final && known {
			delete(c.ids, d.From)
			c.down(id)
		}
	}
}

func (c *controller) down(id core.LinkID) { c.lose(id, records.LossSilent) }

func (c *controller) lose(id core.LinkID, why records.LossCause) {
	c.post(func() {
		delete(c.peers, id)
		c.step(core.LinkDown{Link: id, Why: why})
	})
}

// look is that connections to a process that has died are refused, unless another is there by then.
func (c *controller) look(a *agent) {
	id, known := c.ids[a.name]
	if !known {
		return
	}
	c.after(lookTime, func() {
		if c.ids[a.name] == id && !a.running {
			delete(c.ids, a.name)
			c.lose(id, records.LossEnded)
		}
	})
}

// lookTime is how long it takes until a connection is refused after another broke.
const lookTime = time.Millisecond

// step hands the core an event, and those that come of its actions.
func (c *controller) step(ev core.Event) {
	c.local = append(c.local, ev)
	for len(c.local) > 0 && c.running && c.w.failed == nil {
		ev := c.local[0]
		c.local = c.local[1:]
		c.w.steps++
		actions := append([]core.Action(nil), c.core.Step(c.w.wall(), ev)...)
		if err := c.core.Check(); err != nil {
			c.w.fail(comms.JobID{}, "controller core after %T: %v", ev, err)
		}
		for _, a := range actions {
			c.perform(a)
		}
	}
}

func (c *controller) perform(a core.Action) {
	w := c.w
	switch a := a.(type) {
	case core.Send:
		p := c.peers[a.Link]
		if p == nil {
			return
		}
		if c.ids[p.name] != a.Link {
			return // a link of its own for each incarnation of a peer: what is sent to one that is gone is lost
		}
		w.tellMessage(c.name, "to "+p.name, a.Msg)
		if m, ok := a.Msg.(*comms.DrainAgent); ok && m.Done {
			w.oracle.dismissed(p.name)
		}
		if p.out.send(w, w.net, c.name, p.name, a.Msg) {
			c.local = append(c.local, core.Full{Link: a.Link})
		}
	case core.CloseLink:
		name := "a link that is gone"
		if p := c.peers[a.Link]; p != nil {
			name = p.name
		}
		w.fail(comms.JobID{}, "the controller closes the link of %s: %s", name, a.Why)
	case core.Prepare:
		c.store.later(a.Job, func() { c.prepare(a) })
	case core.Improve:
		c.after(w.between(10*time.Microsecond, 100*time.Millisecond), func() { c.improve(a) })
	case core.Create:
		c.store.create(a)
	case core.Store:
		if w.fate.improves > 0 && w.chance(50) {
			c.answer(core.Departed{Job: a.Commit.Job})
		}
		c.store.commit(a)
	case core.Measured:
		for _, f := range a.Flows {
			c.book.RecordFlow(profiles.Flow{Pair: profiles.Pair{From: f.From, To: a.Agent}, Bytes: float64(f.Bytes), Pieces: float64(f.Pieces),
				Seconds: float64(f.Nanos) / 1e9, At: c.w.wall().Unix()})
		}
	case core.StoreAgent:
		c.store.agents[a.Row.Name] = a.Row
	case core.Warn, core.Differs, core.GaveUp:
	case core.Delete:
		c.store.delete(a)
	case core.Ask:
		c.store.later(asked(a.Msg), func() { c.answer(core.Answered{Token: a.Token, Msg: c.store.answer(a)}) })
	case core.Wake:
		c.wake = a.At
		at := a.At
		c.after(max(0, at.Sub(w.wall())), func() {
			if c.wake.Equal(at) {
				c.wake = time.Time{}
				c.post(func() { c.step(core.Tick{}) })
			}
		})
	default:
		w.fail(comms.JobID{}, "the controller asks for %T, which its driver does not know", a)
	}
}

// improve looks for a better plan, or finds none.
func (c *controller) improve(a core.Improve) {
	ev := core.Improved{Token: a.Token, Job: a.Job}
	if !c.w.chance(200) {
		var p *planner.Plan
		var err error
		if a.First == nil {
			p, err = planner.Order(a.Graph, c.known(a.Graph), a.Cluster)
		} else {
			p, err = planner.Better(a.Graph, a.First, a.Cluster, a.Effort)
		}
		if err != nil {
			c.w.fail(a.Job, "no better plan: %v", err)
			return
		}
		ev.Plan = p
	}
	c.answer(ev)
}

func (c *controller) answer(ev core.Event) { c.post(func() { c.step(ev) }) }

// prepare decodes and plans a graph, and reads the past of its job.
func (c *controller) prepare(a core.Prepare) {
	ev := core.Prepared{Token: a.Token, Job: a.Job, Graph: a.Graph}
	k := c.store.jobs[a.Job]
	var err error
	switch {
	case a.Submit != nil:
		ev.Bytes = a.Submit.Graph
		ev.Code = comms.CodeBadRequest
		ev.Graph, err = dag.Decode(ev.Bytes)
	case a.Graph != nil:
	case k == nil:
		err, ev.Code = errors.New("no such job"), comms.CodeNotFound
	default:
		ev.Graph, ev.Bytes = k.Graph, k.Bytes
	}
	if err == nil && a.Past {
		if k == nil {
			err, ev.Code = errors.New("no such job"), comms.CodeNotFound
		} else {
			ev.Past = c.store.past(k)
		}
	}
	if err == nil {
		ev.Code = comms.CodeOK
		ev.Plan, err = c.plan(ev.Graph, a.Cluster)
	}
	if err != nil {
		ev.Err = err.Error()
		if ev.Code == comms.CodeOK {
			ev.Code = comms.CodeInternal
		}
	}
	c.answer(ev)
}

// known is what tasks are said to have cost, which is far from what they cost, or
// nothing: a wrong profile may cost time, and never a result. Transfers are as they
// were measured.
func (c *controller) known(g *dag.Graph) profiles.Snapshot {
	f := profiles.File{}
	for pair, l := range c.book.Links() {
		f.Links = append(f.Links, profiles.LinkEntryOf(pair, l))
	}
	if c.w.fate.improves == 0 {
		return f.Snapshot()
	}
	for i := range g.Groups {
		sig := planner.SignatureOf(g, i)
		far := float64(planner.VersionOf(g, i)%7+1) * float64(c.w.fate.improves)
		f.Profiles = append(f.Profiles, profiles.Entry{Job: sig.Job, Task: sig.Group, Function: sig.Function, Runs: 3, Seconds: far * 1e-3, Bytes: 1e9 / far, MemoryPeak: 1e9 * far, MemoryRuns: 3,
			MemoryHeld: float64(g.Groups[i].Resources.Memory) * far})
	}
	return f.Snapshot()
}

// plan plans as the driver does, or puts each task on any host that has enough for it.
func (c *controller) plan(g *dag.Graph, cluster planner.Cluster) (*planner.Plan, error) {
	w := c.w
	if w.fate.spread == 0 || len(cluster.Hosts) < 2 {
		return planner.Order(g, c.known(g), cluster)
	}
	if w.fate.spread == spreadByPlan {
		return planner.Spread(g, c.known(g), cluster)
	}
	p, err := planner.Order(g, c.known(g), cluster)
	if err != nil {
		return nil, err
	}
	for i := range g.NumTasks() {
		var able []int32
		for h := range cluster.Hosts {
			if cluster.Hosts[h].Suits(g, dag.TaskIndex(i)) {
				able = append(able, int32(h))
			}
		}
		if w.fate.spread == spreadTurns {
			p.Homes = append(p.Homes, int32(i%len(cluster.Hosts)))
			continue
		}
		p.Homes = append(p.Homes, pick(w.rnd, append(able, -1)[:max(len(able), 1)]...))
	}
	return p, nil
}
