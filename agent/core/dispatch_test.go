package core

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
)

func TestDispatchesAreBounded(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		sizes []int // of the runs' inputs
		want  int
	}{
		{[]int{0, 0, 0}, 3},
		{[]int{10 * mib, 10 * mib, 10 * mib, 10 * mib}, 3},
		{[]int{100 * mib, 0}, 1}, // a run goes whole, however large
		{[]int{0, 100 * mib}, 1},
	} {
		var runs []comms.Run
		for _, n := range tt.sizes {
			runs = append(runs, comms.Run{Inputs: []comms.RunInput{{Data: []comms.Desc{{Place: comms.Place{Bytes: make([]byte, n)}}}}}})
		}
		if got := dispatchable(runs); got != tt.want {
			t.Errorf("inputs of %v: %d runs, want %d", tt.sizes, got, tt.want)
		}
	}
}
