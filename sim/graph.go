package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cascade-run/cascade/dag"
)

// made is a group of a random job, as later groups may refer to it.
type made struct {
	h      dag.Handle
	axis   int    // tasks over an axis; 0: a single task
	index  string // its variable
	stream int    // 1 + the group of the generator that it follows; 0 none
	open   bool
	count  int  // elements of a fixed generator
	gone   bool // left out
}

type maker struct {
	r *rand.Rand
	// gangs draws which families are gangs, and spans which of these are too large for one agent;
	// bounds which groups that need nothing else have a bound of their memory, where tasks are hungry.
	gangs, spans, bounds *rand.Rand
	devices              *rand.Rand // which groups' tasks ask for devices
	b                    *dag.Builder
	all                  []made
	f                    *fates

	name    string
	without []string // groups to leave out, as JOB.GROUP
	added   int
}

// randomGraph makes a job: groups of which some are over axes, some generate,
// some follow a stream; they read from earlier ones, with and without min. Groups
// that are left out are drawn all the same, so that the others stay what they are.
func randomGraph(r *rand.Rand, name string, f *fates, without []string) *dag.Graph {
	for {
		draws := r.Uint64()
		g, err := drawGraph(draws, name, f, nil)
		if err != nil {
			continue // some draws contradict themselves, such as an element that two loops name
		}
		if less, err := drawGraph(draws, name, f, without); err == nil {
			return less
		}
		return g
	}
}

func drawGraph(draws uint64, name string, f *fates, without []string) (*dag.Graph, error) {
	m := &maker{r: rand.New(rand.NewPCG(draws, 2)), gangs: rand.New(rand.NewPCG(draws, 3)), spans: rand.New(rand.NewPCG(draws, 5)), bounds: rand.New(rand.NewPCG(draws, 6)), devices: rand.New(rand.NewPCG(draws, 7)), b: dag.NewBuilder(name), f: f, name: name, without: without}
	m.b.Environment(dag.Environment{Name: "env", Go: "./e"})
	m.b.KeepGoing(m.r.IntN(2) == 0)
	m.b.Rebuilt(f.rebuilt)
	for groups, i := 1+m.r.IntN(7), 0; i < groups; i++ {
		m.group(i, i == groups-1)
	}
	m.exports()
	return m.b.Build()
}

func (m *maker) exports() {
	if m.r.IntN(8) == 0 {
		return // the job is there for its sinks
	}
	for range 1 + m.r.IntN(3) {
		p := &m.all[len(m.all)-1]
		if m.r.IntN(2) == 0 {
			p = &m.all[m.r.IntN(len(m.all))]
		}
		if !p.gone {
			m.b.Export(m.whole(p), "")
		}
	}
}

// whole refers to all that a group makes.
func (m *maker) whole(p *made) dag.From {
	var from dag.From
	if p.axis > 0 || p.stream > 0 {
		from = p.h.Out("o", dag.All())
	} else {
		from = p.h.Out("o")
	}
	if p.open || p.count > 0 {
		return from.Element(dag.All())
	}
	return from
}

func (m *maker) group(i int, last bool) {
	r := m.r
	me := made{}
	g := dag.Group{Name: fmt.Sprintf("g%d", i), Retries: r.IntN(3), Priority: r.IntN(2), KeepGoing: r.IntN(3) == 0}
	g.Run = dag.Run{Function: "F"}
	if r.IntN(5) == 0 {
		g.Run = dag.Run{Environment: "env", Function: "G"}
	}
	g.Resources = pick(r, dag.Resources{}, dag.Resources{}, dag.Resources{CPU: 500}, dag.Resources{CPU: min(2000, m.f.cpu)},
		dag.Resources{Memory: 600 << 20}, dag.Resources{Custom: map[string]int64{"disk": 1000}})
	m.watch(&g)
	if limit := pick(r, 5*time.Millisecond, 50*time.Millisecond, 400*time.Millisecond); r.IntN(1000) < m.f.timeouts {
		g.Timeout = limit
	}
	kind := r.IntN(8)
	var open []int
	for k := range m.all {
		if m.all[k].open {
			open = append(open, k)
		}
	}
	if kind >= 5 && len(open) > 0 {
		me.stream = 1 + pick(r, open...)
	} else if kind <= 1 || kind == 7 {
		me.axis, me.index = 2+r.IntN(4), "i"
		if m.f.steals > 0 {
			me.axis *= 4
		}
		g.Axes = []dag.Axis{dag.Range("i", 0, int64(me.axis-1))}
		m.gang(&g, &me)
	}
	m.device(&g)
	out := dag.OutputDecl{Name: "o"}
	switch {
	case me.stream == 0 && kind == 2:
		me.count = 1 + r.IntN(9)
		out.Generate, out.Count, out.Buffer = dag.GenerateFixed, uint64(me.count), r.IntN(4)
	case me.stream == 0 && me.axis == 0 && (kind == 3 || kind == 4):
		me.open = true
		out.Generate, out.Buffer = dag.GenerateOpen, r.IntN(6)
	}
	g.Outputs = []dag.OutputDecl{out}
	me.gone = slices.Contains(m.without, m.name+"."+g.Name) && !(last && m.added == 0) || me.stream > 0 && m.all[me.stream-1].gone
	m.inputs(&g, &me)
	if !me.gone {
		m.added++
		if me.stream > 0 {
			gen := &m.all[me.stream-1]
			me.h = m.b.Loop("e", gen.h.Out("o").Element(dag.All()), g)
		} else {
			me.h = m.b.Add(g)
		}
	}
	m.all = append(m.all, me)
}

func (m *maker) inputs(g *dag.Group, me *made) {
	add := func(p *made, many bool, from func() dag.From) {
		least := many && m.r.IntN(3) == 0
		if me.gone || p.gone {
			return
		}
		in := dag.One(fmt.Sprintf("in%d", len(g.Inputs)), from())
		if in.List = many; least {
			in.Min = 1
		}
		g.Inputs = append(g.Inputs, in)
	}
	if me.stream > 0 {
		gen := &m.all[me.stream-1]
		add(gen, false, func() dag.From { return gen.h.Out("o").Element(dag.Expr("e")) })
	}
	for range m.r.IntN(3) {
		if len(m.all) == 0 {
			return
		}
		k := m.r.IntN(len(m.all))
		p := &m.all[k]
		switch {
		case p.stream > 0 && p.stream == me.stream && m.r.IntN(2) == 0:
			add(p, false, func() dag.From { return p.h.Out("o", dag.Expr("e")) })
		case p.count > 0 && p.axis == 0 && m.r.IntN(2) == 0:
			add(p, false, func() dag.From { return p.h.Out("o").Element(dag.At(p.count - 1)) })
		case p.count == 0 && !p.open && p.axis > 0 && p.axis == me.axis && m.r.IntN(2) == 0:
			add(p, false, func() dag.From { return p.h.Out("o", dag.Expr(me.index)) })
		default:
			add(p, p.axis > 0 || p.stream > 0 || p.open || p.count > 0, func() dag.From { return m.whole(p) })
		}
	}
}
