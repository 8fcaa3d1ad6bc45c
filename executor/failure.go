package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/cascade-run/cascade/comms"
)

// kindError is an error whose kind is known where it happens.
type kindError struct {
	kind comms.ErrorKind
	err  error
}

func (e *kindError) Error() string { return e.err.Error() }
func (e *kindError) Unwrap() error { return e.err }

const (
	maxMessage = 16 << 10 // of an error's text and of a stack
	logTail    = 4 << 10  // of what a task wrote, kept for its error
)

// unstarted is the error of a run that has not started, and so has no log.
func (r *run) unstarted(kind comms.ErrorKind, message string) *comms.TaskError {
	return &comms.TaskError{Kind: kind, Message: clip(message), Task: r.name(), Attempt: comms.Try(r.Attempt),
		Agent: r.exec.welcome.Agent, Executor: r.exec.welcome.Executor}
}

// taskError fills in who and where. Executor.mu is not held.
func (r *run) taskError(kind comms.ErrorKind, message string, codes []string) *comms.TaskError {
	e := r.unstarted(kind, message)
	e.Codes = codes
	if log := r.logged(); log != nil {
		e.LogTail = log.tail()
	}
	return e
}

// classify turns what a run returned into the error that the agent gets.
func (r *run) classify(err error) *comms.TaskError {
	var why *stopped
	if errors.As(context.Cause(r.ctx), &why) {
		// Whatever the function returned, it was on its way out.
		text := why.text
		if !errors.Is(err, why) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			text += "; it returned: " + err.Error()
		}
		return r.taskError(why.kind, text, nil)
	}
	if r.exec.ctx.Err() != nil { // it did not fail, it was not let end
		return r.taskError(comms.ErrorCrash, "its executor had to end: "+context.Cause(r.exec.ctx).Error(), nil)
	}
	kind := comms.ErrorTask
	var known *kindError
	if errors.As(err, &known) {
		kind = known.kind
	}
	e := r.taskError(kind, err.Error(), r.exec.reg.codesOf(err))
	var exit *exitError
	if errors.As(err, &exit) {
		e.Kind, e.ExitCode, e.Signal = comms.ErrorExit, exit.code, exit.signal
	}
	return e
}

// recovered turns a panic, or a Goexit when p is nil, into an error.
func (r *run) recovered(p any, stack []byte) *comms.TaskError {
	if p == nil {
		return r.taskError(comms.ErrorTask, "the function called runtime.Goexit (t.FailNow does): return an error instead", nil)
	}
	if fault, ok := p.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		if name, ok := r.inputAt(fault.Addr()); ok {
			e := r.taskError(comms.ErrorReadOnly, fmt.Sprintf("it wrote to input %q, which is shared with other tasks: copy it first", name), nil)
			e.Stack = clip(trimStack(stack))
			return e
		}
		if r.publishedAt(fault.Addr()) {
			e := r.taskError(comms.ErrorReadOnly, "it used an array after publishing it: the array belongs to the store then, copy what is needed later", nil)
			e.Stack = clip(trimStack(stack))
			return e
		}
	}
	e := r.taskError(comms.ErrorPanic, fmt.Sprint("panic: ", p), nil)
	if err, ok := p.(error); ok {
		e.Codes = r.exec.reg.codesOf(err)
	}
	e.Stack = clip(trimStack(stack))
	return e
}

// trimStack drops the frames between debug.Stack and the panic.
func trimStack(stack []byte) string {
	s := string(stack)
	head, rest, ok := strings.Cut(s, "\n")
	if !ok {
		return s
	}
	if i := strings.LastIndex(rest, "\npanic("); i >= 0 {
		if j := strings.Index(rest[i+1:], "\n"); j >= 0 {
			after := rest[i+1+j+1:]
			if _, user, ok := strings.Cut(after, "\n"); ok {
				return head + "\n" + user
			}
		}
	}
	return s
}

// clip bounds a text without cutting a character.
func clip(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	n := maxMessage
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + " [...]"
}
