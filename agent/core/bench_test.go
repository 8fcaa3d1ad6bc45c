package core

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// BenchmarkStep drives tasks that do nothing through Step with executors that
// answer each Dispatch with one Report, and a controller that commits each batch
// at once. It reports the time and memory of the core alone for each task.
func BenchmarkStep(b *testing.B) {
	const n = 100_000
	jobs := map[string]string{
		"independent": fmt.Sprintf(`
job: noop
tasks:
  t: {for: {i: "1..%d"}, run: F, out: [o]}
`, n),
		"chains": fmt.Sprintf(`
job: chains
tasks:
  a: {for: {i: "1..%d"}, run: F, out: [o]}
  b: {for: {i: "1..%d"}, run: F, in: {x: "a[${i}].o"}, out: [o]}
  c: {for: {i: "1..%d"}, run: F, in: {x: "b[${i}].o"}, out: [o]}
  d: {for: {i: "1..%d"}, run: F, in: {x: "c[${i}].o"}, out: [o]}
`, n/4, n/4, n/4, n/4),
		"ring": ring(n, 32),
	}
	for _, name := range []string{"independent", "chains", "ring"} {
		g := graph(b, jobs[name])
		b.Run(name, func(b *testing.B) {
			var before, after runtime.MemStats
			var bytes uint64
			for range b.N {
				runtime.GC()
				runtime.ReadMemStats(&before)
				c := New(Config{Total: comms.Resources{CPU: 2000, Memory: 1 << 30}, Memory: 1 << 20, Warm: 2})
				d := &fakeHost{c: c, now: time.Unix(1, 0)}
				d.step(ControllerUp{})
				d.step(FromController{Msg: &comms.Assign{Job: comms.JobID{1}, Epoch: 1}, Graph: g})
				runtime.GC()
				runtime.ReadMemStats(&after)
				bytes = after.HeapAlloc - before.HeapAlloc
				d.run()
				if d.finished != n {
					b.Fatalf("%d tasks finished, want %d", d.finished, n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/task")
			b.ReportMetric(float64(bytes)/n, "B/task")
		})
	}
}

// ring is n tasks in rows of some width, each of which reads three of the row before.
func ring(n, width int) string {
	text := fmt.Sprintf("\njob: ring\ntasks:\n  s0: {for: {i: \"0..%d\"}, run: F, out: [o]}\n", width-1)
	for s := 1; s < n/width; s++ {
		text += fmt.Sprintf("  s%d: {for: {i: \"0..%d\"}, run: G, in: {x: [\"s%d[${(i+%d)%%%d}].o\", \"s%d[${i}].o\", \"s%d[${(i+1)%%%d}].o\"]}, out: [o]}\n",
			s, width-1, s-1, width-1, width, s-1, s-1, width)
	}
	return text
}

// BenchmarkJobs submits many jobs of one task each at once: what a task costs
// must not grow with the number of jobs that wait.
func BenchmarkJobs(b *testing.B) {
	g := graph(b, "job: one\ntasks:\n  t: {run: F, out: [o]}\n")
	for _, n := range []int{1000, 10_000} {
		for _, owner := range []string{"", "o"} {
			b.Run(fmt.Sprintf("%d%s", n, owner), func(b *testing.B) {
				for range b.N {
					c := New(Config{Total: comms.Resources{CPU: 2000, Memory: 1 << 30}, Memory: 1 << 20, Warm: 2})
					d := &fakeHost{c: c, now: time.Unix(1, 0)}
					d.step(ControllerUp{})
					for i := range n {
						id := comms.JobID{byte(i), byte(i >> 8), byte(i >> 16), 1}
						d.step(FromController{Msg: &comms.Assign{Job: id, Epoch: 1, Tenant: owner}, Graph: g})
					}
					d.run()
					if d.finished != n {
						b.Fatalf("%d tasks finished, want %d", d.finished, n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
			})
		}
	}
}

// fakeHost answers actions as fast as can be.
type fakeHost struct {
	c        *Core
	now      time.Time
	inbox    []Event
	finished int
}

func (d *fakeHost) step(ev Event) {
	d.now = d.now.Add(time.Microsecond)
	for _, a := range d.c.Step(d.now, ev) {
		switch a := a.(type) {
		case Spawn:
			d.inbox = append(d.inbox, Spawned{Executor: a.Executor}, FromExecutor{a.Executor, &comms.Hello{Functions: []comms.FuncSig{{Name: "F"}, {Name: "G"}}}})
		case ToExecutor:
			if m, ok := a.Msg.(*comms.Dispatch); ok {
				d.inbox = append(d.inbox, FromExecutor{a.Executor, report(m)})
			}
		case ToController:
			if m, ok := a.Msg.(*comms.Events); ok {
				n := m.First - 1
				for _, j := range m.Jobs {
					n += uint64(len(j.Events))
					for i := range j.Events {
						j.Events[i].Each(func(e *comms.Event) bool {
							if e.Kind == comms.EventFinished {
								d.finished++
							}
							return true
						})
					}
				}
				d.inbox = append(d.inbox, FromController{Msg: &comms.Committed{UpTo: n}})
			}
		}
	}
}

// report finishes all runs of a Dispatch.
func report(m *comms.Dispatch) *comms.Report {
	r := &comms.Report{}
	for i := range m.Runs {
		runs, err := m.Runs[i].All()
		if err != nil {
			panic(err)
		}
		for k := range runs {
			r.Items = append(r.Items, comms.ReportItem{Kind: comms.ReportFinished, Run: runs[k].ID, Usage: &comms.Usage{Duration: 1000},
				Outputs: []comms.Desc{{Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte{1}}, Size: 1}}})
		}
	}
	return r
}

func (d *fakeHost) run() {
	for {
		if len(d.inbox) == 0 {
			if d.step(Idle{}); len(d.inbox) == 0 {
				return
			}
		}
		ev := d.inbox[0]
		d.inbox = d.inbox[1:]
		d.step(ev)
	}
}
