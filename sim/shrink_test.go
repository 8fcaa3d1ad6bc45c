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
	without := shrink(7, func(o Options) Result {
		runs++
		has := func(name string) bool { return !slices.Contains(o.Without, name) }
		switch {
		case !has("delays"):
			return Result{Err: fmt.Errorf("another failure")}
		case has("steers") && has("agent-crashes"):
			return Result{Err: fmt.Errorf("task %d (g%d[3]) is waiting", runs, runs)}
		}
		return Result{}
	})
	for _, tm := range tamings() {
		needed := tm.name == "steers" || tm.name == "agent-crashes" || tm.name == "delays"
		if slices.Contains(without, tm.name) == needed {
			t.Errorf("%s is left out: %v", tm.name, !needed)
		}
	}
	if shrink(7, func(Options) Result { return Result{} }) != nil {
		t.Error("a seed that does not fail is shrunk")
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
