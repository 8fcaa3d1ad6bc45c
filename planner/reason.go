package planner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// mostSources is of how many inputs of a task it is told where they come from.
const mostSources = 1000

// movedText says what must be moved for a task, from where and how fast, and what it
// would take on the host that can run it where it takes least; "" when nothing must.
func (p *Plan) movedText(g *dag.Graph, i dag.TaskIndex) string {
	t := &p.Tasks[i]
	if t.bytes <= 0 || t.Host < 0 {
		return ""
	}
	text := fmt.Sprintf(", %.0f bytes to move", t.bytes)
	from := p.sources(g, i)
	if len(from) == 0 {
		return text
	}
	far := slices.DeleteFunc(slices.Clone(from), func(f part) bool { return f.host == t.Host })
	if len(far) == 0 {
		return text
	}
	most := slices.MaxFunc(far, func(a, b part) int { return cmp.Compare(a.bytes, b.bytes) })
	way := p.Way(most.host, t.Host)
	text += " from " + p.Hosts[most.host]
	if n := len(far) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	text += fmt.Sprintf(": %.3g s at %s (%s)", p.moving(from, t.Host), profiles.BitsText(way.Bandwidth), way.Basis)
	best, least := t.Host, p.moving(from, t.Host)
	for _, f := range from {
		if h := &p.on.Hosts[f.host]; h.serves(g, g.Group(i)) && h.fitsOne(&g.Group(i).Resources) && p.moving(from, f.host) < least {
			best, least = f.host, p.moving(from, f.host)
		}
	}
	if best != t.Host {
		text += fmt.Sprintf(", to %s %.3g s", p.Hosts[best], least)
	}
	return text
}

// part is what a task takes from one host, in bytes.
type part struct {
	host  int
	bytes float64
}

// sources returns from where a task takes how much, by host; none when it takes too
// much to look at, or it is not known where all of it is.
func (p *Plan) sources(g *dag.Graph, i dag.TaskIndex) (from []part) {
	inputs, err := g.Inputs(i)
	if err != nil {
		return nil
	}
	seen := map[dag.Source]bool{}
	for _, in := range inputs {
		for _, s := range in.Sources {
			if len(seen) == mostSources || int(s.Task) >= len(p.Tasks) || p.Tasks[s.Task].Host < 0 {
				return nil
			}
			if seen[s] {
				continue
			}
			seen[s] = true
			output := &g.Group(s.Task).Outputs[s.Output]
			bytes := p.sizes[g.GroupNear(s.Task, 0)][s.Output]
			if s.Kind == dag.SourceElement {
				bytes /= float64(max(output.Count, 1))
			}
			k := slices.IndexFunc(from, func(f part) bool { return f.host == p.Tasks[s.Task].Host })
			if k < 0 {
				k, from = len(from), append(from, part{host: p.Tasks[s.Task].Host})
			}
			from[k].bytes += bytes
		}
	}
	return from
}

// moving returns the seconds for which these bytes are on their way to a host, one
// after the other, when nothing else moves.
func (p *Plan) moving(from []part, to int) (seconds float64) {
	for _, f := range from {
		if f.host != to {
			w := p.Way(f.host, to)
			seconds += f.bytes/w.Bandwidth + w.Latency
		}
	}
	return seconds
}
