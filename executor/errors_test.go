package executor

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// TestErrorsTravel has errors of functions reach another process: errors.Is finds there what it finds
// here, at whatever depth, and errors.As the task's error.
func TestErrorsTravel(t *testing.T) {
	noData, noDisk := errors.New("no data"), errors.New("no disk")
	reg := &Registry{}
	reg.RegisterError("nodata", noData)
	reg.RegisterError("nodisk", noDisk)
	sent := func(kind comms.ErrorKind, err error) error { // one process and the next
		return reg.Wrap(&comms.TaskError{Kind: kind, Message: err.Error(), Codes: reg.codesOf(err), Task: "a"})
	}
	deep := func(err error) error { return fmt.Errorf("a function that calls: %w", err) }
	for _, c := range []struct {
		name string
		err  error
		is   []error
		not  []error
	}{
		{"of a function", sent(comms.ErrorTask, deep(noData)), []error{noData}, []error{noDisk, ErrCancelled, ErrTimeout}},
		{"two at once", sent(comms.ErrorTask, errors.Join(noData, noDisk)), []error{noData, noDisk}, []error{ErrCancelled}},
		{"two levels", sent(comms.ErrorTask, deep(sent(comms.ErrorTask, deep(noData)))), []error{noData}, []error{noDisk}},
		{"cancelled", sent(comms.ErrorCancelled, errors.New("enough")), []error{ErrCancelled}, []error{ErrTimeout, noData}},
		{"called one that was cancelled", sent(comms.ErrorTask, deep(sent(comms.ErrorCancelled, errors.New("enough")))), []error{ErrCancelled}, []error{ErrTimeout}},
		{"too slow", sent(comms.ErrorTask, deep(sent(comms.ErrorTimeout, errors.New("1s")))), []error{ErrTimeout}, []error{ErrCancelled}},
	} {
		var of *comms.TaskError
		if !errors.As(c.err, &of) || of.Task != "a" {
			t.Errorf("%s: errors.As finds %+v", c.name, of)
		}
		for _, want := range c.is {
			if !errors.Is(c.err, want) {
				t.Errorf("%s: errors.Is does not find %q", c.name, want)
			}
		}
		for _, bad := range c.not {
			if errors.Is(c.err, bad) {
				t.Errorf("%s: errors.Is finds %q", c.name, bad)
			}
		}
	}
}
