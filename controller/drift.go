package controller

import (
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// A job is planned again while it runs when a family of its tasks takes this many
// times as long as was thought, or as little; when families that are known by now
// have at least that much work left; and no more often than that.
const (
	departs     = 2.0
	departRuns  = 3       // of the family
	departWork  = 1.0     // seconds
	departTasks = 50      // of the job: of fewer the order matters little
	departTimes = 8       // for one job
	departMost  = 200_000 // tasks: ranks of more are a large message for little
)

// drift is what tasks of a job that runs were thought to take, and what they take.
type drift struct {
	known   profiles.Snapshot // what was known when its first tasks ended: what is recorded or imported later does not count
	thought []float64         // seconds of each group
	sum     []float64
	runs    []int
	times   int // that the job was planned again
}

// newDrift begins with what is known now; nil for jobs that are not looked at. c.mu is held.
func (c *Controller) newDrift(g *dag.Graph) *drift {
	if g.NumTasks() < departTasks || g.NumTasks() > departMost {
		return nil
	}
	d := &drift{known: c.book.SnapshotOf(signatures(g)), thought: make([]float64, len(g.Groups)), sum: make([]float64, len(g.Groups)), runs: make([]int, len(g.Groups))}
	for i := range g.Groups {
		d.thought[i] = d.known.Predict(planner.SignatureOf(g, i)).Seconds
	}
	return d
}

func signatures(g *dag.Graph) func(func(profiles.Signature) bool) {
	return func(yield func(profiles.Signature) bool) {
		for i := range g.Groups {
			if !yield(planner.SignatureOf(g, i)) {
				return
			}
		}
	}
}

func (d *drift) add(group int, seconds float64) {
	d.sum[group] += seconds
	d.runs[group]++
}

// now is what was known, with what tasks of the job are known to take by now.
func (d *drift) now(g *dag.Graph) profiles.Snapshot {
	seconds := map[profiles.Signature]float64{}
	for i, n := range d.runs {
		if n > 0 {
			seconds[planner.SignatureOf(g, i)] = d.sum[i] / float64(n)
		}
	}
	return d.known.Corrected(seconds)
}

// departed tells whether the job should be planned again, and notes what is thought from now on.
func (d *drift) departed(g *dag.Graph) bool {
	far, left := false, 0.0
	for i, n := range d.runs {
		if n == 0 {
			continue
		}
		mean := d.sum[i] / float64(n)
		_, size := g.GroupTasks(i)
		left += mean * float64(max(size-n, 0))
		far = far || n >= departRuns && (mean > d.thought[i]*departs || mean*departs < d.thought[i])
	}
	if !far || left < departWork || d.times >= departTimes {
		return false
	}
	d.times++
	for i, n := range d.runs {
		if n >= departRuns {
			d.thought[i] = d.sum[i] / float64(n)
		}
	}
	return true
}

// replan orders a job that runs by what its tasks are known to take by now.
func (c *Controller) replan(a core.Improve) {
	answer := core.Improved{Token: a.Token, Job: a.Job}
	var known profiles.Snapshot
	c.mu.Lock()
	of := c.samples[a.Graph]
	pinned := of != nil && of.drift != nil
	if pinned {
		known = of.drift.now(a.Graph)
	}
	c.mu.Unlock()
	if !pinned { // another job with the graph has ended meanwhile
		known = c.snapshot(a.Graph)
	}
	p, err := planner.Order(a.Graph, known, a.Cluster)
	if err != nil { // the order that the job has stays
		c.log.Warn().Err(err).Stringer("job", a.Job).Msg("job is not planned again")
	} else {
		p.Method = "durations measured meanwhile"
		answer.Plan = p
		c.log.Debug().Stringer("job", a.Job).Msg("job is planned again: tasks take other times than was thought")
	}
	c.done(answer)
}
