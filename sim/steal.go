package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// drawSteals makes agents several and small, and idle ones take work of others.
func (f *fates) drawSteals(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 4))
	f.steals = pick(r, time.Microsecond, time.Microsecond, time.Millisecond, 10*time.Millisecond)
	f.agents, f.spread = max(f.agents, 2), pick(r, spreadByPlan, spreadByPlan, spreadWild)
	f.cpu, f.executors = pick(r, int64(1000), 1000, 2000), pick(r, 1, 1, 2)
}

// giver is who has set a task aside, and at which epoch of its job.
type giver struct {
	agent  string
	incarn uint64
	epoch  uint64
}

func giverOf(a *agent, epoch uint64) giver { return giver{a.name, a.incarn, epoch} }

// setAside sees an agent say what it will not begin before it is told whose it is:
// nothing of that may have begun there, but an attempt that counts no more and is to end.
func (o *oracle) setAside(a *agent, m *comms.StealReply) {
	f := o.facts[m.Job]
	for _, r := range m.Tasks {
		for t := r.First; t <= r.Last; t++ {
			f.aside[t] = giverOf(a, m.Epoch)
			for _, x := range a.living() {
				if x.cur != nil && !slices.Contains(x.ending, x.cur.ID) && x.cur.Task == t && x.kinds[x.cur.Kind].Job == m.Job && x.kinds[x.cur.Kind].Function != callee {
					o.w.fail(m.Job, "%s sets task %d aside, which runs there", a.name, t)
				}
			}
		}
	}
}

// decided sees an agent learn whose the tasks are that it has set aside before an epoch.
func (o *oracle) decided(a *agent, job comms.JobID, epoch uint64) {
	f := o.facts[job]
	for t, g := range f.aside {
		if g == giverOf(a, g.epoch) && g.epoch < epoch {
			delete(f.aside, t)
		}
	}
}

// gave tells whether an agent has set a task aside that it had at an epoch.
func (f *facts) gave(t dag.TaskIndex, from records.Assignment, epoch uint64) bool {
	g := f.aside[t]
	return g == giver{from.Agent, from.Incarnation, epoch}
}
