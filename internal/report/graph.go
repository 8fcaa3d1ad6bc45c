package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/screen"
)

// Drawing is a graph to be drawn: families, or single tasks; and what these called.
type Drawing struct {
	name  string
	nodes []node
	edges []edge // sorted, none twice
}

type node struct {
	name, runs string
	tasks      int // 0: as many as there are elements
	class      int // its family's number, of which it has the colour
	output     bool
	data       bool // it is a dataset and no task
}

type edge struct {
	from, to int
	label    string
	control  bool // from a task to one that it called; else data goes along it
}

// pictureNodes is the most nodes that SVG lays out: more are not readable.
const pictureNodes = 2000

// Draw collects what is drawn of a graph: its families, or each task; and of the tasks that these
// called, the functions, or each with the datasets that it read.
func Draw(g *dag.Graph, calls []comms.CallRow, tasks bool) (*Drawing, error) {
	d := &Drawing{name: g.Name}
	n := g.NumTasks() + g.NumSlots()
	place := func(i dag.TaskIndex) int { return g.GroupIndex(i) }
	if tasks {
		place = func(i dag.TaskIndex) int { return int(i) }
		for i := range n {
			d.nodes = append(d.nodes, newNode(g, g.GroupIndex(dag.TaskIndex(i)), g.TaskName(dag.TaskIndex(i)), 1))
		}
	} else {
		for k := range g.Groups {
			_, count := g.GroupTasks(k)
			if g.Groups[k].Stream != nil {
				count = 0
			}
			d.nodes = append(d.nodes, newNode(g, k, g.Groups[k].Name, count))
		}
	}
	seen := map[edge]bool{}
	add := func(s dag.Source, to int) {
		outputs := g.Group(s.Task).Outputs
		if e := (edge{from: place(s.Task), to: to, label: outputs[s.Output].Name}); !seen[e] {
			seen[e] = true
			d.edges = append(d.edges, e)
		}
	}
	for i := range n {
		task := dag.TaskIndex(i)
		inputs, err := g.Inputs(task)
		if err != nil {
			return nil, fmt.Errorf("inputs of %s: %w", g.TaskName(task), err)
		}
		for _, in := range inputs {
			for _, s := range in.Sources {
				add(s, place(task))
			}
		}
		if st := g.Group(task).Stream; st != nil {
			add(dag.Source{Task: st.Generator, Output: st.Output}, place(task))
		}
	}
	for _, x := range g.Exports {
		for _, s := range x.Sources {
			d.nodes[place(s.Task)].output = true
		}
	}
	if len(calls) > 0 {
		d.addCalls(g, calls, tasks, place)
	}
	slices.SortFunc(d.edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.label, b.label))
	})
	return d, nil
}

func newNode(g *dag.Graph, group int, name string, tasks int) node {
	run := &g.Groups[group].Run
	runs := run.Function
	if runs == "" {
		runs = "command"
	}
	if run.Environment != "" {
		runs = run.Environment + ":" + runs
	}
	return node{name: name, runs: runs, tasks: tasks, class: group}
}

// title is the name of a node with the number of its tasks.
func (n *node) title() string {
	switch n.tasks {
	case 0:
		return n.name + " x each"
	case 1:
		return n.name
	}
	return fmt.Sprintf("%s x %d", n.name, n.tasks)
}

// text is what is written on a node.
func (n *node) text() string {
	if n.runs == "" {
		return n.title()
	}
	return n.title() + "\n" + n.runs
}

// DOT is the drawing for Graphviz.
func (d *Drawing) DOT() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "digraph %s {\n  node [shape=box, style=rounded];\n", quoteDOT(d.name))
	for i := range d.nodes {
		n := &d.nodes[i]
		more := ""
		switch {
		case n.data:
			more = ", shape=ellipse, style=solid"
		case n.output:
			more = ", style=\"rounded,bold\""
		}
		fmt.Fprintf(&b, "  n%d [label=%s%s];\n", i, quoteDOT(n.text()), more)
	}
	for _, e := range d.edges {
		more := ""
		if e.control {
			more = ", style=dashed"
		}
		fmt.Fprintf(&b, "  n%d -> n%d [label=%s%s];\n", e.from, e.to, quoteDOT(e.label), more)
	}
	b.WriteString("}\n")
	return screen.Bytes(b.Bytes()), nil
}

func quoteDOT(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(screen.Text(s)) + `"`
}

// Mermaid is the drawing for Markdown.
func (d *Drawing) Mermaid() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("flowchart TD\n")
	for i := range d.nodes {
		n := &d.nodes[i]
		left, right := "[", "]"
		switch {
		case n.data:
			left, right = "[(", ")]"
		case n.output:
			left, right = "([", "])"
		}
		fmt.Fprintf(&b, "  n%d%s%s%s\n", i, left, quoteMermaid(n.text()), right)
	}
	for _, e := range d.edges {
		arrow, label := "-->", ""
		if e.control {
			arrow = "-.->"
		}
		if e.label != "" {
			label = "|" + quoteMermaid(e.label) + "|"
		}
		fmt.Fprintf(&b, "  n%d %s%s n%d\n", e.from, arrow, label, e.to)
	}
	return screen.Bytes(b.Bytes()), nil
}

func quoteMermaid(s string) string {
	return `"` + strings.ReplaceAll(html.EscapeString(s), "\n", "<br>") + `"`
}

// Sizes of a drawn node, in pixels.
const (
	nodeHeight = 40.0
	nodeLayer  = 90.0 // from one layer to the next
	nodeGap    = 24.0
	nodeLetter = 7.0
)

// SVG is the drawing as a picture: producers above consumers, callers above what they called.
func (d *Drawing) SVG() ([]byte, error) {
	if n := len(d.nodes); n > pictureNodes {
		return nil, fmt.Errorf("draw %d nodes: a picture shows %d at most; take dot or mermaid, or families instead of tasks", n, pictureNodes)
	}
	l := d.layout()
	x, y, wide := l.x, l.y, l.wide
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" font-family="sans-serif" font-size="12">`+"\n", l.width, l.height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	for _, e := range d.edges {
		x1, y1, x2, y2 := x[e.from]+wide[e.from]/2, y[e.from]+nodeHeight, x[e.to]+wide[e.to]/2, y[e.to]
		dashes := ""
		if e.control {
			dashes = ` stroke-dasharray="4 3"`
		}
		fmt.Fprintf(&b, `<path d="M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f" fill="none" stroke="#999"%s><title>%s</title></path>`+"\n",
			x1, y1, x1, y1+30, x2, y2-30, x2, y2, dashes, html.EscapeString(e.label))
	}
	for i := range d.nodes {
		n := &d.nodes[i]
		thick, round, fill := 1, 6, "#f4f6fa"
		if n.output {
			thick = 2
		}
		if n.data {
			round, fill = 20, "#fff"
		}
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%g" rx="%d" fill="%s" stroke="%s" stroke-width="%d"/>`, x[i], y[i], wide[i], nodeHeight, round, fill, colourOf(n.class), thick)
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, x[i]+wide[i]/2, y[i]+17, html.EscapeString(n.title()))
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" fill="#666" font-size="11">%s</text>`+"\n", x[i]+wide[i]/2, y[i]+32, html.EscapeString(n.runs))
	}
	b.WriteString("</svg>\n")
	return screen.Bytes(b.Bytes()), nil
}

// layout is where the nodes of a drawing are, in pixels.
type layout struct {
	x, y, wide    []float64 // of each node
	width, height float64   // of all
}

// layout puts the layers below each other, each in the middle.
func (d *Drawing) layout() *layout {
	layers := d.layers()
	l := &layout{x: make([]float64, len(d.nodes)), y: make([]float64, len(d.nodes)), wide: make([]float64, len(d.nodes)), width: 200, height: float64(len(layers)) * nodeLayer}
	for i := range d.nodes {
		n := &d.nodes[i]
		l.wide[i] = nodeLetter*float64(max(len([]rune(n.title())), len([]rune(n.runs)))) + 20
	}
	width := func(layer []int) float64 {
		w := nodeGap
		for _, i := range layer {
			w += l.wide[i] + nodeGap
		}
		return w
	}
	for _, layer := range layers {
		l.width = max(l.width, width(layer))
	}
	for k, layer := range layers {
		at := (l.width-width(layer))/2 + nodeGap
		for _, i := range layer {
			l.x[i], l.y[i] = at, 20+float64(k)*nodeLayer
			at += l.wide[i] + nodeGap
		}
	}
	return l
}

// layers puts each node below all of its producers, and the nodes of a layer in the
// order of the middle of their neighbours (the barycentre rule of Sugiyama, Tagawa
// and Toda, 1981), down and up again a few times.
func (d *Drawing) layers() [][]int {
	level := d.levels()
	var layers [][]int
	for i, l := range level {
		for len(layers) <= l {
			layers = append(layers, nil)
		}
		layers[l] = append(layers[l], i)
	}
	up, down := make([][]int, len(d.nodes)), make([][]int, len(d.nodes))
	for _, e := range d.edges {
		up[e.to], down[e.from] = append(up[e.to], e.from), append(down[e.from], e.to)
	}
	at := make([]float64, len(d.nodes))
	number := func(layer []int) {
		for k, i := range layer {
			at[i] = (float64(k) + 0.5) / float64(len(layer))
		}
	}
	arrange := func(layer []int, near [][]int) {
		middle := map[int]float64{}
		for _, i := range layer {
			middle[i] = at[i]
			if len(near[i]) > 0 {
				sum := 0.0
				for _, k := range near[i] {
					sum += at[k]
				}
				middle[i] = sum / float64(len(near[i]))
			}
		}
		slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(middle[a], middle[b]) })
		number(layer)
	}
	for _, layer := range layers {
		number(layer)
	}
	for range 4 {
		for _, layer := range layers {
			arrange(layer, up)
		}
		for _, layer := range slices.Backward(layers) {
			arrange(layer, down)
		}
	}
	return layers
}

// levels counts for each node the nodes of the longest way to it. Families may feed
// each other in turn: an edge that closes such a circle counts for nothing.
func (d *Drawing) levels() []int {
	out := make([][]int, len(d.nodes))
	for _, e := range d.edges {
		out[e.from] = append(out[e.from], e.to)
	}
	const unseen, under, done = 0, 1, 2
	state := make([]int, len(d.nodes))
	forward := make([][]int, len(d.nodes))
	var order []int // each node behind all that it leads to
	var visit func(i int)
	visit = func(i int) {
		state[i] = under
		for _, k := range out[i] {
			if state[k] == under {
				continue
			}
			forward[i] = append(forward[i], k)
			if state[k] == unseen {
				visit(k)
			}
		}
		state[i] = done
		order = append(order, i)
	}
	for i := range d.nodes {
		if state[i] == unseen {
			visit(i)
		}
	}
	level := make([]int, len(d.nodes))
	for _, i := range slices.Backward(order) {
		for _, k := range forward[i] {
			level[k] = max(level[k], level[i]+1)
		}
	}
	return level
}
