package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	ctl "github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// drawDrains decides how many agents are told to leave. It draws from numbers of
// its own: the other fates of a seed stay as they were before agents could leave.
func drawDrains(seed uint64) int {
	r := rand.New(rand.NewPCG(seed, 2))
	return pick(r, 0, 0, 0, 0, 1, 2, 4)
}

// disturbByLeaving plans when agents leave. They come back, as new incarnations.
func (w *world) disturbByLeaving(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	for range w.fate.drains {
		a := w.agents[r.IntN(len(w.agents))]
		at := time.Duration(r.Int64N(int64(w.fate.heal)))
		grace := pick(r, time.Millisecond, 30*time.Millisecond, time.Second, 10*time.Second)
		away := pick(r, 0, 50*time.Millisecond, 4*time.Second)
		w.at(at, func() { a.leave(grace, away) })
	}
}

// leave is SIGTERM: the agent ends when nothing keeps it, or at the end of the grace.
func (a *agent) leave(grace, away time.Duration) {
	if !a.running || a.leaving {
		return
	}
	a.w.tell(a.name, nil, "is told to leave, with a grace of %v", grace)
	a.leaving, a.away, a.left = true, away, a.incarn
	a.post(func() { a.step(core.Drain{}) })
	a.after(grace, func() {
		if !a.ending {
			a.w.oracle.agentDied(a) // it says so before it does
		}
		a.step(core.Quit{})
		a.gone(a.w.between(0, time.Millisecond))
	})
}

// mayLeave ends an agent that leaves and that nothing keeps.
func (a *agent) mayLeave() {
	if a.leaving && !a.ending && a.core.Drained() {
		a.gone(0)
	}
}

func (a *agent) gone(in time.Duration) {
	if a.ending {
		return
	}
	a.ending = true
	a.after(in, func() { a.crash(min(a.away, max(a.w.fate.heal-a.w.now, 0)), true) })
}

// dismissed looks at an agent that is told that nothing keeps it: of a job that
// others go on with, nothing that is needed is known to be with it alone.
func (o *oracle) dismissed(name string) {
	for _, k := range o.w.controller.store.sorted() {
		alone := slices.ContainsFunc(workers(&k.Row), func(p records.Assignment) bool { return p.Agent == name }) // no other could take its place
		if k.Row.Phase.Final() || k.Row.Cancel != "" || alone || k.Row.Agent == "" {
			continue
		}
		past := k.Past()
		with := map[comms.DatasetRef]bool{}
		for _, d := range past.Data {
			with[d.Desc.Ref] = d.Agent == name && d.Desc.Place.Kind != comms.PlaceInline && over(past, d.Desc.Ref.Task)
		}
		past.States.Each(func(t dag.TaskIndex, s ctl.TaskState) {
			ins, err := k.Graph.Inputs(t)
			if s.Over() || err != nil || o.w.inHand(k.Row.ID, t) {
				return
			}
			for i := range ins {
				for _, src := range ins[i].Sources {
					refs, _ := past.States.Expand(src)
					for _, ref := range refs {
						if with[ref] {
							o.w.fail(k.Row.ID, "%s is dismissed and alone has %v, which task %d reads", name, ref, t)
						}
					}
				}
			}
		})
	}
}

// inHand tells whether the controller was told by an agent that leaves that it has
// begun a task: then it has, or had, all that the task reads. It may have ended
// since: what it was to say of that is on its way, or the task runs again.
func (w *world) inHand(id comms.JobID, t dag.TaskIndex) bool {
	has := func(j comms.JobInHand) bool {
		return j.Job == id && slices.ContainsFunc(j.Held, func(r comms.Range) bool { return r.First <= t && t <= r.Last })
	}
	for _, p := range w.controller.peers {
		if p.hand != nil && slices.ContainsFunc(p.hand.Jobs, has) {
			return true
		}
	}
	return false
}

func over(past *ctl.Past, t dag.TaskIndex) bool {
	s, _ := past.States.Get(t)
	return s.Over()
}

// leaves tells whether the process that has a fragment is about to leave, or has left.
func (w *world) leaves(f records.Assignment) bool {
	return slices.ContainsFunc(w.agents, func(a *agent) bool { return a.name == f.Agent && a.left >= f.Incarnation })
}
