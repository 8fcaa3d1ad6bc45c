package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// The most families and running tasks that a terminal shows of a job.
const (
	liveFamilies = 8
	liveTasks    = 5
)

// runningTasks asks which tasks run, so often that the controller has little to do: it reads
// all that the job has stored.
func (s *progress) runningTasks(ctx context.Context, client *cascade.Client, p *cascade.Progress) {
	now := s.now()
	if client == nil || now.Before(s.asks) {
		return
	}
	rows, err := cascade.FirstRows[comms.TaskRow](ctx, client, comms.QueryTasks, p.Job, "running", liveTasks)
	if err == nil { // else what was known last is shown
		s.running = slices.DeleteFunc(rows, func(r comms.TaskRow) bool { return r.State != "running" }) // the name may be a task's
	}
	took := s.now().Sub(now)
	s.asks = s.now().Add(max(time.Second, 20*took))
}

// live is what a terminal shows of a job: a clock, the families, the tasks that run, and what
// it waits for.
func (s *progress) live(p *cascade.Progress, why []string) (lines []string) {
	sum := total(p)
	ended := sum.Done + sum.Failed + sum.Skipped + sum.Cancelled
	const width = 30
	filled := int(width * ended / max(sum.Total, 1))
	lines = append(lines, fmt.Sprintf("%s  %s [%s%s] %s", wholeSeconds(s.now().Sub(s.start)), p.Name, strings.Repeat("#", filled), strings.Repeat(".", width-filled), counts(sum)))
	shown, more := liveGroups(p)
	if len(shown) > 1 || more > 0 {
		name := 0
		for _, g := range shown {
			name = max(name, len([]rune(g.Group)))
		}
		for _, g := range shown {
			lines = append(lines, fmt.Sprintf("  %-*s  %s", name, g.Group, counts(g)))
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("  and %s", familyCount(more)))
	}
	running := s.running[:min(uint64(len(s.running)), sum.Running)] // as they were when they were asked for
	for i := range running {
		lines = append(lines, "  "+s.taskLine(&running[i]))
	}
	if n := int(sum.Running) - len(running); n > 0 && len(running) == liveTasks {
		lines = append(lines, fmt.Sprintf("  and %d more run", n))
	}
	for _, text := range why {
		lines = append(lines, "  "+text)
	}
	return lines
}

// taskLine says for how long a task runs, and where when that may be elsewhere.
func (s *progress) taskLine(r *comms.TaskRow) string {
	text := r.Name + " runs"
	if s.a.to != "" {
		text += " on " + r.Agent
	}
	if at, err := time.Parse(time.RFC3339Nano, r.Started); err == nil {
		text += " for " + wholeSeconds(s.now().Sub(at))
	}
	if r.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", r.Attempt)
	}
	return text
}

// liveGroups are the families of a job that a terminal shows, in their order, and how many
// others there are: those of which something runs go first, those that have ended last.
func liveGroups(p *cascade.Progress) (shown []comms.GroupCounts, more int) {
	rank := func(g comms.GroupCounts) int {
		switch {
		case g.Running > 0:
			return 0
		case g.Failed > 0:
			return 1
		case g.Done+g.Failed+g.Skipped+g.Cancelled < g.Total:
			return 2
		}
		return 3
	}
	order := make([]int, 0, len(p.Groups))
	for i := range p.Groups {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank(p.Groups[a]) - rank(p.Groups[b]) })
	order = order[:min(len(order), liveFamilies)]
	slices.Sort(order)
	for _, i := range order {
		shown = append(shown, p.Groups[i])
	}
	return shown, len(p.Groups) - len(order)
}

func familyCount(n int) string {
	if n == 1 {
		return "1 more family"
	}
	return fmt.Sprintf("%d more families", n)
}

// wholeSeconds prints a time for a clock that runs.
func wholeSeconds(d time.Duration) string { return max(d, 0).Truncate(time.Second).String() }
