package main

import (
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

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
