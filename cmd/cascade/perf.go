package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/benchmarks/perf"
	"github.com/cascade-run/cascade/internal/statedir"
)

func (a *app) perfCommand() *cobra.Command {
	var only []string
	var quick bool
	c := &cobra.Command{
		Use:   "perf",
		Short: "Measure the performance of Cascade on this host",
		Long: `Run jobs on a cluster of its own on this host, as cascade run would, and print
one line for each figure, beside the same work on this host without Cascade.
docs/performance.md explains each figure and what bounds it.

The jobs stay in a state folder of their own until the next perf, so that
cascade ls tasks lists every measured task. A run takes some minutes and up to 6
GiB of memory.`,
		Example: `  cascade perf
  cascade perf --json --only noop_independent,task_latency_p50
  cascade perf --quick`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.to != "" {
				return badInputf("perf measures this host: run it there, without --to")
			}
			state, err := a.perfState()
			if err != nil {
				return err
			}
			o := perf.Options{State: state, Only: only, Quick: quick, Log: a.log(), Skip: func(name, why string) {
				a.note("%s was not measured: %s", name, why)
			}}
			err = perf.Run(c.Context(), o, a.printFigure)
			if errors.Is(err, perf.ErrNoFigure) {
				return badInput{err}
			}
			if err == nil {
				a.note("the jobs are kept: cascade ls jobs --state %s", filepath.Join(state, "embedded"))
			}
			return err
		},
	}
	c.Flags().StringSliceVar(&only, "only", nil, "measure only these figures")
	c.Flags().BoolVar(&quick, "quick", false, "use small sizes: takes seconds, figures are only indicative")
	return c
}

// perfState makes the folder for the state of what is measured. It is not that of
// cascade run: hundreds of thousands of jobs would be in the user's way.
func (a *app) perfState() (string, error) {
	var err error
	dir := a.state
	if dir == "" {
		if dir, err = statedir.StateFolder("perf"); err != nil {
			return "", err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("find the state folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the state folder: %w", err)
	}
	return dir, nil
}

func (a *app) printFigure(f perf.Figure) error {
	if a.json {
		return a.printJSON(f)
	}
	_, err := fmt.Fprintf(a.out, "%-22s %12s %-10s %8sx  %s\n%24s%s\n", f.Name, number(f.Value), f.Unit, number(f.Ratio),
		number(f.Baseline)+" "+f.Unit+": "+f.BaselineOf, "", f.Note)
	return err
}

// number writes a figure with three digits or more, without an exponent.
func number(x float64) string {
	digits := 0
	for limit := 100.0; x < limit && digits < 5; limit /= 10 {
		digits++
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}
