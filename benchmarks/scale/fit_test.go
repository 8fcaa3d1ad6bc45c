//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/cascade-run/cascade/benchmarks/scale/model"
)

func TestSolve(t *testing.T) {
	us := time.Microsecond
	for _, tc := range []struct {
		name            string
		messages, tasks [2]int
		used            [2]time.Duration
		want            model.Cost
	}{
		{"both cost something", [2]int{10, 100}, [2]int{1000, 100}, [2]time.Duration{1050 * us, 600 * us}, model.Cost{Message: 5 * us, Task: us}},
		{"messages cost nothing", [2]int{10, 100}, [2]int{1000, 100}, [2]time.Duration{1000 * us, 90 * us}, model.Cost{Task: us}},
		{"tasks cost nothing", [2]int{10, 100}, [2]int{1000, 100}, [2]time.Duration{40 * us, 500 * us}, model.Cost{Message: 5 * us}},
		{"runs that tell nothing apart", [2]int{10, 20}, [2]int{100, 200}, [2]time.Duration{100 * us, 200 * us}, model.Cost{Task: us}},
	} {
		got := solve(tc.messages, tc.tasks, tc.used)
		if (got.Message-tc.want.Message).Abs() > time.Nanosecond || (got.Task-tc.want.Task).Abs() > time.Nanosecond {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
