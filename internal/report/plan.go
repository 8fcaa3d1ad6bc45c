package report

import (
	"fmt"
	"html/template"
	"io"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/screen"
	"github.com/cascade-run/cascade/planner"
)

// Picture draws a plan of a graph: what runs where and when, and, where the plan
// knows of it, what hosts receive from others and what is in their memory.
func Picture(g *dag.Graph, p *planner.Plan) *Chart {
	c := &Chart{Title: fmt.Sprintf("%s: predicted %s, at best %s", g.Name, Seconds(p.Makespan), Seconds(p.LowerBound)), End: p.Makespan, Classes: groupNames(g)}
	row, receives := make([]int, len(p.Hosts)), make([]int, len(p.Hosts))
	for h, name := range p.Hosts {
		row[h] = len(c.Rows)
		c.Rows = append(c.Rows, name)
		for i := range p.Transfers {
			if p.Transfers[i].To == h {
				receives[h] = len(c.Rows)
				c.Rows = append(c.Rows, "  receives")
				break
			}
		}
	}
	for i := range p.Tasks {
		if t := &p.Tasks[i]; t.Host >= 0 {
			task := dag.TaskIndex(i)
			c.Bars = append(c.Bars, Bar{Row: row[t.Host], Start: t.Start, Finish: t.Finish, Class: g.Group(task).Name,
				Text: fmt.Sprintf("%s: %s to %s; %s", g.TaskName(task), Seconds(t.Start), Seconds(t.Finish), p.Reason(g, task))})
		}
	}
	for i := range p.Transfers {
		t := &p.Transfers[i]
		c.Bars = append(c.Bars, Bar{Row: receives[t.To], Start: t.Start, Finish: t.Finish, Class: g.Group(t.Task).Name,
			Text: fmt.Sprintf("%s of %s from %s: %s to %s", units.BytesSize(t.Bytes), g.TaskName(t.Task), p.Hosts[t.From], Seconds(t.Start), Seconds(t.Finish))})
	}
	for h := range p.Memory {
		a := Area{Name: p.Hosts[h], Limit: p.Memory[h].Limit}
		for _, u := range p.Memory[h].Over {
			a.Over = append(a.Over, Level(u))
		}
		c.Areas = append(c.Areas, a)
	}
	return c
}

// planned is what a plan has for one host.
type planned struct {
	Name     string
	Tasks    int
	Busy     float64 // percent of its cores over the whole time
	Received uint64
	Peak     uint64 // bytes in memory
	Limit    uint64 // of memory; 0 unknown
	Spills   int
}

// hostsOf says for each host of a cluster what a plan has for it.
func hostsOf(g *dag.Graph, p *planner.Plan, c *planner.Cluster) []planned {
	rows := make([]planned, len(p.Hosts))
	for h, name := range p.Hosts {
		rows[h].Name = name
		if len(p.Memory) > 0 {
			m := &p.Memory[h]
			rows[h].Peak, rows[h].Limit, rows[h].Spills = uint64(m.Peak), uint64(m.Limit), len(m.Spills)
		}
	}
	for i, t := range p.Tasks {
		if t.Host >= 0 {
			all := max(p.Makespan, 1e-9) * float64(c.Hosts[t.Host].CPU) / 1000
			rows[t.Host].Tasks++
			rows[t.Host].Busy += 100 * (t.Finish - t.Start) * planner.Cores(g.Group(dag.TaskIndex(i))) / all
		}
	}
	for i := range p.Transfers {
		rows[p.Transfers[i].To].Received += uint64(p.Transfers[i].Bytes)
	}
	return rows
}

// PlanPage writes one HTML file about a plan of a graph for a cluster, which refers
// to nothing outside.
func PlanPage(w io.Writer, g *dag.Graph, p *planner.Plan, c *planner.Cluster) error {
	page, err := load("plan.html")
	if err != nil {
		return err
	}
	gap := 0.0
	if p.LowerBound > 0 {
		gap = 100 * (p.Makespan/p.LowerBound - 1)
	}
	type row struct {
		Name, Host, Reason string
		Start, Finish      float64
	}
	rows := make([]row, 0, min(len(p.Tasks), pageSteps))
	for i := range min(len(p.Tasks), pageSteps) {
		t, task := &p.Tasks[i], dag.TaskIndex(i)
		r := row{Name: g.TaskName(task), Reason: p.Reason(g, task), Start: t.Start, Finish: t.Finish}
		if t.Host >= 0 {
			r.Host = p.Hosts[t.Host]
		}
		rows = append(rows, r)
	}
	err = page.Execute(screen.NewWriter(w), map[string]any{
		"Name": g.Name, "Plan": p, "Gap": gap, "Late": p.LateText(g), "Hosts": hostsOf(g, p, c), "Tasks": rows,
		"Picture": template.HTML(Picture(g, p).SVG()), //nolint:gosec // the chart escapes all names
	})
	if err != nil {
		return fmt.Errorf("write page of a plan: %w", err)
	}
	return nil
}
