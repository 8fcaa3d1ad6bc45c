package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/report"
)

// The most jobs and hosts that top shows.
const (
	topJobs  = 12
	topHosts = 12
	topEvery = time.Second
)

func (a *app) topCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "top",
		Short: "Show what runs now: hosts, jobs and their oldest tasks",
		Long: `Show the hosts with what they have and what runs there, the jobs that have not
ended, and the tasks of the newest job that run longest, again every second
until an interrupt (Ctrl-C). Where there is no terminal it is shown once.`,
		Example: "  cascade top\n  cascade top --to hpc",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.json {
				return hintedf(a.hint("ls", "hosts", "--json")+" and "+a.hint("ls", "jobs", "--json"), "top is for people")
			}
			ctx := c.Context()
			return a.listing(a.withJobs(ctx, func(client *cascade.Client) error {
				live := a.onTerminal(a.raw.out) && a.getenv("TERM") != "dumb"
				screen := &display{to: a.raw.out, size: func() (int, int) { return terminalSize(a.raw.out) }, styled: func(style, text string) string { return a.styled(a.raw.out, style, text) }}
				for {
					lines, err := a.topLines(ctx, client, time.Now())
					if err != nil {
						return err
					}
					if !live {
						_, err := fmt.Fprintln(a.out, plainLines(lines))
						return err
					}
					if err := screen.draw(lines); err != nil {
						return err
					}
					select {
					case <-time.After(topEvery):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
			}))
		},
	}
}

// topLines are the lines of top.
func (a *app) topLines(ctx context.Context, client *cascade.Client, now time.Time) (lines []string, err error) {
	hosts, err := cascade.Rows[comms.AgentRow](ctx, client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return nil, err
	}
	if a.alone {
		for i := range hosts {
			hosts[i].State, hosts[i].Running = "away", 0
		}
	}
	jobs, err := cascade.Rows[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, comms.FilterOpen)
	if err != nil {
		return nil, err
	}
	running := uint64(0)
	for i := range hosts {
		running += hosts[i].Running
	}
	lines = append(lines, styleText(styleBold, fmt.Sprintf("%s  %s, %s that have not ended, %s running", now.Format(time.TimeOnly), plural(len(hosts), "host"), plural(len(jobs), "job"), plural(int(running), "task"))))
	var grid [][]string
	for i := range hosts[:min(len(hosts), topHosts)] {
		h := &hosts[i]
		grid = append(grid, []string{h.Name, h.State, fmt.Sprintf("%d running", h.Running), fmt.Sprintf("%g cores", h.CPU), size(uint64(h.Memory))})
	}
	lines = append(lines, aligned(grid)...)
	if n := len(hosts) - topHosts; n > 0 {
		lines = append(lines, fmt.Sprintf("  and %s more", plural(n, "host")))
	}
	grid = nil
	for i := range jobs[:min(len(jobs), topJobs)] {
		j := &jobs[i]
		grid = append(grid, []string{j.Name, j.Phase, bar(j.Done, j.Tasks, 20), fmt.Sprintf("%d/%d done", j.Done, j.Tasks), j.Waits})
	}
	lines = append(append(lines, ""), aligned(grid)...)
	if n := len(jobs) - topJobs; n > 0 {
		lines = append(lines, fmt.Sprintf("  and %s more", plural(n, "job")))
	}
	if len(jobs) == 0 {
		return append(lines, "  no job runs"), nil
	}
	id, err := comms.ParseJobID(jobs[0].ID)
	if err != nil {
		return nil, err
	}
	tasks, _, err := longestRunning(ctx, client, id)
	if err != nil {
		return nil, err
	}
	grid = nil
	for i := range tasks {
		t := &tasks[i]
		soFar(t, now)
		grid = append(grid, []string{t.Name, "on " + t.Agent, "for " + report.Seconds(t.Seconds)})
	}
	return append(append(lines, ""), aligned(grid)...), nil
}

// aligned are cells in columns.
func aligned(rows [][]string) (lines []string) {
	var widths []int
	for _, cells := range rows {
		for i, text := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(text)))
		}
	}
	for _, cells := range rows {
		var b bytes.Buffer
		for i, text := range cells {
			fmt.Fprintf(&b, "  %-*s", widths[i], text)
		}
		style := ""
		if len(cells) > 1 {
			style = styleOf(cells[1])
		}
		lines = append(lines, styleText(style, strings.TrimRight(b.String(), " ")))
	}
	return lines
}

// bar is how much is done, as a picture.
func bar(done, total uint64, width int) string {
	filled := int(uint64(width) * min(done, total) / max(total, 1))
	return "[" + strings.Repeat("#", filled) + strings.Repeat(".", width-filled) + "]"
}
