// Command sim runs the simulator over many seeds, or replays one.
//
//	sim -seeds 1000 [-from N] [-steals] [-gangs] [-forwards] [-without KIND,...]
//	                             prints each seed that fails, with its reason; ends with 1 when there are any
//	sim -seed S -v               runs one seed and prints its story
//	sim -seed S -shrink -v       leaves out all trouble that the failure does not need, and prints the story of the rest
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/sim"
)

func main() {
	seeds := flag.Uint64("seeds", 1000, "how many seeds to run")
	from := flag.Uint64("from", 1, "the first seed")
	seed := flag.Uint64("seed", 0, "run this seed alone")
	verbose := flag.Bool("v", false, "print the story of a seed, or of each seed how it went")
	all := flag.Bool("all", false, "with -seed and -v: the whole story, not only what concerns the job that failed")
	shrink := flag.Bool("shrink", false, "with -seed: leave out what the failure does not need")
	without := flag.String("without", "", "kinds of trouble to leave out, as -shrink prints them")
	steals := flag.Bool("steals", false, "several agents that are small for their jobs, of which idle ones take work of others")
	gangs := flag.Bool("gangs", false, "jobs have gangs")
	forwards := flag.Bool("forwards", false, "several agents that are small for their jobs, whose calls go to other agents")
	flag.Parse()
	opt := sim.Options{Seed: *seed, Story: *verbose && *seed != 0, Steals: *steals, Gangs: *gangs, Forwards: *forwards}
	if *without != "" {
		opt.Without = strings.Split(*without, ",")
	}
	if *seed != 0 {
		if *shrink {
			if opt.Without = sim.Shrink(opt); opt.Without == nil {
				fmt.Println("the seed does not fail: nothing to leave out")
			}
			fmt.Println("replay with", opt.Flags())
		}
		os.Exit(one(opt, *all))
	}
	os.Exit(many(*from, *seeds, *verbose, opt))
}

func one(opt sim.Options, all bool) int {
	res := sim.Run(opt)
	story := res.Story
	if !all {
		story = sim.Concerns(story, res.Job)
	}
	for _, l := range story {
		fmt.Println(l)
	}
	fmt.Println(line(&res))
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
func many(from, n uint64, verbose bool, opt sim.Options) int {
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
				results[i] <- sim.Run(one)
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
			fmt.Println(line(&r))
		}
	}
	work.Wait()
	fmt.Printf("%d seeds, %d failed, %d steps in %v\n", n, failed, steps, time.Since(began).Round(time.Millisecond))
	if failed > 0 {
		return 1
	}
	return 0
}
