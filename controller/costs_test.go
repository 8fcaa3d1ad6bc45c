package controller

import (
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// Of a group with few tasks all are recorded, of one with many a part that does not
// depend on how its tasks follow each other.
func TestCostsOfSome(t *testing.T) {
	cs := costs{seen: make([]uint8, 3)}
	count := func(group int, first, step dag.TaskIndex, n int) (taken int) {
		for i := range n {
			if cs.wants(group, first+step*dag.TaskIndex(i)) {
				taken++
			}
		}
		return taken
	}
	if got := count(0, 0, 1, manySamples); got != manySamples {
		t.Errorf("%d of the first %d were taken", got, manySamples)
	}
	for _, step := range []dag.TaskIndex{1, 2, 16, 1000, 1 << 10} {
		if got, want := count(0, 7, step, 16_000), 16_000/oneIn; got < want/2 || got > 2*want {
			t.Errorf("step %d: %d of 16000 were taken, want about %d", step, got, want)
		}
	}
	if got := count(1, 1<<20, 1, 3); got != 3 {
		t.Errorf("%d of another group's 3 were taken", got)
	}
}
