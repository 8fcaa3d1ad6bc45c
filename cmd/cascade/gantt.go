package main

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"html"
	"slices"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// Sizes of a Gantt picture, in pixels.
const (
	ganttWidth   = 1200.0
	ganttLeft    = 120.0
	ganttLane    = 14.0
	ganttTop     = 46.0
	ganttBetween = 10.0
)

// gantt draws a plan: time to the right, for each host as many lanes as tasks run
// there at once, tasks of a family in one colour, and what a task is as its title.
// The picture refers to nothing outside.
func gantt(g *dag.Graph, p *planner.Plan) []byte {
	lanes, rows := ganttLanes(p)
	top := make([]float64, len(rows)+1)
	top[0] = ganttTop
	for h, n := range rows {
		top[h+1] = top[h] + float64(max(n, 1))*ganttLane + ganttBetween
	}
	scale := (ganttWidth - ganttLeft - 20) / max(p.Makespan, 1e-9)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" font-family="sans-serif" font-size="11">`+"\n", ganttWidth, top[len(rows)]+20)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	fmt.Fprintf(&b, `<text x="10" y="18" font-size="14">%s: predicted %s, at best %s</text>`+"\n", html.EscapeString(g.Name), seconds(p.Makespan), seconds(p.LowerBound))
	for k := range 11 {
		at := p.Makespan * float64(k) / 10
		x := ganttLeft + at*scale
		fmt.Fprintf(&b, `<path d="M%.1f %g V%g" stroke="#ddd"/><text x="%.1f" y="%g" text-anchor="middle" fill="#666">%s</text>`+"\n", x, ganttTop-4, top[len(rows)], x, ganttTop-8, seconds(at))
	}
	for h := range rows {
		fmt.Fprintf(&b, `<text x="10" y="%.1f">%s</text>`+"\n", top[h]+11, html.EscapeString(p.Hosts[h]))
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if t.Host < 0 {
			continue
		}
		task := dag.TaskIndex(i)
		fmt.Fprintf(&b, `<rect x="%.2f" y="%.1f" width="%.2f" height="%g" fill="%s" stroke="white" stroke-width="0.5"><title>%s</title></rect>`+"\n",
			ganttLeft+t.Start*scale, top[t.Host]+float64(lanes[i])*ganttLane, max((t.Finish-t.Start)*scale, 0.5), ganttLane-2, colour(g.Group(task).Name),
			html.EscapeString(fmt.Sprintf("%s: %s to %s; %s", g.TaskName(task), seconds(t.Start), seconds(t.Finish), p.Reason(g, task))))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// ganttLanes gives each task the first lane of its host that is free, and tells
// how many lanes each host has.
func ganttLanes(p *planner.Plan) (lane, rows []int) {
	lane, rows = make([]int, len(p.Tasks)), make([]int, len(p.Hosts))
	order := make([]int, len(p.Tasks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Tasks[a].Start, p.Tasks[b].Start) })
	free := make([][]float64, len(p.Hosts)) // since when each lane is
	for _, i := range order {
		t := &p.Tasks[i]
		if t.Host < 0 {
			continue
		}
		k := slices.IndexFunc(free[t.Host], func(since float64) bool { return since <= t.Start+1e-9 })
		if k < 0 {
			k = len(free[t.Host])
			free[t.Host] = append(free[t.Host], 0)
		}
		free[t.Host][k], lane[i] = t.Finish, k
		rows[t.Host] = len(free[t.Host])
	}
	return lane, rows
}

// colour is the same for equal names: a hue, none so light that it is lost on white.
func colour(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("hsl(%d,55%%,55%%)", h.Sum32()%360)
}
