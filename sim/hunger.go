package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// hostMemory is what the tasks of a host may occupy; of a roomy one four times as much.
const hostMemory = 1 << 30

// drawHunger decides whether tasks take more memory than their groups say, and whether
// one agent has more than the others. It draws from numbers of its own, as drawDrains does.
func (f *fates) drawHunger(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 35))
	f.hungry, f.roomy = pick(r, 0, 0, 0, 0, 400), r.IntN(6)
}

// memoryOf is what the tasks of an agent may occupy.
func (w *world) memoryOf(a *agent) int64 {
	if w.fate.hungry > 0 && slices.Index(w.agents, a) == w.fate.roomy {
		return 4 * hostMemory
	}
	return hostMemory
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

// reserve sees how much is held for a task from its next attempt on.
func (f *facts) reserve(e *comms.Event) {
	if e.Kind == comms.EventRetry && e.Count > 0 {
		f.reserved[e.Task] = max(f.reserved[e.Task], int64(e.Count))
	}
}

// outgrew tells whether more is held for a task than an agent has.
func (o *oracle) outgrew(f *facts, t dag.TaskIndex, name string) bool {
	return slices.ContainsFunc(o.w.agents, func(a *agent) bool { return a.name == name && f.reserved[t] > o.w.memoryOf(a) })
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
