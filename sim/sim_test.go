package sim

import (
	"flag"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/tier"
)

// kept reads testdata/kept.txt: the runs that once failed.
func kept(t *testing.T) []Options {
	text, err := os.ReadFile("testdata/kept.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []Options
	for i, line := range strings.Split(string(text), "\n") {
		args, _, _ := strings.Cut(line, "#")
		if strings.TrimSpace(args) == "" {
			continue
		}
		var opt Options
		flags := flag.NewFlagSet("sim", flag.ContinueOnError)
		opt.Register(flags)
		if err := flags.Parse(strings.Fields(args)); err != nil || flags.NArg() > 0 || opt.Seed == 0 {
			t.Fatalf("testdata/kept.txt:%d: %q is not the flags of one run: %v", i+1, args, err)
		}
		all = append(all, opt)
	}
	return all
}

// TestKept runs all that once failed. The race detector has nothing to find in a run,
// which is one goroutine: with it, a few are enough to show that runs share nothing.
func TestKept(t *testing.T) {
	runs := kept(t)
	if raceEnabled || testing.Short() {
		runs = runs[:10]
	}
	check(t, runs)
}

// TestSeeds runs the first seeds of each mode; go run ./sim/cmd/sim runs any number.
func TestSeeds(t *testing.T) {
	for _, c := range []struct {
		mode        Options
		gate, night int
	}{
		{Options{}, 1000, 10_000},
		{Options{Gangs: true}, 150, 2000},
		{Options{Devices: true}, 100, 1000},
		{Options{Devices: true, Gangs: true}, 50, 1000},
		{Options{Steals: true}, 150, 2000},
		{Options{Forwards: true}, 150, 2000},
		{Options{Varies: true}, 50, 1000},
		{Options{Rots: true}, 100, 1000},
		{Options{Rots: true, Forwards: true}, 100, 1000},
		{Options{Programs: true}, 150, 3000},
		{Options{Programs: true, Forwards: true}, 150, 3000},
	} {
		n := uint64(tier.Rounds(c.gate, c.night))
		if raceEnabled || testing.Short() {
			n = min(n/5, 40)
		}
		var runs []Options
		for seed := range n {
			c.mode.Seed = seed + 1
			runs = append(runs, c.mode)
		}
		check(t, runs)
	}
}

// check does the runs on all cores.
func check(t *testing.T, runs []Options) {
	var next atomic.Int64
	var work sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(runs)); i = next.Add(1) - 1 {
				if res := Run(runs[i]); res.Err != nil {
					t.Errorf("%v\nits story: go run ./sim/cmd/sim %s -v", res.Err, runs[i].Flags())
				}
			}
		})
	}
	work.Wait()
}

// TestSameSeedSameStory: one seed decides everything.
func TestSameSeedSameStory(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		first, again := Run(Options{Seed: seed, Story: true}), Run(Options{Seed: seed, Story: true})
		if !reflect.DeepEqual(first.Story, again.Story) {
			t.Fatalf("seed %d has two stories, of %d and %d lines", seed, len(first.Story), len(again.Story))
		}
	}
}
