package cascade

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor"
)

// Result waits until a dataset of a job is there, whatever else the job does, and
// returns it as a Go value. The values
// of arrays are copied out of the store, so that they stay valid. The dataset
// must be an output of the graph (see Graph.Output): others may be freed as soon
// as their consumers have ended. When the job fails before the dataset exists,
// the error is the job's.
func Result[T any](ctx context.Context, j *Job, ref Ref[T]) (T, error) {
	var zero T
	if ref.err != nil {
		return zero, fmt.Errorf("result %s: %w", ref, ref.err)
	}
	if j.graph != nil && !exports(j.graph, ref.place) {
		return zero, fmt.Errorf("%w: result: %s is not an output of the job: call g.Output(ref, \"\")", ErrBadRequest, ref)
	}
	jobErr := j.waitOutput(ctx, ref.String())
	var failed *JobError
	if jobErr != nil && !errors.As(jobErr, &failed) {
		return zero, fmt.Errorf("result %s: %w", ref, jobErr)
	}
	located, err := j.Locate(ctx, ref.String())
	if err != nil {
		return zero, notThere(ref, jobErr, err)
	}
	if len(located) != 1 {
		return zero, fmt.Errorf("result %s: it names %d datasets, want one", ref, len(located))
	}
	var b bytes.Buffer
	if err := j.Fetch(ctx, located[0], &b); err != nil {
		if errors.Is(err, ErrNotFound) && jobErr == nil { // another index than those that are outputs, or a job of another program
			err = fmt.Errorf("%w (only outputs of a job are kept: call g.Output(ref, \"\"))", err)
		}
		return zero, notThere(ref, jobErr, err)
	}
	d := located[0].Desc
	v, err := executor.Decode[T](executor.Default, d.Codec, d.DType, d.Shape, b.Bytes())
	if err != nil {
		return zero, fmt.Errorf("result %s: %w", ref, err)
	}
	return v, nil
}

// notThere is the error, on one line, for a dataset that could not be had: because
// the job has failed, if it has. That it is not found follows from the task's error.
func notThere[T any](ref Ref[T], jobErr, err error) error {
	if jobErr == nil {
		return fmt.Errorf("result %s: %w", ref, err)
	}
	var failed *JobError
	if errors.As(jobErr, &failed) && failed.Cause != nil && errors.Is(err, ErrNotFound) {
		return fmt.Errorf("result %s: %w", ref, jobErr)
	}
	return fmt.Errorf("result %s: %w (%w)", ref, jobErr, err)
}

// waitOutput waits until an output is there, or until the job has ended without it. One
// that is the job's only output is told with the job's result, for which nothing is asked.
func (j *Job) waitOutput(ctx context.Context, name string) error {
	if g := j.graph; g != nil && len(g.Exports) == 1 && len(g.Exports[0].Sources) == 1 {
		_, err := j.WaitResult(ctx)
		return err
	}
	var last *Progress
	err := j.subscribe(ctx, &comms.Watch{Job: j.id, Every: comms.UntilResult, Outputs: []string{name}}, func(p *Progress) bool {
		last = p
		return !p.Result && !p.Final
	})
	if err != nil {
		return err
	}
	return JobResult(last)
}

// exports tells whether datasets of an output, of any index, are outputs of the graph.
func exports(g *dag.Graph, p place) bool {
	for _, e := range g.Exports {
		for _, s := range e.Sources {
			if grp := g.Group(s.Task); grp.Name == p.group && int(s.Output) < len(grp.Outputs) && grp.Outputs[s.Output].Name == p.output {
				return true
			}
		}
	}
	return false
}
