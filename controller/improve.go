package controller

import (
	"math"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/planner"
)

// maxSearches is how many jobs that run wait at most for the search of a better plan.
const maxSearches = 16

// improve looks for a better plan beside the loop, one at a time: the cores are
// the tasks'. A job that waits for its plan does not wait for that of another.
func (c *Controller) improve(a core.Improve) {
	if a.First == nil {
		c.slow(func() { c.replan(a) })
		return
	}
	none := core.Improved{Token: a.Token, Job: a.Job}
	select {
	case c.planning <- struct{}{}:
	default:
		if a.Urgent {
			c.local = append(c.local, none)
			return
		}
		select {
		case c.searches <- struct{}{}:
		default: // a plan that comes late is worth little: the job goes on by its first
			c.local = append(c.local, none)
			return
		}
		c.work.Go(func() {
			defer func() { <-c.searches }()
			select {
			case c.planning <- struct{}{}:
				c.search(a)
			case <-c.quit:
			}
		})
		return
	}
	c.work.Go(func() { c.search(a) })
}

func (c *Controller) search(a core.Improve) {
	defer func() { <-c.planning }()
	began := time.Now()
	p, err := planner.Better(a.Graph, a.First, a.Cluster, a.Effort)
	if err != nil { // the first plan was made of the same: it stays
		c.log.Warn().Err(err).Stringer("job", a.Job).Msg("no better plan")
		p = nil
	} else {
		c.graphs.improved(a.Hash, p, a.Cluster)
		c.log.Debug().Stringer("job", a.Job).Str("method", p.Method).Float64("seconds", p.Makespan).
			Int("evaluations", a.Effort.Evaluations).Dur("took", time.Since(began)).Msg("plan is improved")
	}
	c.done(core.Improved{Token: a.Token, Job: a.Job, Plan: p})
}

// improved keeps a better plan of a known graph for when it comes again.
func (gs *graphs) improved(h comms.Hash, p *planner.Plan, on planner.Cluster) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if k := gs.known[h]; k != nil {
		k.better, k.betterOn = p, on
		if sameCluster(k.environments, &k.cluster, &on) && holds(p, k.plan) {
			k.plan = p
		}
	}
}

// better returns the better plan of a known graph in place of a first plan that
// rests on about the same costs.
func (gs *graphs) better(h comms.Hash, first *planner.Plan, on *planner.Cluster) *planner.Plan {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if k := gs.known[h]; k != nil && k.better != nil && sameCluster(k.environments, &k.betterOn, on) && holds(k.better, first) {
		return k.better
	}
	return first
}

// followed returns the better plan that was found for a graph; nil when none was, or
// it is for hosts that are not all there.
func (gs *graphs) followed(h comms.Hash, on *planner.Cluster) *planner.Plan {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	k := gs.known[h]
	if k == nil || k.better == nil {
		return nil
	}
	for _, name := range k.better.Hosts {
		if !slices.ContainsFunc(on.Hosts, func(h planner.Host) bool { return h.Name == name }) {
			return nil
		}
	}
	return k.better
}

// forget has all graphs planned anew when they come again.
func (gs *graphs) forget() {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for _, k := range gs.known {
		k.planned, k.better = time.Time{}, nil
	}
}

// A plan holds while no group's duration is another by more than this part and time,
// and tasks begin with as much memory.
const (
	driftPart    = 0.2
	driftSeconds = 1e-3
)

func holds(p, now *planner.Plan) bool {
	return p.SameWays(now, driftPart) && slices.Equal(p.Held, now.Held) && slices.EqualFunc(p.Seconds, now.Seconds, func(a, b float64) bool {
		return math.Abs(a-b) <= driftPart*max(a, b)+driftSeconds
	})
}
