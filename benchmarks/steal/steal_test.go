//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A job has as many tasks as were asked for, of one family: no plan knows which are long.
func TestJobFile(t *testing.T) {
	for _, kind := range []string{"uneven", "joined"} {
		g, err := dag.ParseYAML("steal.yaml", []byte(jobFile(kind, 1.5, 320)), dag.Override{}, dag.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if g.NumTasks() != 320 || len(g.Groups) != 1 {
			t.Errorf("%s: %d tasks of %d families", kind, g.NumTasks(), len(g.Groups))
		}
	}
}

func TestShareOf(t *testing.T) {
	if got := shareOf([]comms.TaskRow{{Agent: "a0"}, {Agent: "a1"}, {Agent: "a1"}, {Agent: "a0"}}); got != 0.5 {
		t.Errorf("half of the tasks ran on the second agent, counted %g", got)
	}
	if got := shareOf(nil); got != 0 {
		t.Errorf("of no tasks %g", got)
	}
}

func TestMovesOf(t *testing.T) {
	got := movesOf([]comms.StoryRow{{At: "1", Cause: "a1 is idle and takes what a0 has not begun"}, {At: "1", Cause: "a1 is idle and takes what a0 has not begun"},
		{At: "2", Cause: "its attempt or outputs were lost and are needed"}, {At: "3", Cause: "a0 is idle and takes what a1 has not begun"}})
	if got != 2 {
		t.Errorf("counted %d moves, want 2", got)
	}
}

// The ratio is that of the medians, in whatever order the rounds came.
func TestRatio(t *testing.T) {
	without, with := result{took: []time.Duration{6, 90, 8}}, result{took: []time.Duration{2, 1, 50}}
	if got := ratio(&without, &with); got != 4 {
		t.Errorf("counted %g, want 8/2", got)
	}
}
