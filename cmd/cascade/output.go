package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
)

// exitPipe is the exit code of a command whose output is not read to its end, as a shell says it of a
// program that the signal ends.
const exitPipe = 128 + int(syscall.SIGPIPE)

// errUnread ends a command that only prints, when its output is not read any more.
var errUnread = errors.New("standard output is not read any more")

// output is standard output. When it is not read any more, such as by head, the command ends; but one
// that follows a job goes on without it: what it prints then is not the result.
type output struct {
	io.Writer
	unread context.CancelCauseFunc

	mu        sync.Mutex
	following bool
	err       error // the first
}

// follow has the command go on when its output is not read any more.
func (o *output) follow() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.following = true
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err == nil {
		return n, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	if !errors.Is(err, syscall.EPIPE) {
		return n, err
	}
	if o.following {
		return len(p), nil
	}
	o.unread(errUnread)
	return n, err
}

// ended returns the exit code and the error of a command that ended with err.
func (o *output) ended(err error) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err == nil, o.following && errors.Is(o.err, syscall.EPIPE):
		return exitCode(err), err
	case errors.Is(o.err, syscall.EPIPE):
		return exitPipe, reported{errUnread}
	case !errors.Is(err, o.err):
		err = errors.Join(err, o.err)
	}
	return exitCode(err), err
}
