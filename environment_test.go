//go:build linux

package cascade_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
)

// variable is an environment that sets a variable.
func variable(name, value string) dag.Environment {
	return dag.Environment{Name: name, Vars: map[string]string{"TEST_IN": value}}
}

// inEnvironment says in which of the environments above it runs, and on which side of a call.
func inEnvironment(context.Context, how) (string, error) {
	path, err := os.Executable()
	if strings.Contains(path, "-cache/") {
		path = "copy"
	} else {
		path = "program"
	}
	return os.Getenv("TEST_IN") + " " + path, err
}

// passesOn calls in its own environment, and in another.
func passesOn(ctx context.Context, in string) (string, error) {
	own, err := inEnvironmentTask.Go(ctx, cascade.Val(how{})).Get(ctx)
	if err != nil {
		return own, err
	}
	other, err := inEnvironmentTask.Go(ctx, cascade.Val(how{}), cascade.In(in)).Get(ctx)
	return own + ", " + other, err
}

var (
	inEnvironmentTask = cascade.Func1("t_in", inEnvironment, "with -> where")
	passesOnTask      = cascade.Func1("t_passes", passesOn, "in -> where")
)

// Calls of a session run in its environment, or in that which they name, and so do theirs.
func TestSessionEnvironments(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client, cascade.WithSessionEnvironments(variable("red", "R"), variable("blue", "B")), cascade.WithSessionIn("red"))
	ctx := s.Context()
	for _, call := range []struct {
		f    cascade.Future[string]
		want string
	}{
		{inEnvironmentTask.Go(ctx, cascade.Val(how{})), "R program"},
		{inEnvironmentTask.Go(ctx, cascade.Val(how{}), cascade.In("blue")), "B program"},
		{passesOnTask.Go(ctx, cascade.Val("red"), cascade.In("blue")), "B program, R program"},
		{inEnvironmentTask.Go(ctx, cascade.Val(how{}), cascade.In("gren")), `its job has no environment "gren": it declares "red", "blue"`},
	} {
		if got, err := call.f.Get(ctx); got != call.want && (err == nil || !strings.Contains(err.Error(), call.want)) {
			t.Errorf("got %q, %v, want %q", got, err, call.want)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	broken := dag.Environment{Name: "broken", Vars: map[string]string{"CASCADE_X": "x"}}
	if _, err := c.Session(t.Context(), cascade.WithSessionEnvironments(broken), cascade.WithSessionIn("broken")); err == nil || !strings.Contains(err.Error(), "names that start with CASCADE_") {
		t.Errorf("a session in an environment that cannot be built: %v", err)
	}
	if _, err := c.Session(t.Context(), cascade.WithSessionIn("red")); err == nil || !strings.Contains(err.Error(), `there is no environment "red"`) {
		t.Errorf("a session in an environment that it does not declare: %v", err)
	}
}

// A task of a graph calls in the environments that the graph declares.
func TestTaskCallsInEnvironments(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	g := cascade.NewGraph("environments")
	g.Environment(variable("red", "R"))
	g.Environment(variable("blue", "B"))
	word := inEnvironmentTask.Add(g, "word", cascade.With(how{}), cascade.In("blue"))
	g.Output(word, "")
	text := passesOnTask.Add(g, "passes", word, cascade.MayFail()) // "B program" is no environment
	g.Output(text, "")
	graph, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	job, err := c.Submit(t.Context(), graph)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := cascade.Result(t.Context(), job, word); err != nil || got != "B program" {
		t.Errorf("the task ran in %q, %v", got, err)
	}
	if _, err := cascade.Result(t.Context(), job, text); err == nil || !strings.Contains(err.Error(), `no environment "B program": it declares "red", "blue"`) {
		t.Errorf("a call in an environment that the job does not have: %v", err)
	}
}

// On another host calls run in the same environments, in a copy of the program: a call there
// calls in one that is not its own.
func TestEnvironmentsOnAnotherHost(t *testing.T) {
	address := twoPlatforms(t)
	client := dial(t, address, cascade.WithBinary(foreign, script(t, "")))
	if err := client.Ready(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	s := open(t, client, cascade.WithSessionEnvironments(variable("red", "R"), variable("blue", "B")))
	ctx := s.Context()
	here := passesOnTask.Go(ctx, cascade.Val("red"), cascade.In("blue"), cascade.Resource("one", 1))
	there := passesOnTask.Go(ctx, cascade.Val("red"), cascade.In("blue"), cascade.Resource("two", 1))
	for f, want := range map[cascade.Future[string]]string{here: "B copy, R copy", there: "B program, R program"} {
		if got, err := f.Get(ctx); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
