package sim

import (
	"reflect"
	"testing"
)

// open are seeds that fail, with what is known of it. A seed leaves the list
// with the change that mends it; a run that passes is an error.
var open = map[uint64]string{}

// TestSeeds runs some hundred seeds; go run ./sim/cmd/sim runs thousands.
func TestSeeds(t *testing.T) {
	n := uint64(300)
	if testing.Short() {
		n = 60
	}
	for seed := uint64(1); seed <= n; seed++ {
		res := Run(Options{Seed: seed})
		why, known := open[seed]
		switch {
		case res.Err != nil && !known:
			t.Errorf("seed %d: %v\nits story: go run ./sim/cmd/sim -seed %d -v", seed, res.Err, seed)
		case res.Err == nil && known:
			t.Errorf("seed %d passes: take it off the list (%s)", seed, why)
		}
	}
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
