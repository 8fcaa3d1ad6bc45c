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
	liveLog      = 3   // lines of a failure
	liveAsked    = 500 // of which those that run longest are shown

	livePlanned   = 20_000 // tasks of a job whose plan is asked for
	livePlanEvery = 30 * time.Second
)

// longestRunning are the tasks of a job that run longest, the oldest first, and on how many hosts
// the tasks of each family run, of those that were asked for.
func longestRunning(ctx context.Context, client *cascade.Client, job comms.JobID) (_ []comms.TaskRow, hosts map[string]int, _ error) {
	rows, err := cascade.FirstRows[comms.TaskRow](ctx, client, comms.QueryTasks, job, "running", liveAsked)
	if err != nil {
		return nil, nil, err
	}
	rows = slices.DeleteFunc(rows, func(r comms.TaskRow) bool { return r.State != "running" }) // the name may be a task's
	type place struct{ family, host string }
	seen := map[place]bool{}
	hosts = map[string]int{}
	for _, r := range rows {
		if at := (place{r.Group, r.Agent}); !seen[at] {
			seen[at] = true
			hosts[r.Group]++
		}
	}
	slices.SortStableFunc(rows, func(a, b comms.TaskRow) int {
		switch {
		case earlier(a.Started, b.Started):
			return -1
		case earlier(b.Started, a.Started):
			return 1
		}
		return 0
	})
	return rows[:min(len(rows), liveTasks)], hosts, nil
}

// runningTasks asks which tasks run, which failed and what the plan is, so often that the controller
// has little to do: it reads all that the job has stored.
func (s *progress) runningTasks(ctx context.Context, client *cascade.Client, p *cascade.Progress) {
	now := s.now()
	if client == nil || now.Before(s.asks) {
		return
	}
	if rows, hosts, err := longestRunning(ctx, client, p.Job); err == nil { // else what was known last is shown
		s.running, s.hosts = rows, hosts
	}
	sum := total(p)
	if sum.Failed > 0 && s.failed == nil {
		if rows, err := cascade.FirstRows[comms.TaskRow](ctx, client, comms.QueryTasks, p.Job, "failed", 1); err == nil && len(rows) > 0 && rows[0].State == "failed" {
			s.failed = &rows[0]
		}
	}
	if sum.Total <= livePlanned && !now.Before(s.plans) {
		if rows, err := cascade.Rows[comms.PlanRow](ctx, client, comms.QueryPlan, p.Job, ""); err == nil {
			s.planned = weigh(rows)
		}
		s.plans = now.Add(livePlanEvery)
	}
	took := s.now().Sub(now)
	s.asks = s.now().Add(max(time.Second, 20*took))
}

// live is what a terminal shows of a job: a clock, the families, the tasks that run longest, the
// first failure, and what it waits for.
func (s *progress) live(p *cascade.Progress, why []string) (lines []string) {
	sum := total(p)
	done := sum.Done + sum.Failed + sum.Skipped + sum.Cancelled
	clock, width := wholeSeconds(s.now().Sub(s.start)), 30
	if s.foot != nil {
		if columns, _ := s.foot.size(); columns < 80 {
			width = 10
		}
	}
	lines = append(lines, styleText(styleBold, fmt.Sprintf("%s  %s %s %s", clock, p.Name, bar(done, sum.Total, width), counts(sum))))
	if left := s.planned.left(p); left >= 1 && sum.Running > 0 {
		rest := time.Duration(left * 1e9)
		text := fmt.Sprintf("  about %s left", wholeSeconds(rest))
		if rest >= time.Minute {
			text += s.now().Add(rest).Format(", until 15:04")
		}
		lines = append(lines, text)
	}
	if p.Late != "" {
		lines = append(lines, styleText(styleBold+";"+styleYellow, "  late: "+p.Late))
	}
	shown, more := liveGroups(p)
	if len(shown) > 1 || more > 0 {
		name := 0
		for _, g := range shown {
			name = max(name, len([]rune(g.Group)))
		}
		for _, g := range shown {
			ended := g.Done + g.Failed + g.Skipped + g.Cancelled
			lines = append(lines, styleText(groupStyle(g), fmt.Sprintf("  %-*s %s %s", name, g.Group, bar(ended, g.Total, 10), s.familyLine(g))))
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
	lines = append(lines, s.failureLines()...)
	for _, text := range why {
		lines = append(lines, styleText(styleYellow, "  "+text))
	}
	return lines
}

// familyLine says how a family stands, how long a task of it takes by the plan, and on how many
// hosts it runs when that is not one.
func (s *progress) familyLine(g comms.GroupCounts) string {
	text := counts(g)
	if each := time.Duration(s.planned.each[g.Group] * 1e9); each >= time.Second && g.Total > 1 && g.Done < g.Total {
		text += ", about " + wholeSeconds(each) + " each"
	}
	if n := s.hosts[g.Group]; n > 1 && g.Running > 0 {
		text += fmt.Sprintf(", on %d hosts", n)
	}
	return text
}

// failureLines are the first failure and the last lines that its task wrote.
func (s *progress) failureLines() (lines []string) {
	if s.failed == nil {
		return nil
	}
	lines = append(lines, styleText(styleRed, fmt.Sprintf("  %s failed: %s", s.failed.Name, oneLine(s.failed.Error))))
	tail := strings.Split(strings.TrimRight(s.failed.LogTail, "\n"), "\n")
	for _, text := range tail[max(len(tail)-liveLog, 0):] {
		if text != "" {
			lines = append(lines, styleText(styleDim, "    "+text))
		}
	}
	return lines
}

// groupStyle is the style of a family.
func groupStyle(g comms.GroupCounts) string {
	switch {
	case g.Failed > 0:
		return styleRed
	case g.Running > 0:
		return styleBlue
	case g.Total > 0 && g.Done == g.Total:
		return styleGreen
	}
	return ""
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
