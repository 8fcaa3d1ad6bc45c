package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// hostMemory is what the tasks of a host may occupy; of a roomy one four times as much.
const hostMemory = 1 << 30

// drawHunger decides whether tasks take more memory than their groups say, and whether
// one agent has more than the others. It draws from numbers of its own, as drawDrains does.
func (f *fates) drawHunger(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 35))
	f.hungry, f.roomy = pick(r, 0, 0, 0, 0, 400), r.IntN(6)
	f.roomyAway = pick(r, 0, 50*time.Millisecond, 800*time.Millisecond, 4*time.Second)
	if f.hungry > 0 && f.roomyAway > 0 {
		f.resume = 5 * time.Millisecond // else it counts as there for so long
	}
}

// loseRoomy takes the agent with more memory away for a while when another says for the
// first time that a task took too much: what needs as much as that agent has then waits.
func (w *world) loseRoomy(m comms.Message) {
	f := &w.fate
	events, ok := m.(*comms.Events)
	if !ok || f.roomyAway == 0 || f.roomy >= len(w.agents) || w.now >= f.heal || !slices.ContainsFunc(events.Jobs, grew) {
		return
	}
	a, d := w.agents[f.roomy], f.roomyAway
	f.roomyAway = 0 // once
	w.at(w.now, func() { a.crash(min(d, f.heal-w.now), false) })
}

func grew(je comms.JobEvents) bool {
	return slices.ContainsFunc(je.Events, func(e comms.Event) bool { return e.Kind == comms.EventRetry && e.Count > 0 })
}

// memoryOf is what the tasks of an agent may occupy.
func (w *world) memoryOf(a *agent) int64 {
	if w.fate.hungry > 0 && slices.Index(w.agents, a) == w.fate.roomy {
		return 4 * hostMemory
	}
	return hostMemory
}

// watch gives most groups that need nothing else a bound of their memory, where tasks are hungry.
func (m *maker) watch(g *dag.Group) {
	if need := &g.Resources; m.f.hungry > 0 && m.bounds.IntN(3) > 0 && need.CPU == 0 && need.Custom == nil {
		need.Memory = 600 << 20
	}
}

// appetite is how much memory a task takes, where that is more than its group says; else 0.
func (w *world) appetite(job comms.JobID, g *dag.Graph, t dag.TaskIndex) int64 {
	says := g.Group(t).Resources.Memory
	r := rand.New(rand.NewPCG(w.seed<<8|uint64(job[15]), 36+uint64(t)))
	if says == 0 || r.IntN(1000) >= w.fate.hungry {
		return 0
	}
	return says + 1 + r.Int64N(8*says)
}

// starves ends an executor whose run takes more memory than it was granted, as the agent
// or the kernel would. It tells whether it did.
func (x *executor) starves() bool {
	k := x.kinds[x.cur.Kind]
	f := x.w.oracle.facts[k.Job]
	if x.w.fate.hungry == 0 || k.Function == callee || f == nil {
		return false
	}
	takes, held := x.w.appetite(k.Job, f.g, x.cur.Task), k.Resources.Memory
	if takes <= held {
		return false
	}
	x.used = held + (takes-held+1)/2
	x.die("it used more memory than it was granted", "")
	return true
}

// enlarge sees how much is held for a task from its next attempt on.
func (f *facts) enlarge(e *comms.Event) {
	if e.Kind == comms.EventRetry && e.Count > 0 {
		f.enlarged[e.Task] = max(f.enlarged[e.Task], int64(e.Count))
	}
}

// waitsForMemory sees that a task has no agent until one comes that has as much memory.
func (o *oracle) waitsForMemory(id comms.JobID, b *records.Batch, e *comms.Event) {
	if b.Agent == "" && e.Kind == comms.EventTorn && e.Cause.Text == mayComeBack {
		o.waited++
		o.w.tell("store", []comms.JobID{id}, "task %d waits for an agent with more memory", e.Task)
	}
}

// mayComeBack is why a task waits so. Others are sent where they fail.
const mayComeBack = "no agent that is here has as much memory, and one that has may come back"

// outgrew tells whether more is held for a task than an agent has.
func (o *oracle) outgrew(f *facts, t dag.TaskIndex, name string) bool {
	return slices.ContainsFunc(o.w.agents, func(a *agent) bool { return a.name == name && f.enlarged[t] > o.w.memoryOf(a) })
}

// starved tells whether a task may fail because of its memory: it takes more than the
// agent has on which it failed. Members of gangs do not get more.
func (o *oracle) starved(id comms.JobID, f *facts, e *comms.Event) bool {
	takes := o.w.appetite(id, f.g, e.Task)
	if takes == 0 || len(f.members(e.Task)) > 1 {
		return takes > 0
	}
	return slices.ContainsFunc(o.w.agents, func(a *agent) bool { return a.name == e.Error.Agent && takes > o.w.memoryOf(a) })
}

// usage is what the run has cost: all that has begun says it, also when it was cancelled.
func (x *executor) usage() *comms.Usage {
	return &comms.Usage{Start: x.w.wall().UnixNano(), Duration: int64(x.w.now - x.began)}
}
