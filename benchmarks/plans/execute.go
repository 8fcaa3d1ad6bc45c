package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/internal/hosts"
	"github.com/cascade-run/cascade/benchmarks/internal/local"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// execution says how recordings are run for real: each task sleeps for its scaled time.
type execution struct {
	hosts, cores int
	seconds      float64 // of the lower bound
	apart        bool    // no task is fused with another
	memory       int64   // bytes of shared memory of a host; 0: the default
	rate         int64   // bits per second of each host's link, a host being a network namespace; 0: all agents are in this process, and no bytes move
}

// name is that of an agent.
func (x *execution) name(h int) string {
	if x.rate > 0 {
		return hosts.Name(h)
	}
	return fmt.Sprint("a", h)
}

// execute runs each recording three times on agents of its own: while nothing
// is known of its tasks, when they are known, and once more by the plan that was
// found meanwhile. It prints makespans over the lower bound.
func execute(w io.Writer, files []string, x execution) error {
	fmt.Fprintf(w, "| recording on %dx%d | recorded costs | unknown costs | first plan | steered | its plan | planned / actual | of fifo | on its host |\n|---|---|---|---|---|---|---|---|---|\n", x.hosts, x.cores)
	off := 0.0
	for _, f := range files {
		row, err := x.file(f)
		if err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		fmt.Fprintf(w, "| %s | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.0f%% |\n", strings.TrimSuffix(filepath.Base(f), ".json"), row.predicted, row.got[0], row.got[1], row.got[2], row.planned, row.planned/row.got[2], row.judged[2], row.same*100)
		off += math.Abs(math.Log(row.planned / row.got[2]))
		if x.memory > 0 {
			fmt.Fprintf(w, "| ... spilled | | %s | | | | | |\n", strings.Join(row.spilled, " | "))
		}
	}
	fmt.Fprintf(w, "| all, as the geometric mean of how far off | | | | | | %.3f | | |\n", math.Exp(off/float64(len(files))))
	return nil
}

type executed struct {
	predicted float64   // by the recorded durations alone
	got       []float64 // of each run
	judged    []float64 // hosts and order of each run, over first come first served: both played by the judge with the durations of the run
	spilled   []string  // bytes of each run
	planned   float64   // what the plan of the last run says, by the durations of the runs before
	same      float64   // part of the tasks of the last run that ran where its plan says
}

func (x *execution) cluster() (c cluster, p planner.Cluster) {
	p.Bandwidth = planner.DefaultBandwidth
	if x.rate > 0 {
		p.Bandwidth = float64(x.rate) / 8
	}
	for h := range x.hosts {
		p.Hosts = append(p.Hosts, planner.Host{Name: x.name(h), CPU: int64(x.cores) * 1000})
	}
	return cluster{cores: slices.Repeat([]int{x.cores}, x.hosts), bandwidth: p.Bandwidth}, p
}

func (x *execution) file(path string) (out executed, err error) {
	c, _ := x.cluster()
	im, p, err := x.scaled(path)
	if err != nil {
		return out, err
	}
	out.predicted = p.Makespan / p.LowerBound
	j, err := newJob(im.Graph, im.Profile.Snapshot())
	if err != nil {
		return out, err
	}
	err = x.run(func(ctx context.Context, client *cascade.Client) error {
		for range 3 {
			took, rows, plan, spilled, err := submitted(ctx, client, im.Graph)
			if err != nil {
				return err
			}
			ch, same := x.choiceOf(im.Graph, rows, plan)
			for i := range rows {
				j.seconds[rows[i].Index] = rows[i].Seconds
			}
			out.spilled = append(out.spilled, units.BytesSize(float64(spilled)))
			out.got, out.judged = append(out.got, took/p.LowerBound), append(out.judged, c.play(j, ch)/c.play(j, fifo(&c, j)))
			out.same, out.planned = same, 0
			for i := range plan {
				out.planned = max(out.planned, plan[i].Finish/p.LowerBound)
			}
		}
		return nil
	})
	return out, err
}

// choiceOf is what agents did as a choice, and how much of it is where a plan says.
func (x *execution) choiceOf(g *dag.Graph, rows []comms.TaskRow, plan []comms.PlanRow) (ch choice, same float64) {
	host, number := map[string]string{}, map[string]int{}
	for h := range x.hosts {
		number[x.name(h)] = h
	}
	for i := range plan {
		host[plan[i].Task] = plan[i].Host
	}
	ch = choice{make([]int, g.NumTasks()), make([]float64, g.NumTasks())}
	for i := range rows {
		r := &rows[i]
		at, err := time.Parse(time.RFC3339Nano, r.Started)
		h, known := number[r.Agent]
		if err != nil || !known {
			continue
		}
		ch.host[r.Index] = h
		ch.first[r.Index] = -float64(at.UnixNano())
		if host[r.Name] == r.Agent {
			same += 1 / float64(len(rows))
		}
	}
	return ch, same
}

// submit runs a job to its end; it returns the seconds from its start to its end,
// what its tasks did and the plan that it followed.
func submit(ctx context.Context, client *cascade.Client, g *dag.Graph) (took float64, rows []comms.TaskRow, plan []comms.PlanRow, err error) {
	took, rows, plan, _, err = submitted(ctx, client, g)
	return took, rows, plan, err
}

// submitted is submit that also returns how many bytes were spilled.
func submitted(ctx context.Context, client *cascade.Client, g *dag.Graph) (took float64, rows []comms.TaskRow, plan []comms.PlanRow, spilled uint64, err error) {
	job, err := client.Submit(ctx, g)
	if err != nil {
		return 0, nil, nil, 0, err
	}
	p, err := job.Wait(ctx)
	if err != nil {
		return 0, nil, nil, 0, err
	}
	if p.Phase != comms.JobDone {
		return 0, nil, nil, 0, fmt.Errorf("the job ended as %s", p.Phase)
	}
	if rows, err = cascade.Rows[comms.TaskRow](ctx, client, comms.QueryTasks, job.ID(), ""); err != nil {
		return 0, nil, nil, 0, err
	}
	if plan, err = cascade.Rows[comms.PlanRow](ctx, client, comms.QueryPlan, job.ID(), ""); err != nil {
		return 0, nil, nil, 0, err
	}
	took, err = makespan(rows)
	return took, rows, plan, p.Spilled, err
}

// makespan returns the seconds from the start of the first task to the end of the last.
func makespan(rows []comms.TaskRow) (seconds float64, err error) {
	first, last := math.Inf(1), 0.0
	for i := range rows {
		at, err := time.Parse(time.RFC3339Nano, rows[i].Started)
		if err != nil {
			return 0, fmt.Errorf("task %s: %w", rows[i].Name, err)
		}
		start := float64(at.UnixNano()) / 1e9
		first, last = min(first, start), max(last, start+rows[i].Seconds)
	}
	return last - first, nil
}

// apartly is run with each agent in a network namespace of its own.
func (x *execution) apartly(ctx context.Context, f func(context.Context, *cascade.Client) error) (err error) {
	c, err := hosts.Open(hosts.Config{Hosts: x.hosts, Rate: x.rate, CPU: int64(x.cores) * 1000, Store: x.memory, Spread: true, Apart: x.apart})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return f(ctx, c.Client)
}

// run starts a controller and agents for as long as f works with them.
func (x *execution) run(f func(context.Context, *cascade.Client) error) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if x.rate > 0 {
		return x.apartly(ctx, f)
	}
	c, err := local.Open(ctx, local.Config{Agents: x.hosts, Cores: x.cores, Apart: x.apart, Memory: x.memory})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return f(ctx, c.Client)
}
