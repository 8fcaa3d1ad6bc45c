package runtimeenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// varsPlugin sets environment variables. It comes last, so that the job file has the last
// word; but without what other plugins put into PYTHONPATH no Python executor would start.
type varsPlugin struct{}

const varsPriority = 1000

func (varsPlugin) Name() string                                          { return "vars" }
func (varsPlugin) Priority() int                                         { return varsPriority }
func (varsPlugin) Applies(env dag.Environment) bool                      { return len(env.Vars) > 0 }
func (varsPlugin) Delete(string) error                                   { return nil }
func (varsPlugin) Create(context.Context, dag.Environment, *Build) error { return nil }
func (varsPlugin) Key(context.Context, dag.Environment) (string, error)  { return "", nil }

func (varsPlugin) Validate(env dag.Environment) error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(env.Vars)) {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			all = append(all, fmt.Errorf("variable %q: a name is not empty and has no = in it", name))
		case strings.Contains(env.Vars[name], "\x00"):
			all = append(all, fmt.Errorf("variable %s: its value holds a zero byte", name))
		case strings.HasPrefix(name, "CASCADE_"):
			all = append(all, fmt.Errorf("variable %s: names that start with CASCADE_ are Cascade's own", name))
		}
	}
	return errors.Join(all...)
}

func (varsPlugin) Activate(env dag.Environment, _ string, act *Activation) error {
	for _, name := range slices.Sorted(maps.Keys(env.Vars)) {
		if name == "PYTHONPATH" && act.executor != "" {
			act.extendPythonPath(filepath.SplitList(env.Vars[name])...)
			continue
		}
		act.Env = append(act.Env, name+"="+env.Vars[name])
	}
	return nil
}
