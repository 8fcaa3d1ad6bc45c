package perf

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// finished is a job that has run.
type finished struct {
	job    *cascade.Job
	graph  *dag.Graph
	took   time.Duration // from Submit to the durable end
	result time.Duration // from Submit to the last output, which may come before
}

// timed runs a job to its durable end.
func (b *bench) timed(ctx context.Context, c *cascade.Cluster, g *dag.Graph) (finished, error) {
	f := finished{graph: g}
	began := time.Now()
	j, err := c.Submit(ctx, g)
	if err != nil {
		return f, err
	}
	f.job = j
	if len(g.Exports) > 0 {
		if _, err := j.WaitResult(ctx); err != nil {
			return f, err
		}
		f.result = time.Since(began)
	}
	_, err = j.Wait(ctx)
	f.took = time.Since(began)
	return f, err
}

// listAll is up to how many tasks listed reads every row: a row costs some ten microseconds.
const listAll = 5000

// listed proves that the rows of `ls tasks` have the tasks of the job, named,
// finished, and with a time of their own: all of them, of a larger job three.
func (f finished) listed(ctx context.Context, c *cascade.Cluster) error {
	n := f.graph.NumTasks()
	if n <= listAll {
		return f.rows(ctx, c, "", n)
	}
	for _, i := range []int{0, n / 2, n - 1} {
		if err := f.rows(ctx, c, f.graph.TaskName(dag.TaskIndex(i)), 1); err != nil {
			return err
		}
	}
	return nil
}

// alternated proves that no two tasks in a row ran on the same executor.
func (f finished) alternated(ctx context.Context, c *cascade.Cluster) error {
	rows, err := cascade.Rows[comms.TaskRow](ctx, c.Client, comms.QueryTasks, f.job.ID(), "")
	if err != nil {
		return err
	}
	for i := 1; i < len(rows); i++ {
		if rows[i].Index != rows[i-1].Index+1 || rows[i].Executor == rows[i-1].Executor {
			return fmt.Errorf("job %s: tasks %s and %s follow each other on executors %d and %d, want two", f.job.ID(),
				rows[i-1].Name, rows[i].Name, rows[i-1].Executor, rows[i].Executor)
		}
	}
	return nil
}

func (f finished) rows(ctx context.Context, c *cascade.Cluster, filter string, want int) error {
	rows, err := cascade.Rows[comms.TaskRow](ctx, c.Client, comms.QueryTasks, f.job.ID(), filter)
	if err != nil {
		return err
	}
	if len(rows) != want {
		return fmt.Errorf("job %s: ls tasks %s has %d rows, want %d", f.job.ID(), filter, len(rows), want)
	}
	for i := range rows {
		r := &rows[i]
		if r.Name == "" || r.State != "done" || r.Started == "" || r.Attempt == 0 {
			return fmt.Errorf("job %s: the row of task %d is not that of a finished task: %+v", f.job.ID(), r.Index, *r)
		}
	}
	return nil
}

// value fetches an exported dataset.
func value[T any](ctx context.Context, f finished, name string) (v T, err error) {
	at, err := f.job.Locate(ctx, name)
	if err != nil {
		return v, err
	}
	if len(at) != 1 {
		return v, fmt.Errorf("%s names %d datasets", name, len(at))
	}
	var raw bytes.Buffer
	if err := f.job.Fetch(ctx, at[0], &raw); err != nil {
		return v, err
	}
	d := at[0].Desc
	return cascade.Decode[T](d.Codec, d.DType, d.Shape, raw.Bytes())
}

// build ends a graph of this package, whose mistakes are this package's.
func build(b *dag.Builder) *dag.Graph {
	g, err := b.Build()
	if err != nil {
		panic(err)
	}
	return g
}

func run(function string) dag.Run { return dag.Run{Function: function} }

func out() []dag.OutputDecl { return []dag.OutputDecl{{Name: "out"}} }

// with gives a function its parameters.
func with(name string, value any) dag.Field { return dag.Field{Name: name, Value: value} }

// independent is n tasks that do nothing and wait for nothing.
func independent(name string, n int) *dag.Graph {
	b := dag.NewBuilder(name)
	b.Add(dag.Group{Name: "noop", Axes: []dag.Axis{dag.Range("i", 0, int64(n-1))}, Run: run(funcNoop)})
	return build(b)
}

// paths is width chains of length tasks. Only the next task reads an output, so that
// a plan may fuse each chain.
func paths(name string, width, length int) *dag.Graph {
	b := dag.NewBuilder(name)
	axis := []dag.Axis{dag.Range("p", 0, int64(width-1))}
	last := b.Add(dag.Group{Name: "s0", Axes: axis, Run: run(funcStart), Outputs: out()})
	for i := 1; i < length; i++ {
		last = b.Add(dag.Group{Name: fmt.Sprintf("s%d", i), Axes: axis, Run: run(funcStep), Outputs: out(),
			Inputs: []dag.InputDecl{dag.One("x", last.Out("out", dag.Expr("p")))}})
	}
	return build(b)
}

// keptChain is one chain, each output of which is an output of the job: it is
// published and recorded, so that no two tasks can be fused.
func keptChain(name string, length int) *dag.Graph {
	b := dag.NewBuilder(name)
	last := b.Add(dag.Group{Name: "t0", Run: run(funcStart), Outputs: out()})
	b.Export(last.Out("out"), "")
	for i := 1; i < length; i++ {
		last = b.Add(dag.Group{Name: fmt.Sprintf("t%d", i), Run: run(funcStep), Outputs: out(),
			Inputs: []dag.InputDecl{dag.One("x", last.Out("out"))}})
		b.Export(last.Out("out"), "")
	}
	return build(b)
}

// turns is one chain whose tasks need one of two environments in turn, and so two
// executors: none can wait behind its producer, each step passes the agent.
// The environments are alike but for a variable.
func turns(name string, length int, env dag.Environment, start, step string) *dag.Graph {
	b := dag.NewBuilder(name)
	sides := []string{"left", "right"}
	for _, side := range sides {
		env.Name, env.Vars = side, map[string]string{"PERF_SIDE": side}
		b.Environment(env)
	}
	last := b.Add(dag.Group{Name: "t0", Run: dag.Run{Environment: sides[0], Function: start}, Outputs: out()})
	for i := 1; i < length; i++ {
		last = b.Add(dag.Group{Name: fmt.Sprintf("t%d", i), Run: dag.Run{Environment: sides[i%2], Function: step}, Outputs: out(),
			Inputs: []dag.InputDecl{dag.One("x", last.Out("out"))}})
	}
	b.Export(last.Out("out"), "")
	return build(b)
}
