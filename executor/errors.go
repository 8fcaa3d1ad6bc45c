package executor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
)

type errorCode struct {
	code string
	err  error
}

// Errors of tasks that were not those of their functions, for errors.Is.
var (
	// ErrCancelled says that a job or a call was cancelled.
	ErrCancelled = errors.New("it was cancelled")
	// ErrTimeout says that a task exceeded its time-out.
	ErrTimeout = errors.New("it exceeded its time-out")
	// ErrActorDead says that an actor has ended: the call did not run, or it is not known whether it did.
	ErrActorDead = errors.New("the actor has ended")
	// ErrActorRestarted says that an actor was restarted while a call was open: the call may have run, and is not repeated.
	ErrActorRestarted = errors.New("the actor was restarted")
)

// kinds are registered everywhere.
var kinds = []errorCode{{comms.CodeCancelled, ErrCancelled}, {comms.CodeTimeout, ErrTimeout}, {comms.CodeActorDead, ErrActorDead},
	{comms.CodeActorRestarted, ErrActorRestarted}}

// RegisterError gives an error value a code under which it travels between
// processes: a task that returns it, wrapped or not, makes a TaskError that
// carries the code, and errors.Is finds err again in the submitting program. It
// panics when code or error is registered already. It returns err, so that
//
//	var ErrNoData = cascade.RegisterError("nodata", errors.New("no data for this date"))
//
// declares and registers at once.
func (r *Registry) RegisterError(code string, err error) error {
	if e := checkName("error code", code); e != nil {
		panic(fmt.Sprintf("cascade: register error code %q (%s): %v", code, caller(), e))
	}
	if err == nil {
		panic(fmt.Sprintf("cascade: register error code %q (%s): the error is nil", code, caller()))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Concat(kinds, r.codes) {
		if c.code == code || errors.Is(err, c.err) {
			panic(fmt.Sprintf("cascade: register error code %q (%s): %q is registered for %q already", code, caller(), c.code, c.err))
		}
	}
	r.codes = append(r.codes, errorCode{code, err})
	return err
}

// codeOf returns the code under which an error is registered.
func (r *Registry) codeOf(err error) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Concat(kinds, r.codes) {
		if c.err == err { //nolint:errorlint // that error itself is registered, not one around it
			return c.code, true
		}
	}
	return "", false
}

// codesOf lists the codes in err's chain: those of kinds, and then the registered ones in order of registration.
func (r *Registry) codesOf(err error) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, c := range slices.Concat(kinds, r.codes) {
		if errors.Is(err, c.err) {
			out = append(out, c.code)
		}
	}
	return out
}

// Error is a task's error as a program sees it: errors.Is finds the registered
// errors that the task returned in another process, ErrCancelled and ErrTimeout, and
// errors.As finds the TaskError.
type Error struct {
	*comms.TaskError
	chain []error
}

// Unwrap returns the TaskError, and the registered errors that the task returned.
func (e *Error) Unwrap() []error { return e.chain }

// Wrap makes t an error that errors.Is can look into. It returns nil for nil.
func (r *Registry) Wrap(t *comms.TaskError) error {
	if t == nil {
		return nil
	}
	e := &Error{TaskError: t, chain: []error{t}}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, code := range t.AllCodes() {
		for _, c := range slices.Concat(kinds, r.codes) {
			if c.code == code {
				e.chain = append(e.chain, c.err)
			}
		}
	}
	return e
}
