package sim

import (
	"fmt"
	"slices"
	"testing"
)

// TestShrink: of a run that fails in one way while the client steers and agents
// crash, and in another without delays, all else is left out.
func TestShrink(t *testing.T) {
	runs := 0
	without := shrink(Options{Seed: 7, Without: []string{"spread"}}, func(o Options) Result {
		runs++
		has := func(name string) bool { return !slices.Contains(o.Without, name) }
		switch {
		case has("spread"):
			return Result{}
		case !has("delays"):
			return Result{Err: fmt.Errorf("another failure")}
		case has("steers") && has("agent-crashes") && has("job1.g1"):
			return Result{Err: fmt.Errorf("task %d (g%d[3]) is waiting", runs, runs), Parts: []string{"job1.g0", "job1.g1", "job1.g2"}}
		}
		return Result{}
	})
	if slices.Contains(without, "job1.g1") || !slices.Contains(without, "job1.g2") {
		t.Errorf("groups are left out wrongly: %v", without)
	}
	for _, tm := range tamings() {
		needed := tm.name == "steers" || tm.name == "agent-crashes" || tm.name == "delays"
		if slices.Contains(without, tm.name) == needed {
			t.Errorf("%s is left out: %v", tm.name, !needed)
		}
	}
	if shrink(Options{Seed: 7}, func(Options) Result { return Result{} }) != nil {
		t.Error("a seed that does not fail is shrunk")
	}
}

// TestWithoutGroups: groups that are left out are not in the jobs, and the others are what they were.
func TestWithoutGroups(t *testing.T) {
	dropped := 0
	for seed := uint64(1); seed <= 60; seed++ {
		o := Options{Seed: seed, Without: []string{"jobs"}} // the draws of a second job would differ
		all := newWorld(o).parts()
		for _, gone := range all {
			o.Without = []string{"jobs", gone}
			left := newWorld(o).parts()
			if !slices.Contains(left, gone) {
				dropped++
			}
			for _, part := range left {
				if !slices.Contains(all, part) {
					t.Errorf("seed %d: %s came with the absence of %s", seed, part, gone)
				}
			}
		}
	}
	if dropped < 50 {
		t.Errorf("only %d groups could be left out", dropped)
	}
}

// TestWithout: what is left out does not happen, and the rest replays exactly.
func TestWithout(t *testing.T) {
	var all []string
	for _, tm := range tamings() {
		all = append(all, tm.name)
	}
	for seed := uint64(1); seed <= 10; seed++ {
		o := Options{Seed: seed, Story: true, Without: all}
		first, again := Run(o), Run(o)
		if first.Jobs != 1 || len(first.Story) != len(again.Story) {
			t.Fatalf("seed %d: %d jobs, stories of %d and %d lines", seed, first.Jobs, len(first.Story), len(again.Story))
		}
		for _, l := range first.Story {
			if l.Who == "fault" && l.Text != "all is well from now on" {
				t.Fatalf("seed %d: %s", seed, l)
			}
		}
	}
}
