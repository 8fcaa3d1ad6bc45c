package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/screen"
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
ended, and the tasks of one of them that run longest, again every second. Arrow
keys choose a job, Enter shows its families, its predicted end, its first
failure and what it waits for, Esc returns. h holds the chosen job, r releases
it, c cancels it; each asks first. q ends. Where there is no terminal everything
is shown once.`,
		Example: "  cascade top\n  cascade top --to hpc",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.json {
				return hintedf(a.hint("ls", "hosts", "--json")+" and "+a.hint("ls", "jobs", "--json"), "top is for people")
			}
			ctx := c.Context()
			return a.listing(a.withJobs(ctx, func(client *cascade.Client) error {
				s := &topSource{a: a, client: client}
				if a.onTerminal(a.raw.out) && a.getenv("TERM") != "dumb" {
					return a.topScreen(ctx, s)
				}
				shot := s.shot(ctx, comms.JobID{}, false)
				if shot.err != nil {
					return shot.err
				}
				_, err := fmt.Fprintln(a.out, plainLines((&topModel{a: a, shot: shot}).lines()))
				return err
			}))
		},
	}
}

// topShot is what top shows at a moment.
type topShot struct {
	at    time.Time
	hosts []comms.AgentRow
	jobs  []comms.JobRow // that have not ended, the newest first
	of    comms.JobID    // the job that the rest is of
	tasks []comms.TaskRow
	page  []string // of that job, when it is wanted
	err   error
}

// topSource asks for what top shows.
type topSource struct {
	a      *app
	client *cascade.Client
	show   *progress // of the job whose page was shown last
}

// shot asks for what top shows, with the tasks of a job (the newest if it has ended or is none), or
// with its page. One shot is taken at a time.
func (s *topSource) shot(ctx context.Context, of comms.JobID, page bool) (shot topShot) {
	shot.at, shot.of = s.now(), of
	if page {
		shot.page, shot.err = s.page(ctx, of)
		return shot
	}
	if shot.hosts, shot.err = cascade.Rows[comms.AgentRow](ctx, s.client, comms.QueryAgents, comms.JobID{}, ""); shot.err != nil {
		return shot
	}
	if s.a.alone {
		for i := range shot.hosts {
			shot.hosts[i].State, shot.hosts[i].Running = "away", 0
		}
	}
	if shot.jobs, shot.err = cascade.Rows[comms.JobRow](ctx, s.client, comms.QueryJobs, comms.JobID{}, comms.FilterOpen); shot.err != nil || len(shot.jobs) == 0 {
		return shot
	}
	if !slices.ContainsFunc(shot.jobs, func(j comms.JobRow) bool { return j.ID == of.String() }) {
		if shot.of, shot.err = comms.ParseJobID(shot.jobs[0].ID); shot.err != nil {
			return shot
		}
	}
	shot.tasks, _, shot.err = longestRunning(ctx, s.client, shot.of)
	return shot
}

func (s *topSource) now() time.Time {
	if s.a.now != nil {
		return s.a.now()
	}
	return time.Now()
}

// page is what cascade run shows of a job while it runs.
func (s *topSource) page(ctx context.Context, of comms.JobID) ([]string, error) {
	j := s.client.Job(of)
	if s.show == nil || s.show.job != of {
		s.show = &progress{a: s.a, job: of, now: s.now, start: s.now()}
		rows, err := cascade.Rows[comms.JobRow](ctx, s.client, comms.QueryJobs, of, "")
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if at, err := time.Parse(time.RFC3339Nano, r.Submitted); err == nil && r.ID == of.String() {
				s.show.start = at
			}
		}
	}
	var last *cascade.Progress
	err := j.Watch(ctx, time.Second, func(p *cascade.Progress) bool { last = p; return false })
	if last == nil {
		return nil, cmp.Or(err, context.Cause(ctx))
	}
	s.show.runningTasks(ctx, s.client, last)
	var why []string
	if last.Waits != "" {
		why = []string{"waits: " + last.Waits}
	}
	lines := s.show.live(last, why)
	if last.Final {
		lines = append(lines, "  it has ended: "+last.Phase.String())
	}
	return lines, nil
}

// aligned are cells in columns.
func aligned(rows [][]string) (lines []string) {
	var widths []int
	for _, cells := range rows {
		for i := range cells {
			cells[i] = screen.Line(cells[i])
		}
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
