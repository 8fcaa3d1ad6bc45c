package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// weights are what the plan of a job says that its families take, and for how long all of it.
type weights struct {
	total float64            // from the first start to the end, in seconds
	each  map[string]float64 // of a task of a family
}

// weigh reads them from a plan.
func weigh(plan []comms.PlanRow) weights {
	w := weights{each: map[string]float64{}}
	n := map[string]float64{}
	for i := range plan {
		r := &plan[i]
		family, _, _ := strings.Cut(r.Task, "[")
		w.total = max(w.total, r.Finish)
		w.each[family] += r.Finish - r.Start
		n[family]++
	}
	for family := range w.each {
		w.each[family] /= n[family]
	}
	return w
}

// left predicts for how many seconds a job still runs: the plan's time, by the share of the work
// that has not ended. 0 when that is not known.
func (w weights) left(p *cascade.Progress) float64 {
	var all, left float64
	for _, g := range p.Groups {
		each := w.each[g.Group]
		all += each * float64(g.Total)
		left += each * float64(g.Total-min(g.Total, g.Done+g.Failed+g.Skipped+g.Cancelled))
	}
	if all == 0 {
		return 0
	}
	return w.total * left / all
}

// medians are the median durations of families, of tasks that have ended.
func medians(rows []comms.TaskRow) map[string]float64 {
	all := map[string][]float64{}
	for i := range rows {
		if rows[i].State == "done" {
			all[rows[i].Group] = append(all[rows[i].Group], rows[i].Seconds)
		}
	}
	found := map[string]float64{}
	for family, s := range all {
		slices.Sort(s)
		found[family] = s[len(s)/2]
	}
	return found
}

// sortBy sorts by a number, the least first.
func sortBy[T any](all []T, number func(T) float64) {
	slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(number(a), number(b)) })
}
