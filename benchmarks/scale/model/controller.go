package model

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// controller drives a controller core as package controller does. The store keeps
// nothing: no process restarts.
type controller struct {
	server
	w      *world
	cfg    *Config
	core   *core.Core
	graph  *dag.Graph
	bytes  []byte
	hash   comms.Hash
	plan   *planner.Plan // of every job: they are alike
	agents []*agent
	shards []*server
	wake   time.Time
	local  []core.Event

	began, last time.Duration
	ended       int
	messages    int
}

// client is the link of the one who submits; agents have the numbers from 1 on.
const client = core.LinkID(1 << 32)

func newController(w *world, on *machine, cfg *Config, g *dag.Graph) *controller {
	c := &controller{server: server{on: on}, w: w, cfg: cfg, graph: g, bytes: g.Encode(), core: core.New(core.Config{Incarnation: 1_000_000})}
	sum := blake3.Sum256(c.bytes)
	c.hash = comms.Hash(append([]byte{comms.HashBLAKE3}, sum[:]...))
	for range cfg.Shards {
		c.shards = append(c.shards, &server{on: on, pause: cfg.Costs.Sync})
	}
	c.post(0, func() {
		c.step(core.Started{})
		c.step(core.LinkUp{Link: client, Name: "client", Incarnation: 1})
	})
	return c
}

func (c *controller) linkUp(a *agent) {
	c.post(0, func() {
		c.step(core.LinkUp{Link: core.LinkID(a.link), Agent: true, Name: a.name, Incarnation: 1})
	})
}

// submit hands in a job for each agent.
func (c *controller) submit() {
	c.began = c.w.now
	for i := range c.cfg.Hosts {
		m := &comms.Submit{Req: uint64(i + 1), Graph: c.bytes, GraphHash: c.hash, Watch: true, Every: int64(time.Second)}
		binary.BigEndian.PutUint64(m.Job[8:], uint64(i+1))
		c.messages++
		c.post(c.cfg.Costs.Controller.Message, func() { c.step(core.Received{Link: client, Msg: m}) })
	}
}

// received takes a message of an agent, which tells of n tasks. It is decoded beside the loop.
func (c *controller) received(a *agent, m comms.Message, n int) {
	c.messages++
	c.on.use(c.cfg.Costs.Beside.Message, func() {
		c.post(c.cfg.Costs.Controller.of(1, n), func() {
			if c.cfg.Meter != nil {
				c.cfg.Meter.Tasks += n
			}
			c.step(core.Received{Link: core.LinkID(a.link), Msg: m})
		})
	})
}

func (c *controller) step(ev core.Event) {
	c.local = append(c.local, ev)
	if len(c.local) > 1 {
		return
	}
	for len(c.local) > 0 {
		m := c.cfg.Meter
		var begun time.Duration
		if m != nil {
			begun = m.Clock()
		}
		actions := c.core.Step(c.w.wall(), c.local[0])
		if m != nil {
			m.Time += m.Clock() - begun
			if _, ok := c.local[0].(core.Received); ok {
				m.Messages++
			}
		}
		for _, act := range append([]core.Action(nil), actions...) {
			c.perform(act)
		}
		c.local = c.local[1:]
	}
}

func (c *controller) perform(act core.Action) {
	switch act := act.(type) {
	case core.Send:
		c.send(act)
	case core.Prepare:
		c.prepare(act)
	case core.Create:
		c.store(act.Row.ID, 0, act.Token)
	case core.Store:
		n := 0
		if act.Commit.Batch != nil {
			n = ends(act.Commit.Batch.Events)
		}
		c.store(act.Commit.Job, n, act.Token)
	case core.Improve:
		c.post(0, func() { c.step(core.Improved{Token: act.Token, Job: act.Job}) })
	case core.Wake:
		c.wake = act.At
		at := act.At
		c.w.after(at.Sub(c.w.wall()), func() {
			if c.wake.Equal(at) {
				c.wake = time.Time{}
				c.post(0, func() { c.step(core.Tick{}) })
			}
		})
	case core.StoreAgent, core.Warn, core.Differs:
	default:
		c.w.fail(fmt.Errorf("the controller asks for %T, which a cluster without faults does not need", act))
	}
}

func (c *controller) send(act core.Send) {
	c.messages++
	c.charge(c.cfg.Costs.Controller.Message)
	if m := c.cfg.Meter; m != nil {
		m.Messages++
	}
	if act.Link == client {
		if p, ok := act.Msg.(*comms.Progress); ok && p.Final {
			if p.Phase != comms.JobDone {
				c.w.fail(fmt.Errorf("a job ends as %s: %w", p.Phase, p.Error))
			}
			c.ended++
			c.last = c.w.now
		}
		return
	}
	a := c.agents[act.Link-1]
	bytes, m := size(c.w, act.Msg)
	a.down.send(bytes, func() { a.hear(m) })
}

// prepare plans the first job. The others have the same graph, which the driver knows then.
func (c *controller) prepare(act core.Prepare) {
	if c.plan == nil {
		var err error
		if c.plan, err = planner.Order(c.graph, profiles.Snapshot{}, act.Cluster); err != nil {
			c.w.fail(err)
			return
		}
	}
	ev := core.Prepared{Token: act.Token, Job: act.Job, Graph: c.graph, Bytes: c.bytes, Plan: c.plan, Code: comms.CodeOK}
	c.post(0, func() { c.step(ev) })
}

// store writes a record of n tasks, in the shard of its job.
func (c *controller) store(job comms.JobID, n int, token uint64) {
	s := c.shards[binary.BigEndian.Uint64(job[8:])%uint64(len(c.shards))]
	s.post(c.cfg.Costs.Beside.of(1, n), func() {
		c.post(0, func() { c.step(core.Stored{Token: token}) })
	})
}

// ends counts the tasks of which events tell.
func ends(events []comms.Event) (n int) {
	for i := range events {
		events[i].Each(func(*comms.Event) bool { n++; return true })
	}
	return n
}
