package cascade

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor"
)

// A graph that a session or a task runs is a call: its inputs are futures, and its outputs are. Its agent has the
// controller run it as a job, between doors by which data goes in and out (dag.NewDoor).

// GraphRun is a graph that a session, or a task, runs. It ends with that.
type GraphRun struct {
	call *executor.Call
	outs []string
}

// resultsDoor is the name of the door that takes the outputs of a graph.
const resultsDoor = "results"

// given is an input of a graph that is a future.
type given struct {
	name   string
	future *executor.Future
}

// FutureInput adds an input to a graph that Go will run: a future of the session, or of the task. It is passed by
// reference, and the graph starts when the values of all are there.
func FutureInput[T any](g *Graph, name string, f Future[T]) Ref[T] {
	g.given = append(g.given, given{name, f.future()})
	return Ref[T]{place{group: name, output: dag.InputOutput}}
}

// Go begins the graph with the context of a session or of a task, and returns at once. It runs as a job of its own, which
// is planned as one that is submitted and is listed by cascade ls. It ends with the session or task. A task that runs again
// meets the job that it had begun.
//
// Functions of the graph run where the caller's calls run, or in environments of the caller's job, named by the option In.
// Its inputs are futures (FutureInput) and URLs; values of a session are put (Put). The Graph is not to be used afterwards.
// A mistake in it is the error of the run.
func (g *Graph) Go(ctx context.Context) GraphRun {
	r := GraphRun{outs: g.single}
	c := &executor.GraphCall{Name: g.name, Outputs: g.single, Encode: func(agent string) ([]byte, error) {
		d, err := g.within(agent)
		if err != nil {
			return nil, err
		}
		return d.Encode(), nil
	}}
	for _, in := range g.given {
		c.Names, c.Inputs = append(c.Names, in.name), append(c.Inputs, in.future)
	}
	r.call = c.Go(ctx)
	return r
}

// within builds the graph with its doors on an agent.
func (g *Graph) within(agent string) (*dag.Graph, error) {
	for i := range g.inputs {
		for _, f := range g.inputs[i].Files {
			if f.Path != "" {
				g.fail(fmt.Sprintf("input %q", g.inputs[i].Name), errors.New("a graph that a task runs reads no files of a client: give it a future (Put, FutureInput) or a URL"))
			}
		}
	}
	doors := make([]dag.Group, 0, len(g.given)+1)
	for _, in := range g.given {
		door := dag.NewDoor(in.name, agent, dag.GivenFunction)
		door.Outputs = []dag.OutputDecl{{Name: dag.InputOutput}}
		doors = append(doors, door)
	}
	taken := dag.NewDoor(resultsDoor, agent, dag.TakenFunction)
	for i, ref := range g.single {
		taken.Inputs = append(taken.Inputs, dag.One(fmt.Sprintf("output%d", i), dag.From{Text: ref}))
	}
	return g.build(append(doors, taken))
}

// OutputOf returns an output of a graph that runs as a future, which can be passed on without a copy. It must be an
// output by itself: g.Output(ref, ""). It stays until no one has a reference to it, whatever becomes of the job.
func OutputOf[T any](r GraphRun, ref Ref[T]) Future[T] {
	if r.call == nil {
		return Future[T]{executor.FailedFuture(errNoRun)}
	}
	i := slices.Index(r.outs, ref.String())
	if i < 0 || ref.err != nil {
		return Future[T]{executor.FailedFuture(errors.Join(fmt.Errorf("%w: %s is not an output of the graph by itself: call g.Output(ref, \"\") before g.Go", ErrBadRequest, ref), ref.err))}
	}
	return Future[T]{r.call.OutputAs(i, reflect.TypeFor[T]())}
}

// errNoRun is of a GraphRun that no Go has made.
var errNoRun = errors.New("the zero GraphRun stands for nothing")

// Wait waits until the graph has ended. The error is that of the task that has failed.
func (r GraphRun) Wait(ctx context.Context) error {
	_, err := r.future().Get(ctx)
	return err
}

// Cancel ends the graph. It does not wait: Wait tells how it ended.
func (r GraphRun) Cancel(why string) { Cancel(why, r) }

// future stands for the end of the graph.
func (r GraphRun) future() *executor.Future {
	if r.call == nil {
		return executor.FailedFuture(errNoRun)
	}
	return r.call.End()
}
