// Command sim runs the simulator over many seeds, or replays one.
//
//	sim -seeds 1000 [-from N] [-steals] [-gangs] [-forwards] [-devices] [-varies] [-without KIND,...]
//	                             prints each seed that fails, with its reason; ends with 1 when there are any
//	sim -seed S -v               runs one seed and prints its story
//	sim -seed S -shrink -v       leaves out all trouble that the failure does not need, and prints the story of the rest
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/sim"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, sim.Run)) }

// run is the command: simulate runs one seed. It returns the exit code.
func run(args []string, out io.Writer, simulate func(sim.Options) sim.Result) int {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	seeds := flags.Uint64("seeds", 1000, "how many seeds to run")
	from := flags.Uint64("from", 1, "the first seed")
	seed := flags.Uint64("seed", 0, "run this seed alone")
	verbose := flags.Bool("v", false, "print the story of a seed, or of each seed how it went")
	all := flags.Bool("all", false, "with -seed and -v: the whole story, not only what concerns the job that failed")
	shrink := flags.Bool("shrink", false, "with -seed: leave out what the failure does not need")
	without := flags.String("without", "", "kinds of trouble to leave out, as -shrink prints them")
	steals := flags.Bool("steals", false, "several agents that are small for their jobs, of which idle ones take work of others")
	gangs := flags.Bool("gangs", false, "jobs have gangs")
	forwards := flags.Bool("forwards", false, "several agents that are small for their jobs, whose calls go to other agents")
	devices := flags.Bool("devices", false, "agents have devices, and tasks ask for them")
	varies := flags.Bool("varies", false, "some tasks make other bytes in each attempt")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2 // it was printed
	}
	opt := sim.Options{Seed: *seed, Story: *verbose && *seed != 0, Steals: *steals, Gangs: *gangs, Forwards: *forwards, Devices: *devices, Varies: *varies}
	if *without != "" {
		opt.Without = strings.Split(*without, ",")
	}
	if *seed != 0 {
		if *shrink {
			if opt.Without = sim.Shrink(opt); opt.Without == nil {
				fmt.Fprintln(out, "the seed does not fail: nothing to leave out")
			}
			fmt.Fprintln(out, "replay with", opt.Flags())
		}
		return one(out, simulate(opt), *all)
	}
	return many(out, simulate, *from, *seeds, *verbose, opt)
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
