package planner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// A job goes to several hosts only where its schedule there ends earlier than on
// one by a part of it and by an amount: what is predicted is not exact, and what
// lies on one host needs no other.
const (
	spreadPart    = 0.1
	spreadSeconds = 0.005
)

// DefaultLatency is assumed for each transfer between hosts of which nothing is known, in seconds.
const DefaultLatency = 500e-6

// Spread is Order for a job that may be cut into fragments, one for each host: it
// says in Plan.Homes where each static task should run. Homes is nil when one host
// has enough for each task and is about as good as all together, and always
// with fewer than two hosts. The instances that follow an open generator run on
// its host: it is one that has enough for them too.
func Spread(g *dag.Graph, p profiles.Snapshot, c Cluster) (*Plan, error) {
	if len(c.Hosts) < 2 {
		return Order(g, p, c)
	}
	c.learn(p)
	if c.Latency == 0 {
		c.Latency = DefaultLatency
	}
	plan, n, err := order(g, p, &c)
	if err != nil {
		return nil, err
	}
	one := largest(g, &c)
	if one != nil && n.tasks < 2 {
		return plan, nil
	}
	all := Plan{Tasks: make([]Placement, n.tasks)}
	n.schedule(&c, &all)
	plan.findLate(g, all.Tasks)
	if one != nil {
		alone := Plan{Tasks: make([]Placement, n.tasks)}
		n.schedule(&Cluster{Hosts: []Host{*one}, Bandwidth: c.Bandwidth, Latency: c.Latency}, &alone)
		alone.Makespan += c.BuildsOn(g, slices.IndexFunc(c.Hosts, func(h Host) bool { return h.Name == one.Name }))
		if alone.Makespan <= all.Makespan*(1+spreadPart)+spreadSeconds {
			plan.findLate(g, alone.Tasks)
			return plan, nil
		}
	}
	plan.Homes = make([]int32, n.tasks)
	for i := range plan.Homes {
		plan.Homes[i] = int32(all.Tasks[i].Host)
	}
	plan.Fuse = cutPaths(plan.Fuse, plan.Homes)
	return plan, nil
}

// largest returns the host with most cores of those that have enough for each task, or nil.
// Of equal ones it is that which has the environments.
func largest(g *dag.Graph, c *Cluster) (best *Host) {
	least := 0.0 // seconds to build what the best lacks
	for i := range c.Hosts {
		h := &c.Hosts[i]
		if !h.Runs(g) || best != nil && h.CPU < best.CPU {
			continue
		}
		if b := c.BuildsOn(g, i); best == nil || h.CPU > best.CPU || b < least {
			best, least = h, b
		}
	}
	return best
}

// cutPaths cuts paths where they go from one host to another.
func cutPaths(paths [][]dag.TaskIndex, homes []int32) (out [][]dag.TaskIndex) {
	for _, p := range paths {
		for from, k := 0, 1; k <= len(p); k++ {
			if k < len(p) && homes[p[k]] == homes[p[from]] {
				continue
			}
			if k-from > 1 {
				out = append(out, p[from:k])
			}
			from = k
		}
	}
	return out
}

// ableHosts tells for each group which hosts have enough for its tasks and for
// the instances that follow them, which run there too. Those of held begin with more memory
// than the graph says.
func ableHosts(g *dag.Graph, hosts []Host, held []int64) [][]bool {
	able := make([][]bool, len(g.Groups))
	for i := range g.Groups {
		grp := &g.Groups[i]
		if held != nil && held[i] > 0 {
			with := withMemory(grp, held[i])
			grp = &with
		}
		able[i] = make([]bool, len(hosts))
		for h := range hosts {
			able[i][h] = hosts[h].serves(g, grp) && hosts[h].fits(grp)
		}
		if grp.GangSize() > 0 && !slices.Contains(able[i], true) { // it goes to several
			for h := range hosts {
				able[i][h] = hosts[h].room(g, grp) > 0
			}
		}
	}
	for i := range g.Groups {
		st := g.Groups[i].Stream
		if st == nil {
			continue
		}
		from := g.GroupIndex(st.Generator)
		for h := range hosts {
			able[from][h] = able[from][h] && able[i][h]
		}
	}
	return able
}

// Homeless names the groups for whose tasks no host has enough together with the
// instances that follow them, "" when there is none: then hosts can share the job.
func Homeless(g *dag.Graph, hosts []Host) string {
	if text := unfit(g, hosts, func(grp *dag.Group) string { return lackingAll(g, grp, hosts) }); text != "" {
		return text
	}
	for i, able := range ableHosts(g, hosts, nil) {
		if len(hosts) > 0 && !slices.Contains(able, true) {
			return fmt.Sprintf("task %s: no host has enough for it and for the tasks that follow its elements, which run where it runs", g.Groups[i].Name)
		}
	}
	return ""
}

// Suits tells whether the host has enough for a task, and a binary of its platform, and
// both for the instances that follow it; of a gang for all of its members (see Room).
func (h *Host) Suits(g *dag.Graph, i dag.TaskIndex) bool {
	group := g.Group(i)
	if !h.serves(g, group) || !h.fits(group) {
		return false
	}
	for o := range group.Outputs {
		if group.Outputs[o].Generate != dag.GenerateOpen {
			continue
		}
		for _, slot := range g.StreamSlots(i, uint32(o)) {
			if first, err := g.Instance(slot, 0); err == nil && !(h.serves(g, g.Group(first)) && h.fits(g.Group(first))) {
				return false
			}
		}
	}
	return true
}

// mayRun tells whether a node may run on a host that has room for it: one that
// follows a generator only where that runs.
func (s *scheduler) mayRun(i int32, h int) bool {
	if s.able == nil {
		return true
	}
	group := s.n.group[i]
	if int(i) >= s.n.tasks {
		if st := s.n.g.Groups[group].Stream; st != nil {
			return int(s.at[st.Generator].host) == h
		}
	}
	return s.able[group][h]
}

// better returns a host that has no room now and is worth waiting for, where the
// task's inputs are: it will start there before they could be moved. -1: none.
func (s *scheduler) better(i int32, now, moved float64) int {
	if s.ends == nil || s.eager || moved <= s.c.longest()*float64(len(s.parents[i])) {
		return -1
	}
	best, wait := -1, moved
	c := s.n.cost(int(i))
	for h := range s.ends {
		if s.ends[h].Len() == 0 || s.fits(h, &c.need) || !s.mayRun(i, h) {
			continue
		}
		m, _ := s.transfer(i, h)
		m = max(m, s.built(i, h)-s.ends[h].First().at)
		queue := float64(s.waits[h].Len()) * c.seconds * float64(c.need.cpu) / float64(s.c.Hosts[h].CPU)
		if w := m + s.ends[h].First().at - now + queue; w < wait {
			best, wait = h, w
		}
	}
	return best
}

// wakeWaiting makes tasks ready again that waited for a host on which something has ended.
func (s *scheduler) wakeWaiting() {
	slices.SortFunc(s.again, cmp.Compare[int32])
	for _, h := range slices.Compact(s.again) {
		for room := s.free[h].cpu; room > 0 && s.waits[h].Len() > 0; {
			i := s.waits[h].Pop()
			room -= max(s.n.cost(int(i)).need.cpu, 1)
			s.ready[s.n.cost(int(i)).shape].Push(i)
		}
		if s.ends[h].Len() > 0 {
			continue
		}
		for s.waits[h].Len() > 0 { // nothing will end there any more to wake them
			i := s.waits[h].Pop()
			s.ready[s.n.cost(int(i)).shape].Push(i)
		}
	}
	s.again = s.again[:0]
}
