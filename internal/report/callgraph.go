package report

import (
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// callDrawing adds called tasks to a drawing: control edges go from a task to those that it called,
// data edges from what a task made, or put, to those that read it by reference.
type callDrawing struct {
	d       *Drawing
	tasks   bool // each, with the datasets that were read; else the functions
	seen    map[edge]bool
	roots   map[string]int // nodes of tasks of the graph, by name
	nodes   map[string]int // nodes of calls, by name; of functions, by theirs
	rows    map[string]*comms.CallRow
	places  map[callPlace]*comms.CallRow
	data    map[string]int // nodes of datasets, by name
	classes map[string]int
}

func (d *Drawing) addCalls(g *dag.Graph, calls []comms.CallRow, tasks bool, place func(dag.TaskIndex) int) {
	c := &callDrawing{d: d, tasks: tasks, seen: map[edge]bool{}, roots: map[string]int{}, nodes: map[string]int{}, rows: map[string]*comms.CallRow{},
		places: map[callPlace]*comms.CallRow{}, data: map[string]int{}, classes: map[string]int{}}
	for i := range calls {
		row := &calls[i]
		c.rows[row.Name], c.places[callPlace{row.Parent, row.Strand, row.Number}] = row, row
		if i, known := g.Lookup(row.Task); known {
			c.roots[row.Task] = place(i)
		}
		if _, known := c.classes[row.Function]; !known {
			c.classes[row.Function] = len(g.Groups) + len(c.classes)
		}
	}
	drawn := map[string]bool{} // a task that was called again has several rows
	for i := range calls {
		if row := &calls[i]; c.rows[row.Name] == row && !drawn[row.Name] {
			drawn[row.Name] = true
			c.add(row)
		}
	}
}

func (c *callDrawing) add(row *comms.CallRow) {
	to := c.call(row)
	if !c.tasks {
		c.d.nodes[to].tasks++
	}
	by := c.task(row.Parent)
	c.edge(edge{from: by, to: to, label: "calls", control: true})
	for _, r := range row.Reads {
		from, name := c.source(row, r)
		switch {
		case c.tasks && from != nil:
			c.edge(edge{from: c.dataset(name, c.call(from), from.Function), to: to})
		case c.tasks && r.OfParent:
			c.edge(edge{from: c.dataset(name, -1, ""), to: to})
		case c.tasks:
			c.edge(edge{from: c.dataset(name, by, ""), to: to})
		case from != nil:
			c.edge(edge{from: c.call(from), to: to})
		case r.OfParent:
			c.edge(edge{from: by, to: to, label: "input"})
		default:
			c.edge(edge{from: by, to: to, label: "value"})
		}
	}
}

// source finds the call that made what a task read, nil when that is a value or not known, and a name for it.
func (c *callDrawing) source(row *comms.CallRow, r comms.CallReads) (*comms.CallRow, string) {
	for r.OfParent { // it was passed on
		parent := c.rows[row.Parent]
		k := int(r.Element)
		passed := comms.CallReads{OfParent: true}
		if parent != nil {
			for _, in := range parent.Reads {
				if in.Input == r.Output {
					if k == 0 {
						passed = in
					}
					k--
				}
			}
		}
		if k >= 0 { // a value, or an input of a task of the graph
			return nil, fmt.Sprintf("input %d of %s", r.Output, row.Parent)
		}
		row, r = parent, passed
	}
	made := c.places[callPlace{row.Parent, r.Strand, r.Number}]
	name := string(comms.AppendCallName(nil, []byte(row.Parent), "", comms.CallRef{Strand: r.Strand, Number: r.Number}))
	if made == nil {
		return nil, "value " + name
	}
	if name = made.Name + "." + fmt.Sprint(r.Output); r.Element > 0 {
		name += fmt.Sprintf("[%d]", r.Element)
	}
	return made, name
}

// call returns the node of a called task, or of its function.
func (c *callDrawing) call(row *comms.CallRow) int {
	if c.tasks {
		return c.node(row.Name, row.Function, c.classes[row.Function])
	}
	at := c.node(row.Function, "called", c.classes[row.Function])
	return at
}

// task returns the node of a task that has called: one of the graph, a called one, or one that has not ended.
func (c *callDrawing) task(name string) int {
	if at, ok := c.roots[name]; ok {
		return at
	}
	if row := c.rows[name]; row != nil {
		return c.call(row)
	}
	if !c.tasks {
		name = "open calls"
	}
	at := c.node(name, "not ended", 0)
	c.d.nodes[at].tasks = 1
	return at
}

func (c *callDrawing) node(name, runs string, class int) int {
	at, ok := c.nodes[name]
	if !ok {
		at = len(c.d.nodes)
		c.nodes[name] = at
		n := node{name: name, runs: runs, class: class}
		if c.tasks {
			n.tasks = 1
		}
		c.d.nodes = append(c.d.nodes, n)
	}
	return at
}

// dataset returns the node of a dataset, which the task of a node made; -1: that is not known.
func (c *callDrawing) dataset(name string, by int, function string) int {
	at, ok := c.data[name]
	if !ok {
		at = len(c.d.nodes)
		c.data[name] = at
		c.d.nodes = append(c.d.nodes, node{name: name, tasks: 1, class: c.classes[function], data: true})
		if by >= 0 {
			c.edge(edge{from: by, to: at})
		}
	}
	return at
}

func (c *callDrawing) edge(e edge) {
	if !c.seen[e] {
		c.seen[e] = true
		c.d.edges = append(c.d.edges, e)
	}
}
