package main

import (
	"fmt"
	"io"
	"runtime"
	"syscall"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// grid is a job of about n tasks in eight rows, each one shorter than the one before:
// a task reads from its own place and the next of that, and one task reads the last row.
func grid(n int) (*dag.Graph, profiles.Snapshot, error) {
	const rows = 8
	wide := n / rows
	text := "job: grid\ntasks:\n"
	f := profiles.File{}
	for r := range rows {
		in := ""
		if r > 0 {
			in = fmt.Sprintf(`, in: {own: "r%d[${i}].x", next: "r%d[${i+1}].x"}`, r-1, r-1)
		}
		text += fmt.Sprintf("  r%d: {run: F%d, for: {i: \"0..%d\"}, out: [x]%s}\n", r, r, wide-1-r, in)
		f.Profiles = append(f.Profiles, profiles.Entry{Job: "grid", Task: fmt.Sprint("r", r), Function: fmt.Sprint("F", r), Runs: 1, Seconds: 0.5 + 0.1*float64(r), Bytes: 1e5})
	}
	text += fmt.Sprintf("  end: {run: G, in: {all: \"r%d[*].x\"}, out: [x]}\noutputs: [end.x]\n", rows-1)
	g, err := dag.ParseYAML("grid", []byte(text), dag.Override{}, dag.Options{})
	return g, f.Snapshot(), err
}

// times prints what planning takes, by the number of tasks: processor seconds and the memory
// that was allocated meanwhile; and draws them, if there is a file for it.
func times(w io.Writer, sizes []int, picture string) error {
	c := planner.Cluster{Bandwidth: 1.25e8, Latency: latency}
	for h := range 4 {
		c.Hosts = append(c.Hosts, planner.Host{Name: fmt.Sprint(h), CPU: 16_000})
	}
	fmt.Fprintln(w, "| tasks | edges | first plan | memory | bytes a task and edge | four evaluations more | memory |\n|---|---|---|---|---|---|---|")
	var tasks []int
	var seconds [2][]float64
	for _, n := range sizes {
		g, s, err := grid(n)
		if err != nil {
			return err
		}
		edges := 0
		for i := range g.NumTasks() {
			edges += len(g.Consumers(dag.TaskIndex(i)))
		}
		one, oneBytes, err := measured(func() error { _, err := planner.Make(g, s, c); return err })
		if err != nil {
			return err
		}
		few, fewBytes, err := measured(func() error { _, err := planner.Best(g, s, c, planner.Effort{Evaluations: 4}); return err })
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "| %d | %d | %.3f s | %.0f MB | %.0f | %.2f s | %.0f MB |\n", g.NumTasks(), edges, one, oneBytes/1e6, oneBytes/float64(g.NumTasks()+edges), few-one, fewBytes/1e6)
		tasks, seconds[0], seconds[1] = append(tasks, g.NumTasks()), append(seconds[0], one), append(seconds[1], few-one)
	}
	if picture == "" {
		return nil
	}
	p, err := plotTimes(tasks, seconds)
	if err != nil {
		return err
	}
	return save(p, picture)
}

// measured returns the processor seconds that f takes, the best of three, and the
// bytes that it allocates.
func measured(f func() error) (best, bytes float64, err error) {
	var before, after runtime.MemStats
	for range 3 {
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := processor()
		if err := f(); err != nil {
			return 0, 0, err
		}
		took := processor() - began
		runtime.ReadMemStats(&after)
		if best == 0 || took < best {
			best, bytes = took, float64(after.TotalAlloc-before.TotalAlloc)
		}
	}
	return best, bytes, nil
}

// processor returns the processor seconds of this process so far, those of the
// garbage collector among them.
func processor() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
