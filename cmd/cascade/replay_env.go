package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cascade-run/cascade/agent/foreground"
	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
)

// activating is an environment of a job that a task is to run in here.
type activating struct {
	graph    *dag.Graph
	dir      string // of the job
	name     string // of the environment; "" for none
	task     string
	function bool   // it is no command
	executor string // the program that the user has named; "" none
}

// activated is what the executor of a task is, and where it starts.
type activated struct {
	program, env []string
	dir          string
	declared     dag.Environment // zero for none
	function     bool
}

// activate prepares what the executor is and where it starts, as an agent does.
func (a *app) activate(ctx context.Context, x *activating) (*activated, error) {
	out := &activated{function: x.function}
	var act runtimeenv.Activation
	if at := slices.IndexFunc(x.graph.Environments, func(e dag.Environment) bool { return e.Name == x.name }); at >= 0 {
		out.declared = x.graph.Environments[at]
		env := out.declared
		if !filepath.IsAbs(env.Source) {
			env.Source = filepath.Join(x.dir, env.Source)
		}
		if env.Container != nil {
			return nil, badInputf("replay: task %s runs in the container %s, which replay does not enter: run it on the cluster with --from %s", x.task, env.Container.Image, x.task)
		}
		cache, err := runtimeenv.Open("", "")
		if err != nil {
			return nil, err
		}
		// It is closed only when it cannot be used: what runs needs the environment for
		// as long as this process lives, and its lock ends with it.
		act, err = cache.Prepare(ctx, env, func(text string) {
			fmt.Fprintf(a.err, "environment %s: %s\n", env.Name, cmp.Or(text, "is being built"))
		})
		if err != nil {
			if len(x.graph.Packages()) > 0 {
				err = fmt.Errorf("%w; files that were submitted on another host are on those that ran the job: run this there, or --from %s on the cluster", err, x.task)
			}
			return nil, errors.Join(fmt.Errorf("replay: environment %s: %w", env.Name, err), cache.Close())
		}
	}
	out.program, out.env = act.Command, act.Env
	if !x.function && act.Foreign {
		out.program = nil
	}
	if len(out.program) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		out.program = []string{cmp.Or(x.executor, self)}
	}
	if out.dir = cmp.Or(act.Dir, x.dir); out.dir != "" {
		if _, err := os.Stat(out.dir); err != nil {
			return nil, badInputf("replay: the job's folder is not on this host: %w", err)
		}
	}
	return out, nil
}

// start makes it what a task runs in, under a debugger or not.
func (x *activated) start(ctx context.Context, t *foreground.Task, debug bool) error {
	t.Program, t.Env, t.Dir = slices.Clone(x.program), slices.Clone(x.env), x.dir
	t.Kind.Dir = x.dir
	if !debug {
		return nil
	}
	return x.underDebugger(ctx, t)
}
