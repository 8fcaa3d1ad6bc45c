package sim

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/dag"
)

// gangStarts is members of gangs that an agent has given to executors in a step, by
// the addresses of their gang, which no two starts have in common.
type gangStarts map[string][]string

// dispatched notes runs that are members of gangs.
func (s *gangStarts) dispatched(m comms.Message) {
	d, ok := m.(*comms.Dispatch)
	for i := 0; ok && i < len(d.Runs); i++ {
		s.run(&d.Runs[i])
	}
}

func (s *gangStarts) run(r *comms.Run) {
	all := variable(r, "CASCADE_GANG_MEMBERS")
	if all == "" {
		return
	}
	if *s == nil {
		*s = gangStarts{}
	}
	(*s)[all] = append((*s)[all], variable(r, "CASCADE_GANG_RANK"))
}

// variable is what a run finds in its environment.
func variable(r *comms.Run, name string) string {
	for _, kv := range r.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// together finds all members that an agent has of each gang of which it started one in a step.
func (o *oracle) together(a *agent) {
	for _, all := range slices.Sorted(maps.Keys(o.gangs)) {
		ranks, want := o.gangs[all], []string{}
		for rank, at := range strings.Split(all, ",") {
			if strings.HasPrefix(at, a.name+":") {
				want = append(want, strconv.Itoa(rank))
			}
		}
		slices.Sort(ranks)
		slices.Sort(want)
		if !slices.Equal(ranks, want) {
			o.w.fail(comms.JobID{}, "%s starts members %v of a gang of which it has %v: %s", a.name, ranks, want, all)
		}
	}
	clear(o.gangs)
}

// try is an attempt at a task.
type try struct {
	task    dag.TaskIndex
	attempt uint32
}

// oneStart finds out whether what counts of each gang was made by members that were
// started as one: they were told the same addresses.
func (o *oracle) oneStart(id comms.JobID, f *facts, s *core.States) {
	s.Each(func(t dag.TaskIndex, state core.TaskState) {
		_, attempt := s.Get(t)
		at := f.lists[try{t, attempt}]
		for _, m := range f.members(t) {
			if other, n := s.Get(m); state == core.TaskDone && other == core.TaskDone && at != "" && f.lists[try{m, n}] != "" && f.lists[try{m, n}] != at {
				o.w.fail(id, "members %d and %d of a gang, attempts %d and %d, are done and were not started as one: %s and %s", t, m, attempt, n, at, f.lists[try{m, n}])
			}
		}
	})
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
	if m.f.forward > 0 { // agents are small
		cpu = min(cpu, m.f.cpu/int64(me.axis))
	}
	if n := int64((me.axis + m.f.agents - 1) / m.f.agents); m.f.spread != spreadNot && int(n) < me.axis && m.spans.IntN(1000) < m.f.spans {
		cpu = m.f.cpu / n // n of them fill an agent
	}
	me.index = "rank"
	g.Gang = dag.GangPack
	g.Axes = []dag.Axis{dag.Members(int64(me.axis))}
	g.Resources = dag.Resources{CPU: cpu}
}
