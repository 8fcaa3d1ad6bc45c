package main

import (
	"context"
	"math"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/report"
)

// familyDiff is a line of diff: what a family did in two jobs. Durations are seconds.
type familyDiff struct {
	Family  string  `json:"family"`
	Tasks   uint64  `json:"tasks"`
	Before  uint64  `json:"tasks_before"`
	Median  float64 `json:"median_seconds"`
	MedianB float64 `json:"median_seconds_before"`
	Total   float64 `json:"total_seconds"`
	TotalB  float64 `json:"total_seconds_before"`
	Bytes   uint64  `json:"bytes_out"`
	BytesB  uint64  `json:"bytes_out_before"`
	Failed  uint64  `json:"failed"`
	FailedB uint64  `json:"failed_before"`

	TasksText  string `json:"-" column:"tasks_"`
	MedianText string `json:"-" column:"median"`
	TotalText  string `json:"-" column:"total"`
	BytesText  string `json:"-" column:"bytes"`
	FailedText string `json:"-" column:"failed_"`
}

func (a *app) diffCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "diff JOB JOB",
		Short: "Compare two jobs by family: tasks, times, bytes, failures",
		Long: `Compare two jobs, the earlier first: for each family the number of its tasks,
their median and total time, the bytes that they published, and how many failed.
The family whose total time differs most comes first. cascade profile diff
compares what is known of all runs.

` + jobHelp,
		Example: "  cascade diff 01a2 last\n  cascade diff before after --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJobs(c.Context(), func(client *cascade.Client) error {
				lines := map[string]*familyDiff{}
				var order []string
				for i, name := range args {
					j, err := findJob(c.Context(), client, name)
					if err != nil {
						return err
					}
					if order, err = addFamilies(c.Context(), client, j, lines, order, i == 0); err != nil {
						return err
					}
				}
				rows := make([]familyDiff, len(order))
				for i, family := range order {
					rows[i] = *lines[family]
					rows[i].texts()
				}
				sortBy(rows, func(d familyDiff) float64 { return -math.Abs(d.Total - d.TotalB) })
				return table(a, rows, "family", "tasks_", "median", "total", "bytes", "failed_")
			})
		},
	}
	return a.asList(c)
}

// addFamilies adds what the families of a job did.
func addFamilies(ctx context.Context, client *cascade.Client, j *cascade.Job, lines map[string]*familyDiff, order []string, before bool) ([]string, error) {
	rows, err := cascade.Rows[comms.TaskRow](ctx, client, comms.QueryTasks, j.ID(), "")
	if err != nil {
		return order, err
	}
	typical := medians(rows)
	for i := range rows {
		r := &rows[i]
		d := lines[r.Group]
		if d == nil {
			d = &familyDiff{Family: r.Group}
			lines[r.Group] = d
			order = append(order, r.Group)
		}
		failed := uint64(0)
		if r.State == "failed" {
			failed = 1
		}
		if before {
			d.Before, d.TotalB, d.BytesB, d.FailedB, d.MedianB = d.Before+1, d.TotalB+r.Seconds, d.BytesB+r.BytesOut, d.FailedB+failed, typical[r.Group]
			continue
		}
		d.Tasks, d.Total, d.Bytes, d.Failed, d.Median = d.Tasks+1, d.Total+r.Seconds, d.Bytes+r.BytesOut, d.Failed+failed, typical[r.Group]
	}
	return order, nil
}

func (d *familyDiff) texts() {
	d.TasksText = changed(d.Before, d.Tasks, func(n uint64) string { return cell("", n) })
	d.FailedText = changed(d.FailedB, d.Failed, func(n uint64) string { return cell("", n) })
	d.BytesText = changed(d.BytesB, d.Bytes, size)
	d.MedianText = changed(d.MedianB, d.Median, report.Seconds)
	d.TotalText = changed(d.TotalB, d.Total, report.Seconds)
	if d.MedianB > 0 && d.Median > 0 {
		d.MedianText += " (" + times(d.Median/d.MedianB) + ")"
	}
}

// changed is a value, or both where they differ.
func changed[T comparable](before, now T, text func(T) string) string {
	if before == now {
		return text(now)
	}
	return text(before) + " > " + text(now)
}
