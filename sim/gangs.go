package sim

import (
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// gangStarts is members of gangs that were given to executors, by the addresses
// of their gang, which no two starts have in common.
type gangStarts map[string][]string

// dispatched notes runs that are members of gangs.
func (s *gangStarts) dispatched(m comms.Message) {
	d, ok := m.(*comms.Dispatch)
	for i := 0; ok && i < len(d.Runs); i++ {
		s.run(&d.Runs[i])
	}
}

func (s *gangStarts) run(r *comms.Run) {
	all, rank := "", ""
	for _, kv := range r.Env {
		if v, ok := strings.CutPrefix(kv, "CASCADE_GANG_MEMBERS="); ok {
			all = v
		}
		if v, ok := strings.CutPrefix(kv, "CASCADE_GANG_RANK="); ok {
			rank = v
		}
	}
	if all == "" {
		return
	}
	if *s == nil {
		*s = gangStarts{}
	}
	(*s)[all] = append((*s)[all], rank)
}

// together finds all members of each gang of which one was started in a step.
func (o *oracle) together(a *agent) {
	for all, ranks := range o.gangs {
		slices.Sort(ranks)
		if want := len(strings.Split(all, ",")); len(slices.Compact(ranks)) != want {
			o.w.fail(comms.JobID{}, "%s starts members %v of a gang of %d: %s", a.name, ranks, want, all)
		}
	}
	clear(o.gangs)
}

// gang makes some families gangs, where seeds are to have them. It draws from a
// source of its own: the others stay what they were.
func (m *maker) gang(g *dag.Group, me *made) {
	if m.f.gangs == 0 || me.axis == 0 || m.gangs.IntN(1000) >= m.f.gangs {
		return
	}
	cpu := pick(m.gangs, int64(100), 400)
	if m.f.steals > 0 { // agents are small, families large
		me.axis, cpu = me.axis/4, 100
	}
	me.index = "rank"
	g.Gang = dag.GangPack
	g.Axes = []dag.Axis{dag.Members(int64(me.axis))}
	g.Resources = dag.Resources{CPU: cpu}
}
