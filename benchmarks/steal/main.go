//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/internal/exit"
	"github.com/cascade-run/cascade/benchmarks/internal/local"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

var _ = cascade.Func1("steal_nap", nap, "with -> n")

type napSettings struct {
	I      int
	Micros int
	Uneven bool
}

// nap sleeps, four times as long in each second task when they are uneven.
func nap(_ context.Context, s napSettings) (int64, error) {
	if s.Uneven && s.I%2 == 0 {
		s.Micros *= 4
	}
	time.Sleep(time.Duration(s.Micros) * time.Microsecond)
	return int64(s.I), nil
}

const patience = 10 * time.Minute // for one job

type options struct {
	millis []float64
	total  time.Duration // of a job's tasks together, about
	rounds int
	steal  time.Duration
}

func main() {
	cascade.Main()
	var o options
	millis := flag.String("ms", "1,5,20", "how long tasks take, in milliseconds, separated by commas")
	flag.DurationVar(&o.total, "total", 4*time.Second, "what a job takes on one core")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds of each measurement; with and without take turns")
	flag.DurationVar(&o.steal, "steal", 10*time.Millisecond, "what taking work must save, as of cascade-controller")
	flag.Parse()
	err := o.read(*millis)
	if err == nil {
		err = o.run()
	}
	exit.On("steal", err)
}

func (o *options) read(millis string) error {
	for _, text := range strings.Split(millis, ",") {
		ms, err := strconv.ParseFloat(text, 64)
		if err != nil || ms < 0.1 {
			return fmt.Errorf("-ms %q: want numbers from 0.1 on: %w", text, errors.Join(err))
		}
		o.millis = append(o.millis, ms)
	}
	if o.rounds < 1 || o.total < time.Second || o.steal <= 0 {
		return errors.New("-rounds wants 1 at least, -total 1s, -steal more than 0")
	}
	return nil
}

// result is what one kind of job gave in several rounds.
type result struct {
	took  []time.Duration
	share []float64 // of the tasks that ran on the second agent
	moves []int     // epochs that began because an agent was idle
}

func (r *result) String() string {
	return fmt.Sprintf("%v\t%.0f %%\t%d", median(r.took).Round(time.Millisecond), 100*median(r.share), median(r.moves))
}

func (r *result) add(m measured) {
	r.took, r.share, r.moves = append(r.took, m.took), append(r.share, m.share), append(r.moves, m.moves)
}

// measured is what one job gave.
type measured struct {
	took  time.Duration
	share float64
	moves int
}

// ratio tells how many times as fast jobs are.
func ratio(without, with *result) float64 {
	return median(without.took).Seconds() / median(with.took).Seconds()
}

// median returns what is in the middle, whatever the order.
func median[T cmp.Ordered](all []T) T { return slices.Sorted(slices.Values(all))[len(all)/2] }

func (o *options) run() error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "job\ttask\ttasks\twithout\ton the second\tmoves\twith\ton the second\tmoves\tratio\t")
	for _, kind := range []string{"uneven", "joined"} {
		for _, ms := range o.millis {
			n := int(o.total.Seconds() * 1000 / ms)
			if kind == "uneven" {
				n = n * 2 / 5 // a pair takes five times as long as a short one
			}
			var without, with result
			for range o.rounds {
				for _, r := range []struct {
					to    *result
					steal time.Duration
				}{{&without, 0}, {&with, o.steal}} {
					m, err := measure(kind, ms, n, r.steal)
					if err != nil {
						return fmt.Errorf("%s tasks of %g ms: %w", kind, ms, err)
					}
					r.to.add(m)
				}
			}
			fmt.Fprintf(w, "%s\t%g ms\t%d\t%v\t%v\t%.2f\t\n", kind, ms, n, &without, &with, ratio(&without, &with))
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func jobFile(kind string, ms float64, n int) string {
	return fmt.Sprintf("job: steal_%s\ntasks:\n  nap: {run: steal_nap, for: {i: \"0..%d\"}, with: {i: \"${i}\", micros: %d, uneven: %v}, out: [n]}\n",
		kind, n-1, int(ms*1000), kind == "uneven")
}

// measure runs one job on a cluster of its own.
func measure(kind string, ms float64, n int, steal time.Duration) (m measured, err error) {
	g, err := dag.ParseYAML("steal.yaml", []byte(jobFile(kind, ms, n)), dag.Override{}, dag.Options{})
	if err != nil {
		return m, err
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := local.Open(ctx, local.Config{Agents: 1, Cores: 1, Steal: steal})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if kind == "uneven" {
		if err := errors.Join(c.Join(), c.Client.Ready(ctx, 2)); err != nil {
			return m, err
		}
	}
	begun := time.Now()
	j, err := c.Client.Submit(ctx, g)
	if err != nil {
		return m, err
	}
	if kind == "joined" {
		if err := c.Join(); err != nil {
			return m, err
		}
	}
	if _, err := j.Wait(ctx); err != nil {
		return m, err
	}
	m.took = time.Since(begun)
	tasks, err := cascade.Rows[comms.TaskRow](ctx, c.Client, comms.QueryTasks, j.ID(), "")
	if err != nil {
		return m, err
	}
	story, err := cascade.Rows[comms.StoryRow](ctx, c.Client, comms.QueryStory, j.ID(), "")
	m.share, m.moves = shareOf(tasks), movesOf(story)
	return m, err
}

// movesOf counts the decisions by which an idle agent took work.
func movesOf(story []comms.StoryRow) int {
	at := map[string]bool{}
	for i := range story {
		if strings.Contains(story[i].Cause, " is idle and takes ") {
			at[story[i].At] = true
		}
	}
	return len(at)
}

// shareOf is the part of tasks that ran on the second agent.
func shareOf(rows []comms.TaskRow) float64 {
	n := 0
	for i := range rows {
		if rows[i].Agent == "a1" {
			n++
		}
	}
	return float64(n) / float64(max(len(rows), 1))
}
