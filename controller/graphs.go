package controller

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// graphs keeps the graphs that were submitted last, with their plans: a graph
// that is submitted again and again is decoded once and planned now and then.
type graphs struct {
	mu    sync.Mutex
	known map[comms.Hash]*knownGraph
	order []comms.Hash // the one used longest ago first, roughly: by when it was planned
	tasks int
}

type knownGraph struct {
	graph   *dag.Graph
	bytes   []byte
	plan    *planner.Plan
	cluster planner.Cluster
	planned time.Time
	asked   time.Time // when a new plan of it was begun

	packages     []comms.Hash // that it needs: whether they are here is looked at with every submit
	environments []uint64     // its own, as the planner knows them

	better   *planner.Plan // that was found while a job with the graph ran
	betterOn planner.Cluster
}

// Bounds of what is kept. A plan is made anew after a while because the profiles
// on which it rests change with each run.
const (
	maxGraphs     = 64
	maxGraphTasks = 100_000 // of one
	maxAllTasks   = 400_000
	planAge       = time.Second
	mostAge       = 10 * time.Second // of a plan by which jobs go while a new one is made
)

// prepared answers a submit of a graph that is known, with a plan that still holds,
// and whose packages are here.
func (gs *graphs) prepared(a *core.Prepare, now time.Time, here func([]comms.Hash) bool) (core.Prepared, bool) {
	if a.Submit == nil || a.Past {
		return core.Prepared{}, false
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	k := gs.known[a.Submit.GraphHash]
	if k == nil || len(k.packages) > 0 && !here(k.packages) || !sameCluster(k.environments, &k.cluster, &a.Cluster) {
		return core.Prepared{}, false
	}
	if age := now.Sub(k.planned); age > mostAge || age > planAge && now.Sub(k.asked) > planAge {
		k.asked = now // one job waits for a new plan, those behind it go by the old one meanwhile
		return core.Prepared{}, false
	}
	return core.Prepared{Token: a.Token, Job: a.Job, Graph: k.graph, Bytes: k.bytes, Plan: k.plan}, true
}

// decoded returns a graph that is known, or nil.
func (gs *graphs) decoded(h comms.Hash) (*dag.Graph, []byte) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if k := gs.known[h]; k != nil {
		return k.graph, k.bytes
	}
	return nil, nil
}

// keep notes what was prepared for a submit.
func (gs *graphs) keep(h comms.Hash, ev *core.Prepared, cluster planner.Cluster, now time.Time) {
	n := ev.Graph.NumTasks()
	if n > maxGraphTasks || len(ev.Bytes) > inlineGraph {
		return
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.known == nil {
		gs.known = map[comms.Hash]*knownGraph{}
	}
	k := &knownGraph{graph: ev.Graph, plan: ev.Plan, cluster: cluster, planned: now, packages: core.PackagesOf(ev.Graph), environments: environmentsOf(ev.Graph)}
	if old := gs.known[h]; old == nil {
		gs.tasks += n
	} else {
		k.better, k.betterOn = old.better, old.betterOn
		gs.order = slices.DeleteFunc(gs.order, func(o comms.Hash) bool { return o == h })
	}
	if old := gs.known[h]; old != nil && bytes.Equal(old.bytes, ev.Bytes) {
		k.bytes = old.bytes // the same memory: what is told of many jobs goes together
	} else {
		k.bytes = slices.Clone(ev.Bytes) // they may be part of the whole message that brought them
	}
	gs.known[h] = k
	gs.order = append(gs.order, h)
	for len(gs.order) > maxGraphs || gs.tasks > maxAllTasks {
		old := gs.order[0]
		gs.order = gs.order[1:]
		gs.tasks -= gs.known[old].graph.NumTasks()
		delete(gs.known, old)
	}
}

func environmentsOf(g *dag.Graph) (all []uint64) {
	for i := range g.Environments {
		all = append(all, planner.EnvironmentID(&g.Environments[i]))
	}
	return all
}

// sameCluster tells whether two clusters are the same to a graph with these environments:
// of those that hosts have only they count.
func sameCluster(environments []uint64, a, b *planner.Cluster) bool {
	if a.Bandwidth != b.Bandwidth || a.Latency != b.Latency || !slices.EqualFunc(a.Hosts, b.Hosts, func(x, y planner.Host) bool {
		return x.Name == y.Name && x.CPU == y.CPU && x.Memory == y.Memory && x.Store == y.Store && x.GPU == y.GPU && x.Alone == y.Alone && maps.Equal(x.Custom, y.Custom) && slices.Equal(x.Devices, y.Devices)
	}) {
		return false
	}
	for _, id := range environments {
		if a.Builds[id] != b.Builds[id] || !slices.EqualFunc(a.Hosts, b.Hosts, func(x, y planner.Host) bool {
			return slices.Contains(x.Built, id) == slices.Contains(y.Built, id)
		}) {
			return false
		}
	}
	return true
}
