//go:build linux

package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// The job file has as many tasks as were asked for, bound to hosts by chance where
// nothing is known of their data.
func TestJobFile(t *testing.T) {
	for _, n := range []int{2, 10, 200, 201, 1000} {
		for _, aware := range []bool{true, false} {
			g, err := dag.ParseYAML("locality.yaml", []byte(jobFile(1000, n, aware, rand.New(rand.NewPCG(1, 2)))), dag.Override{}, dag.Options{})
			if err != nil {
				t.Fatalf("%d tasks: %v", n, err)
			}
			if g.NumTasks() != 2*n {
				t.Errorf("%d tasks, want %d", g.NumTasks(), 2*n)
			}
			free := 0
			for i := range g.NumTasks() {
				if len(g.Group(dag.TaskIndex(i)).Resources.Custom) == 0 {
					free++
				}
			}
			if want := map[bool]int{true: n}[aware]; free != want {
				t.Errorf("aware %v: %d tasks may run anywhere, want %d", aware, free, want)
			}
		}
	}
}

func TestWaits(t *testing.T) {
	at := func(ms int) string {
		return time.UnixMilli(1_800_000_000_000 + int64(ms)).UTC().Format(time.RFC3339Nano)
	}
	got, err := measured{}.add([]comms.TaskRow{
		{Name: "use_0[0]", Started: at(50), Agent: "b"}, {Name: "use_0[1]", Started: at(70), Agent: "a"},
		{Name: "make_0[0]", Started: at(10), Seconds: 0.02, Agent: "a"}, {Name: "make_0[1]", Started: at(20), Seconds: 0.04, Agent: "a"},
	})
	if want := (measured{wait: 15 * time.Millisecond, moved: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := (measured{}).add([]comms.TaskRow{{Name: "use_0[0]", Started: at(1)}}); err == nil {
		t.Error("a task without a dataset is counted")
	}
}
