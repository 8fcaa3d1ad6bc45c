package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/cascade-run/cascade/dag"
)

// made is a group of a random job, as later groups may refer to it.
type made struct {
	h      dag.Handle
	axis   int // tasks over an axis; 0: a single task
	stream int // 1 + the group of the generator that it follows; 0 none
	open   bool
	count  int // elements of a fixed generator
}

type maker struct {
	r   *rand.Rand
	b   *dag.Builder
	all []made
	cpu int64
}

// randomGraph makes a job: groups of which some are over axes, some generate,
// some follow a stream; they read from earlier ones, with and without min.
func randomGraph(r *rand.Rand, name string, cpu int64) *dag.Graph {
	for {
		m := &maker{r: r, b: dag.NewBuilder(name), cpu: cpu}
		m.b.Environment(dag.Environment{Name: "env", Go: "./e"})
		m.b.KeepGoing(r.IntN(2) == 0)
		for i := range 1 + r.IntN(7) {
			m.group(i)
		}
		m.exports()
		if g, err := m.b.Build(); err == nil {
			return g
		}
		// Some draws contradict themselves, such as an element that two loops name.
	}
}

func (m *maker) exports() {
	for range 1 + m.r.IntN(3) {
		p := &m.all[len(m.all)-1]
		if m.r.IntN(2) == 0 {
			p = &m.all[m.r.IntN(len(m.all))]
		}
		m.b.Export(m.whole(p), "")
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

func (m *maker) group(i int) {
	r := m.r
	me := made{}
	g := dag.Group{Name: fmt.Sprintf("g%d", i), Retries: r.IntN(3), Priority: r.IntN(2), KeepGoing: r.IntN(3) == 0}
	g.Run = dag.Run{Function: "F"}
	if r.IntN(5) == 0 {
		g.Run = dag.Run{Environment: "env", Function: "G"}
	}
	g.Resources = pick(r, dag.Resources{}, dag.Resources{}, dag.Resources{CPU: 500}, dag.Resources{CPU: min(2000, m.cpu)},
		dag.Resources{Memory: 600 << 20}, dag.Resources{Custom: map[string]int64{"disk": 1000}})
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
		me.axis = 2 + r.IntN(4)
		g.Axes = []dag.Axis{dag.Range("i", 0, int64(me.axis-1))}
	}
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
	m.inputs(&g, &me)
	if me.stream > 0 {
		gen := &m.all[me.stream-1]
		me.h = m.b.Loop("e", gen.h.Out("o").Element(dag.All()), g)
	} else {
		me.h = m.b.Add(g)
	}
	m.all = append(m.all, me)
}

func (m *maker) inputs(g *dag.Group, me *made) {
	add := func(from dag.From, many bool) {
		in := dag.One(fmt.Sprintf("in%d", len(g.Inputs)), from)
		if in.List = many; many && m.r.IntN(3) == 0 {
			in.Min = 1
		}
		g.Inputs = append(g.Inputs, in)
	}
	if me.stream > 0 {
		add(m.all[me.stream-1].h.Out("o").Element(dag.Expr("e")), false)
	}
	for range m.r.IntN(3) {
		if len(m.all) == 0 {
			return
		}
		k := m.r.IntN(len(m.all))
		p := &m.all[k]
		switch {
		case p.stream > 0 && p.stream == me.stream && m.r.IntN(2) == 0:
			add(p.h.Out("o", dag.Expr("e")), false)
		case p.count > 0 && p.axis == 0 && m.r.IntN(2) == 0:
			add(p.h.Out("o").Element(dag.At(p.count-1)), false)
		case p.count == 0 && !p.open && p.axis > 0 && p.axis == me.axis && m.r.IntN(2) == 0:
			add(p.h.Out("o", dag.Expr("i")), false)
		default:
			add(m.whole(p), p.axis > 0 || p.stream > 0 || p.open || p.count > 0)
		}
	}
}
