package report

import "math"

// Boxes is a drawing for a program that paints it: where each node is, in pixels.
type Boxes struct {
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
	Nodes  []Box   `json:"nodes"`
	Edges  []Line  `json:"edges"`
}

// Box is a node of a drawing.
type Box struct {
	Name   string  `json:"name"`
	Runs   string  `json:"runs"`
	Colour string  `json:"colour"`
	Output bool    `json:"output,omitempty"`
	X      float64 `json:"x"`
	Y      float64 `json:"y"`
	Width  float64 `json:"width"`
	Height float64 `json:"height"`
}

// Line goes from a node to one that reads its outputs, by their numbers.
type Line struct {
	From  int    `json:"from"`
	To    int    `json:"to"`
	Label string `json:"label,omitempty"`
}

// Boxes lays the drawing out, nil when it has more nodes than people can read.
func (d *Drawing) Boxes() *Boxes {
	if len(d.nodes) > pictureNodes {
		return nil
	}
	l := d.layout()
	b := &Boxes{Width: math.Ceil(l.width), Height: l.height, Nodes: make([]Box, 0, len(d.nodes)), Edges: make([]Line, 0, len(d.edges))}
	for i := range d.nodes {
		n := &d.nodes[i]
		b.Nodes = append(b.Nodes, Box{Name: n.name, Runs: n.runs, Colour: colourOf(n.class), Output: n.output, X: math.Round(l.x[i]), Y: l.y[i], Width: math.Round(l.wide[i]), Height: nodeHeight})
	}
	for _, e := range d.edges {
		if k := len(b.Edges); k > 0 && b.Edges[k-1].From == e.from && b.Edges[k-1].To == e.to { // they are sorted
			b.Edges[k-1].Label += ", " + e.label
			continue
		}
		b.Edges = append(b.Edges, Line{e.from, e.to, e.label})
	}
	return b
}

// ColourOf is the colour of the family with a number: one of all pictures.
func ColourOf(number int) string { return colourOf(number) }
