package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// mistake is an error as JSON. Place and hint are those of a mistake in a job file.
type mistake struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// printError tells the user what an error is: as text on standard error, with
// --json as objects on standard output. Mistakes in a job file begin with their
// place, as those of compilers do, so that editors find it.
func (a *app) printError(err error, args []string) {
	var found dag.Problems
	listed := errors.As(err, &found)
	if at := (placed{}); errors.As(err, &at) {
		found, listed = at.found, true
		err = found
	}
	asJSON := a.json || slices.Contains(args, "--json") // flags behind a wrong one are not read
	switch {
	case asJSON && listed:
		for _, p := range found {
			_ = a.printJSON(mistake{File: p.File, Line: p.Line, Column: p.Col, Message: p.Message, Hint: p.Hint})
		}
	case asJSON:
		_ = a.printJSON(mistake{Message: err.Error()})
	case listed && err.Error() == found.Error():
		fmt.Fprintln(a.err, found)
	default:
		fmt.Fprintf(a.err, "cascade: %v\n", err)
	}
}
