package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// Late is a task that is predicted to end after its deadline. Times are seconds
// from the start of the job.
type Late struct {
	Task     dag.TaskIndex
	Finish   float64
	Deadline float64
}

// hasDeadlines tells whether any group has one.
func hasDeadlines(g *dag.Graph) bool {
	return slices.ContainsFunc(g.Groups, func(grp dag.Group) bool { return grp.Deadline > 0 })
}

// hurry raises ranks along the paths to deadlines. A rank is how long before the
// end of the job a task must have started, if all goes on at once; a deadline puts
// the end that counts for those before it to its own time. So ranks order by the
// latest start (least laxity). A task that no deadline needs keeps its rank, and counts
// as if it had twice the time that the job takes: it is not urgent.
func (n *nodes) hurry(c *Cluster, transfer func(edge) float64) {
	if !hasDeadlines(n.g) {
		return
	}
	end, work, cores := 0.0, 0.0, 0.0
	for _, r := range n.rank {
		end = max(end, r)
	}
	for i := range n.order {
		work += n.cost(i).seconds * float64(n.cost(i).need.cpu) / 1000
	}
	for i := range c.Hosts {
		cores += float64(c.Hosts[i].CPU) / 1000
	}
	if cores > 0 {
		end = max(end, work/cores)
	}
	end *= 2
	before := make([]float64, len(n.order)) // the end by which a node must have started; 0: no deadline follows
	for k := len(n.order) - 1; k >= 0; k-- {
		i := n.order[k]
		need := 0.0
		if d := n.g.Groups[n.group[i]].Deadline.Seconds(); d > 0 {
			need = max(end-d, 0)
		}
		for _, e := range n.next(i) {
			if before[e.to] > 0 {
				need = max(need, before[e.to]+transfer(e))
			}
		}
		if need > 0 {
			before[i] = need + n.cost(int(i)).seconds
			n.rank[i] = max(n.rank[i], before[i])
		}
	}
}

// findLate lists the tasks that a schedule ends too late, the first deadline first.
func (p *Plan) findLate(g *dag.Graph, tasks []Placement) {
	p.Late = nil
	if !hasDeadlines(g) {
		return
	}
	for i := range tasks {
		d := g.Group(dag.TaskIndex(i)).Deadline.Seconds()
		if d > 0 && tasks[i].Host >= 0 && tasks[i].Finish > d {
			p.Late = append(p.Late, Late{dag.TaskIndex(i), tasks[i].Finish, d})
		}
	}
	slices.SortStableFunc(p.Late, func(a, b Late) int {
		switch {
		case a.Deadline < b.Deadline:
			return -1
		case a.Deadline > b.Deadline:
			return 1
		}
		return 0
	})
}

// lateNames bounds the tasks that LateText names.
const lateNames = 3

// LateText says which deadlines a plan misses, "" when none.
func (p *Plan) LateText(g *dag.Graph) string {
	var parts []string
	for _, l := range p.Late[:min(len(p.Late), lateNames)] {
		parts = append(parts, fmt.Sprintf("%s is predicted to end %.3g s after the start, and its deadline is %.3g s", g.TaskName(l.Task), l.Finish, l.Deadline))
	}
	if more := len(p.Late) - lateNames; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more tasks", more))
	}
	return strings.Join(parts, "; ")
}
