package main

import (
	"context"
	"fmt"
	"io"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// spillJob makes datasets, all of which are needed again after the last was made.
const spillJob = `
job: spill
params: {n: 1, bytes: 1}
tasks:
  make: {for: {i: "0..${params.n}-1"}, command: "sleep 0.2; head -c ${params.bytes} /dev/zero > ${out.x}; : > ${out.small}", out: [x, small]}
  all: {in: {x: "make[*].small"}, command: ": > ${out.y}", out: [y]}
  use: {for: {i: "0..${params.n}-1"}, in: {x: "make[${i}].x", y: all.y}, command: "sleep 0.2; wc -c < ${in.x} > ${out.z}", out: [z]}
outputs: ["use[0].z"]
`

// spilled is what a job with a live set of some times a host's memory did, the second
// time, and what was planned from what its tasks took the first.
type spilled struct {
	live           int64
	planned, got   float64 // seconds
	toDisk, onDisk float64 // bytes: planned, and told by the agent
	again          uint64  // attempts after the first
}

// spills prints what jobs do whose live sets are up to so many times the memory of a host.
func spills(w io.Writer, x execution, part int64, most int) error {
	fmt.Fprintln(w, "| live set | of memory | to be spilled | spilled | planned | took | planned / took | tasks tried again |\n|---|---|---|---|---|---|---|---|")
	for times := 1; times <= most; times++ {
		r, err := x.spill(part, int64(times))
		if err != nil {
			return fmt.Errorf("a live set of %d times the memory: %w", times, err)
		}
		fmt.Fprintf(w, "| %s | %d x %s | %s | %s | %.2f s | %.2f s | %.3f | %d |\n", units.BytesSize(float64(r.live)), times, units.BytesSize(float64(x.memory)),
			units.BytesSize(r.toDisk), units.BytesSize(r.onDisk), r.planned, r.got, r.planned/r.got, r.again)
	}
	return nil
}

func (x *execution) spill(part, times int64) (r spilled, err error) {
	n := times * x.memory / part
	g, err := dag.ParseYAML("spill", []byte(spillJob), dag.Override{Flags: []string{fmt.Sprint("n=", n), fmt.Sprint("bytes=", part)}}, dag.Options{})
	if err != nil {
		return r, err
	}
	r.live = n * part
	return r, x.run(func(ctx context.Context, client *cascade.Client) error {
		_, rows, _, err := submit(ctx, client, g)
		if err != nil {
			return err
		}
		if err := r.plan(g, rows, x, float64(part)); err != nil {
			return err
		}
		job, err := client.Submit(ctx, g)
		if err != nil {
			return err
		}
		p, err := job.Wait(ctx)
		if err != nil {
			return err
		}
		if p.Phase != comms.JobDone {
			return fmt.Errorf("the job ended as %s", p.Phase)
		}
		for i := range p.Groups {
			r.again += p.Groups[i].Retries
		}
		r.onDisk = float64(p.Spilled)
		if rows, err = cascade.Rows[comms.TaskRow](ctx, client, comms.QueryTasks, job.ID(), ""); err != nil {
			return err
		}
		r.got, err = makespan(rows)
		return err
	})
}

// plan plans the job by what its tasks took.
func (r *spilled) plan(g *dag.Graph, rows []comms.TaskRow, x *execution, part float64) error {
	var f profiles.File
	for i := range g.Groups {
		sig := planner.SignatureOf(g, i)
		e := profiles.Entry{Job: sig.Job, Task: sig.Group, Outputs: map[string]float64{}}
		for k := range rows {
			if rows[k].Group == sig.Group {
				e.Runs++
				e.Seconds += rows[k].Seconds
			}
		}
		e.Seconds /= float64(e.Runs)
		for _, o := range g.Groups[i].Outputs {
			if e.Outputs[o.Name] = 0; o.Name == "x" {
				e.Outputs[o.Name] = part
			}
		}
		f.Profiles = append(f.Profiles, e)
	}
	host := planner.Host{Name: x.name(0), CPU: int64(x.cores) * 1000, Memory: x.memory}
	p, err := planner.Best(g, f.Snapshot(), planner.Cluster{Hosts: []planner.Host{host}, Whole: true}, planner.Effort{Evaluations: 100})
	if err != nil {
		return err
	}
	r.planned = p.Makespan
	for _, s := range p.Memory[0].Spills {
		r.toDisk += s.Bytes
	}
	if p.Memory[0].Peak > float64(x.memory) {
		return fmt.Errorf("the plan has %g bytes in memory at once", p.Memory[0].Peak)
	}
	return nil
}
