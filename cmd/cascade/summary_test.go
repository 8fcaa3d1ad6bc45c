package main

import (
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// Who looks at the end of a job sees what a lost agent has cost it.
func TestRepeats(t *testing.T) {
	for _, c := range []struct {
		attempts []uint32
		retries  uint64
		want     uint64
	}{
		{[]uint32{1, 1, 1}, 0, 0},
		{[]uint32{0, 1}, 0, 0}, // what never began
		{[]uint32{2, 1, 4}, 0, 4},
		{[]uint32{2, 3}, 2, 1},
		{[]uint32{1, 1}, 3, 0}, // retries of an agent that is gone
	} {
		var rows []comms.TaskRow
		for _, n := range c.attempts {
			rows = append(rows, comms.TaskRow{Attempt: n})
		}
		if got := repeats(rows, c.retries); got != c.want {
			t.Errorf("attempts %v with %d retries: %d, want %d", c.attempts, c.retries, got, c.want)
		}
	}
}

// After an error that comes again with each try the mend is offered first.
func TestNeedsMending(t *testing.T) {
	for _, c := range []struct {
		e    cascade.TaskError
		want bool
	}{
		{cascade.TaskError{Kind: comms.ErrorSetup}, true},
		{cascade.TaskError{Kind: comms.ErrorPanic}, true},
		{cascade.TaskError{Kind: comms.ErrorReadOnly}, true},
		{cascade.TaskError{Kind: comms.ErrorExit, ExitCode: 127}, true},
		{cascade.TaskError{Kind: comms.ErrorTask, Codes: []string{"TypeError"}}, true},
		{cascade.TaskError{Kind: comms.ErrorTask, Codes: []string{"ConnectionError", "KeyError"}}, false},
		{cascade.TaskError{Kind: comms.ErrorTask}, false},
		{cascade.TaskError{Kind: comms.ErrorExit, ExitCode: 1}, false},
		{cascade.TaskError{Kind: comms.ErrorTimeout}, false},
		{cascade.TaskError{Kind: comms.ErrorMemory}, false},
	} {
		if got := needsMending(&c.e); got != c.want {
			t.Errorf("%v %d %v: %v", c.e.Kind, c.e.ExitCode, c.e.Codes, got)
		}
	}
}
