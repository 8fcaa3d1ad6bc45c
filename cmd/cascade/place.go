package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// jobText is a job file as it was written.
type jobText struct {
	name string
	text []byte
}

// at is a mistake at the place of what stands in the file under keys, or of what it would stand in.
func (f *jobText) at(keys ...string) dag.Problem {
	p := dag.Problem{File: f.name}
	p.Line, p.Col = dag.Where(f.text, keys...)
	return p
}

// placed is an error about environments of a job, by where its file says what is wrong.
type placed struct {
	found dag.Problems
	error
}

func (e placed) Unwrap() error { return e.error }

// place finds the places of what is wrong with environments of the job file.
func (a *app) place(err error) error {
	var found dag.Problems
	for _, e := range entriesOf(err) {
		p := a.file.at(append([]string{"environments", e.Environment}, e.Keys...)...)
		p.Message = e.Error()
		found = append(found, p)
	}
	if len(found) == 0 {
		return err
	}
	return placed{found, err}
}

// entriesOf lists the errors of entries that are joined in an error.
func entriesOf(err error) (found []*runtimeenv.EntryError) {
	switch e := any(err).(type) { // each node of the tree, not the first of a kind in it
	case *runtimeenv.EntryError:
		return append(found, e)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			found = append(found, entriesOf(one)...)
		}
	case interface{ Unwrap() error }:
		return entriesOf(e.Unwrap())
	}
	return found
}

// placeOf is the place of what the job file says of the task that an error is of: of its
// function or command, or, when the error is of setting it up, of the environment that it
// is about; "" when that is not known.
func (a *app) placeOf(g *dag.Graph, e *cascade.TaskError) string {
	i, ok := g.Lookup(e.Task)
	if !ok || a.file.text == nil {
		return ""
	}
	run := &g.Group(i).Run
	k := slices.IndexFunc(g.Environments, func(env dag.Environment) bool { return env.Name == run.Environment })
	keys := []string{"tasks", g.Group(i).Name, "run"}
	if run.Command != nil {
		keys[2] = "command"
	}
	if g.Group(i).IsInput() {
		keys = []string{"inputs", g.Group(i).Name}
	}
	if message, ok := strings.CutPrefix(e.Message, fmt.Sprintf("environment %q: ", run.Environment)); ok && k >= 0 && e.Kind == comms.ErrorSetup {
		keys = append([]string{"environments", run.Environment}, entryOf(&g.Environments[k], message)...)
	}
	p := a.file.at(keys...)
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// commandOf is the command line that failed, as the job file has it but for loop variables
// and parameters; "" of a function.
func commandOf(g *dag.Graph, e *cascade.TaskError) string {
	i, ok := g.Lookup(e.Task)
	if !ok {
		return ""
	}
	text, err := g.CommandLine(i)
	if err != nil {
		return "" // and the error says why
	}
	return text
}

// entryOf returns the keys of the entry of an environment that an error of building it
// is about: the one that it names first, else the first requirement in it.
func entryOf(env *dag.Environment, message string) []string {
	if key, _, ok := strings.Cut(message, ": "); ok && slices.Contains([]string{"py_modules", "working_dir", "binary", "container"}, key) {
		return []string{key}
	}
	if env.Python == nil {
		return nil
	}
	for _, text := range env.Python.Pip {
		name := packageName.FindString(text)
		if slices.ContainsFunc(packageName.FindAllString(message, -1), func(word string) bool { return strings.EqualFold(word, name) }) {
			return []string{"python", "pip", text}
		}
	}
	return []string{"python"}
}

// packageName is a name of a Python package, by PEP 508.
var packageName = regexp.MustCompile(`[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`)
