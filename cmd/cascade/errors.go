package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/statedir"
	"github.com/cascade-run/cascade/tune"
)

// Exit codes, part of the interface: scripts rely on them.
const (
	exitOK             = 0
	exitFailed         = 1
	exitBadInput       = 2
	exitInfrastructure = 3
	exitCancelled      = 4
	exitTimeout        = 5
)

// jsonVersion is the version of what --json and -o json print, in every error: fields are
// added within a version, and none is removed or changed.
const jsonVersion = 1

// badInput marks errors that the user fixes in the input of the command.
type badInput struct{ error }

func (e badInput) Unwrap() error { return e.error }

func badInputf(format string, args ...any) error { return badInput{fmt.Errorf(format, args...)} }

// hinted is an error with what the user may do about it.
type hinted struct {
	error
	hint string
}

func (e hinted) Error() string { return e.error.Error() + "; " + e.hint }
func (e hinted) Unwrap() error { return e.error }

// hintedf is bad input with a hint.
func hintedf(hint, format string, args ...any) error {
	return badInput{hinted{fmt.Errorf(format, args...), hint}}
}

// splitHint returns an error's text without its hint, and that.
func splitHint(err error) (message, hint string) {
	message = err.Error()
	if h := (hinted{}); errors.As(err, &h) {
		return strings.TrimSuffix(message, "; "+h.hint), h.hint
	}
	return message, ""
}

// reported marks errors that the user has been told of.
type reported struct{ error }

func (e reported) Unwrap() error { return e.error }

// errTimeout ends a command that waited for as long as it was told to.
var errTimeout = errors.New("time is up")

// kindOf says of an error what scripts tell it by, and the exit code.
func kindOf(err error) (kind string, code int) {
	var problems dag.Problems
	var bad badInput
	var job *cascade.JobError
	var task taskExit
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case err == nil:
		return "", exitOK
	case errors.As(err, &task):
		return "task_failed", int(task)
	case is(errTimeout):
		return "timeout", exitTimeout
	case is(errInterrupted), is(errLeft):
		return "cancelled", exitCancelled
	case errors.As(err, &job) && job.Phase == comms.JobFailed: // also when what failed was a call that was cancelled
		return "job_failed", exitFailed
	case is(cascade.ErrCancelled), is(context.Canceled):
		return "cancelled", exitCancelled
	case errors.As(err, &job):
		return "job_failed", exitFailed
	case is(errDiffers), is(tune.ErrDiffers):
		return "differs", exitFailed
	case is(errTrials):
		return "trials_failed", exitFailed
	case errors.As(err, &problems):
		return "job_file", exitBadInput
	case unreachable(err):
		return "unreachable", exitInfrastructure
	case is(cascade.ErrNotFound), is(errNotHere):
		return "not_found", exitBadInput
	case is(cascade.ErrConflict):
		return "conflict", exitBadInput
	case is(cascade.ErrDenied):
		return "denied", exitBadInput
	case errors.As(err, &bad), is(cascade.ErrBadRequest):
		return "bad_input", exitBadInput
	case is(errUnfit):
		return "unfit", exitInfrastructure
	case is(cascade.ErrUnavailable):
		return "unavailable", exitInfrastructure
	}
	return "infrastructure", exitInfrastructure
}

// errNotHere marks bad input that names what is not there.
var errNotHere = errors.New("not found")

// notHere is the error of who names what is not there.
type notHere struct{ error }

func (e notHere) Unwrap() []error { return []error{e.error, errNotHere} }

// unreachable tells whether an error is that a host or controller does not answer, or has no address.
func unreachable(err error) bool {
	var lookup *net.DNSError
	var network *net.OpError
	return errors.As(err, &lookup) || errors.As(err, &network)
}

func exitCode(err error) int {
	_, code := kindOf(err)
	return code
}

// mistake is what is wrong, as JSON. The place is that of a mistake in a job file.
type mistake struct {
	Kind    string `json:"kind,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Exit    int    `json:"exit,omitempty"`
}

// printMistake prints an error as JSON on standard error.
func (a *app) printMistake(m mistake) {
	b, err := json.Marshal(struct {
		Schema int     `json:"schema"`
		Error  mistake `json:"error"`
	}{jsonVersion, m})
	if err == nil { // it holds texts and numbers
		fmt.Fprintf(a.err, "%s\n", b)
	}
}

// shownProblems is the most mistakes of one kind that are printed unless --all is given.
const shownProblems = 10

// printError tells the user on standard error what an error is: as text, or with --json as
// objects. Mistakes in a job file begin with their place, as those of compilers do, so that
// editors find it.
func (a *app) printError(err error, args []string) {
	kind, code := kindOf(err)
	var found dag.Problems
	listed := errors.As(err, &found)
	if at := (placed{}); errors.As(err, &at) {
		found, listed, kind = at.found, true, "job_file"
		err = found
	}
	asJSON := a.json || slices.Contains(args, "--json") // flags behind a wrong one are not read
	var shown reported
	if errors.As(err, &shown) && !asJSON {
		return
	}
	message, hint := splitHint(err)
	switch {
	case asJSON && listed:
		for _, p := range found {
			a.printMistake(mistake{Kind: kind, File: p.File, Line: p.Line, Column: p.Col, Message: p.Message, Hint: p.Hint, Exit: code})
		}
	case asJSON:
		a.printMistake(mistake{Kind: kind, Message: message, Hint: hint, Exit: code})
	case listed && err.Error() == found.Error():
		a.printProblems(found)
	default:
		a.complain("%s", message)
		if hint != "" {
			fmt.Fprintf(a.err, "  hint: %s\n", hint)
		}
	}
}

// printProblems prints mistakes in a job file: of each kind the first, and how many more
// there are.
func (a *app) printProblems(found dag.Problems) {
	seen := map[string]int{}
	more := 0
	for _, p := range found {
		kind := kindOfProblem(p)
		if seen[kind]++; seen[kind] > shownProblems && !a.allProblems {
			more++
			continue
		}
		fmt.Fprintln(a.err, p)
	}
	if more > 0 {
		fmt.Fprintf(a.err, "and %s like these: cascade validate FILE --all lists all\n", plural(more, "more mistake"))
	}
}

// kindOfProblem is the message of a mistake without what it names.
func kindOfProblem(p dag.Problem) string {
	var b strings.Builder
	quoted := false
	for _, r := range p.Message {
		switch {
		case r == '"':
			quoted = !quoted
		case !quoted && (r < '0' || r > '9'):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// complain prints an error for people.
func (a *app) complain(format string, args ...any) {
	fmt.Fprintf(a.paint(a.err), "%s %s\n", a.red(a.raw.err, "cascade:"), a.plainText(fmt.Sprintf(format, args...)))
}

// worded is an error that is told in other words than its own.
type worded struct {
	error
	text string
}

func (e worded) Error() string { return e.text }
func (e worded) Unwrap() error { return e.error }

// triedAt is the address behind a name of a cluster to which a connection failed, as
// " (10.0.0.1:7420)"; "" if the name is the address, or the error does not say it.
func triedAt(err error, to string) string {
	var network *net.OpError
	if !errors.As(err, &network) || network.Addr == nil || strings.Contains(to, network.Addr.String()) {
		return ""
	}
	return " (" + network.Addr.String() + ")"
}

// explained tells what the error of a connection means.
func (a *app) explained(err error) error {
	var lookup *net.DNSError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &lookup):
		return hinted{worded{err, fmt.Sprintf("no cluster and no host is called %q: %v", a.to, lookup)}, "say HOST, HOST:PORT, an address or the name of a cluster that you joined (cascade cluster join)"}
	case statedir.NobodyListens(err) || errors.Is(err, fs.ErrNotExist):
		return hinted{worded{err, "no controller answers at " + a.to + triedAt(err, a.to)}, "is cascade-controller running there? Name another with --to"}
	}
	return err
}
