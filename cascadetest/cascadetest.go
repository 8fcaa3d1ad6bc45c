// Package cascadetest runs a cluster inside a test.
//
//	func TestMain(m *testing.M) { cascade.RunTests(m) } // the test binary is the executor
//
//	func TestMean(t *testing.T) {
//		c := cascadetest.Start(t)
//		g := cascade.NewGraph("mean")
//		ref := Mean.Add(g, "mean", ...)
//		g.Output(ref, "")
//		got := cascadetest.Result(t, c, g, ref)
//		...
//	}
//
// The cluster is the real one: controller and agent in the test's process,
// executors as children, state in the test's temporary folder.
package cascadetest

import (
	"context"
	"errors"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// storeBytes is enough for tests and leaves room for others on the machine.
const storeBytes = 256 << 20

// Start starts a cluster that ends with the test. It may use 256 MiB of shared
// memory unless an option says otherwise.
func Start(tb testing.TB, opts ...cascade.Option) *cascade.Cluster {
	tb.Helper()
	opts = append([]cascade.Option{cascade.WithState(tb.TempDir()), cascade.WithStore(storeBytes)}, opts...)
	c, err := cascade.Local(tb.Context(), opts...)
	if err != nil {
		tb.Fatalf("start a cluster: %v", err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("end the cluster: %v", err)
		}
	})
	return c
}

// Submit builds and submits a graph, and fails the test when that does not work.
func Submit(tb testing.TB, c *cascade.Cluster, g *cascade.Graph, opts ...cascade.SubmitOption) *cascade.Job {
	tb.Helper()
	built, err := g.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return SubmitGraph(tb, c, built, opts...)
}

// SubmitGraph submits a graph, and fails the test when that does not work.
func SubmitGraph(tb testing.TB, c *cascade.Cluster, g *dag.Graph, opts ...cascade.SubmitOption) *cascade.Job {
	tb.Helper()
	j, err := c.Submit(tb.Context(), g, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	return j
}

// Wait waits for a job to succeed. When it fails, the test fails with the story
// of the task that was the cause.
func Wait(tb testing.TB, c *cascade.Cluster, j *cascade.Job) *cascade.Progress {
	tb.Helper()
	p, err := j.Wait(tb.Context())
	if err != nil {
		tb.Fatalf("%v\n%s", err, story(tb.Context(), c, j, err))
	}
	return p
}

// Result submits a graph and returns one of its outputs.
func Result[T any](tb testing.TB, c *cascade.Cluster, g *cascade.Graph, ref cascade.Ref[T]) T {
	tb.Helper()
	j := Submit(tb, c, g)
	v, err := cascade.Result(tb.Context(), j, ref)
	if err != nil {
		tb.Fatalf("%v\n%s", err, story(tb.Context(), c, j, err))
	}
	return v
}

func story(ctx context.Context, c *cascade.Cluster, j *cascade.Job, err error) string {
	var failed *cascade.JobError
	if !errors.As(err, &failed) || failed.Cause == nil {
		return ""
	}
	rows, err := cascade.Rows[comms.StoryRow](ctx, c.Client, comms.QueryStory, j.ID(), failed.Cause.Task)
	if err != nil {
		return err.Error()
	}
	text := ""
	for _, r := range rows {
		text += r.At + " " + r.What + " because " + r.Cause + " " + r.Detail + "\n"
	}
	return text + string(failed.Cause.LogTail)
}
