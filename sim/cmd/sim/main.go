// Command sim runs the simulator over many seeds, or replays one.
//
//	sim -seeds 1000 [-from N] [-steals] [-gangs] [-forwards] [-devices] [-varies] [-rots] [-programs] [-without KIND,...]
//	                             prints each seed that fails, with its reason; ends with 1 when there are any
//	sim -hunt 10m [-steals] ...  the same with fresh seeds until the time is over; a seed that fails is
//	                             printed as a line to add to sim/testdata/kept.txt
//	sim -seed S -v               runs one seed and prints its story
//	sim -seed S -shrink -v       leaves out all trouble that the failure does not need, and prints the story of the rest
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/sim"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, sim.Run)) }

// run is the command: simulate runs one seed. It returns the exit code.
func run(args []string, out io.Writer, simulate func(sim.Options) sim.Result) int {
	var opt sim.Options
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	opt.Register(flags)
	seeds := flags.Uint64("seeds", 1000, "how many seeds to run")
	from := flags.Uint64("from", 1, "the first seed")
	hunting := flags.Duration("hunt", 0, "run fresh seeds for this time")
	verbose := flags.Bool("v", false, "print the story of a seed, or of each seed how it went")
	all := flags.Bool("all", false, "with -seed and -v: the whole story, not only what concerns the job that failed")
	shrink := flags.Bool("shrink", false, "with -seed: leave out what the failure does not need")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // it was printed
	}
	opt.Story = *verbose && opt.Seed != 0
	switch {
	case opt.Seed != 0:
		if *shrink {
			if opt.Without = sim.Shrink(opt); opt.Without == nil {
				fmt.Fprintln(out, "the seed does not fail: nothing to leave out")
			}
			fmt.Fprintln(out, "replay with", opt.Flags())
		}
		return one(out, simulate(opt), *all)
	case *hunting > 0:
		return hunt(out, simulate, opt, *hunting)
	}
	return many(out, simulate, *from, *seeds, *verbose, opt)
}

// hunt runs seeds that are drawn anew until the time is over, on all cores.
func hunt(out io.Writer, simulate func(sim.Options) sim.Result, opt sim.Options, budget time.Duration) int {
	end := time.Now().Add(budget)
	var work sync.WaitGroup
	var mu sync.Mutex // of out and the counts
	runs, failed := 0, 0
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for time.Now().Before(end) {
				one := opt
				one.Seed = 1 + rand.Uint64N(1<<40)
				r := simulate(one)
				mu.Lock()
				runs++
				if r.Err != nil {
					failed++
					fmt.Fprintf(out, "%s # %v\n", one.Flags(), r.Err)
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	fmt.Fprintf(out, "%d fresh seeds, %d failed\n", runs, failed)
	if failed > 0 {
		return 1
	}
	return 0
}

func one(out io.Writer, res sim.Result, all bool) int {
	story := res.Story
	if !all {
		story = sim.Concerns(story, res.Job)
	}
	for _, l := range story {
		fmt.Fprintln(out, l)
	}
	fmt.Fprintln(out, line(&res))
	if res.Err != nil {
		return 1
	}
	return 0
}

func line(r *sim.Result) string {
	end := "ok"
	if r.Err != nil {
		end = "FAILED: " + r.Err.Error()
	}
	return fmt.Sprintf("seed %d: %d jobs, %d steps, %v: %s", r.Seed, r.Jobs, r.Steps, r.Time.Round(time.Millisecond), end)
}

// many runs seeds on all cores and prints in order of the seed.
func many(out io.Writer, simulate func(sim.Options) sim.Result, from, n uint64, verbose bool, opt sim.Options) int {
	began := time.Now()
	results := make([]chan sim.Result, n)
	for i := range results {
		results[i] = make(chan sim.Result, 1)
	}
	var next atomic.Uint64
	var work sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				one := opt
				one.Seed = from + i
				results[i] <- simulate(one)
			}
		})
	}
	failed, steps := 0, 0
	for _, c := range results {
		r := <-c
		steps += r.Steps
		if r.Err != nil {
			failed++
		}
		if verbose || r.Err != nil {
			fmt.Fprintln(out, line(&r))
		}
	}
	work.Wait()
	fmt.Fprintf(out, "%d seeds, %d failed, %d steps in %v\n", n, failed, steps, time.Since(began).Round(time.Millisecond))
	if failed > 0 {
		return 1
	}
	return 0
}
