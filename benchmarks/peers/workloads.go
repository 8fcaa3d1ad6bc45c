package main

import (
	"fmt"
	"time"
)

// args are the parameters of a workload, as runners read them.
type args map[string]any

// metric is one number that a workload yields.
type metric struct {
	name   string // added to the workload's in rows; "" for its only one
	unit   string
	higher bool // whether higher is better
	// of computes it from what the runner measured; false when the runner did not measure it.
	of   func(values map[string]float64) (float64, bool)
	none string // what it means that a runner measured the workload but not this
}

// workload is one row of the table: what is asked, and what is made of the answer.
type workload struct {
	number  int    // of the list in README.md
	suite   string // workloads of one suite share a runner, and so a warm cluster
	name    string
	kind    string // what runners know it by
	full    args
	short   args // of -short and the test; nil: left out there
	limit   time.Duration
	rounds  int // at most; 0: as many as asked for
	hosts   int // on which it runs; 0: the machine as it is
	metrics []metric
	axis    string  // "": alone; else the ladder to which it belongs, for plots
	size    float64 // where it stands on the ladder
	after   string  // a workload like it, without which it is not tried
}

// value is a number as the runner measured it.
func value(key string) func(map[string]float64) (float64, bool) {
	return func(v map[string]float64) (float64, bool) {
		x, ok := v[key]
		return x, ok
	}
}

// rate is how many tasks ended a second. Runners tell both: a shape knows its own number.
func rate(v map[string]float64) (float64, bool) {
	n, took := v["tasks"], v["seconds"]
	return n / took, n > 0 && took > 0
}

func tasksPerSecond() []metric { return []metric{more("", "tasks/s", rate)} }

// less is a metric of which less is better, more one of which more is.
func less(name, unit string, of func(map[string]float64) (float64, bool)) metric {
	return metric{name: name, unit: unit, of: of}
}

func more(name, unit string, of func(map[string]float64) (float64, bool)) metric {
	return metric{name: name, unit: unit, higher: true, of: of}
}

// unless tells what it means that a runner which measured the workload has no such number.
func (m metric) unless(none string) metric {
	m.none = none
	return m
}

// workloads is the whole table, in the order in which it runs.
func workloads() (all []workload) {
	const limit = 40 * time.Second
	noop := func(n int, name string, short args, limit time.Duration) workload {
		return workload{number: 1, suite: "overhead", name: "noop " + name, kind: "noop", full: args{"n": n}, short: short, limit: limit,
			metrics: tasksPerSecond(), axis: "independent no-op tasks", size: float64(n)}
	}
	shape := func(kind string, full, short args) workload {
		return workload{number: 4, suite: "overhead", name: kind, kind: kind, full: full, short: short, limit: limit, metrics: tasksPerSecond(), after: "noop 10k"}
	}
	big := noop(100_000, "100k", args{"n": 100}, 150*time.Second) // and then what the control takes: number 12
	big.kind, big.suite, big.rounds = "memory", "many", 1         // a cluster of their own: no other workload comes after so many tasks
	big.metrics = append(big.metrics, less("control memory", "MiB", scaled("control_bytes", 1.0/(1<<20))).unless("all its processes run tasks"))
	million := noop(1_000_000, "1M", nil, 90*time.Second)
	million.suite, million.rounds = "many", 1
	all = append(all,
		noop(1000, "1k", args{"n": 100}, time.Minute),
		noop(10_000, "10k", nil, time.Minute),
		big, million,
		workload{number: 2, suite: "overhead", name: "latency", kind: "latency", full: args{"n": 500}, short: args{"n": 5}, limit: limit,
			metrics: []metric{less("p50", "us", scaled("p50", 1e6)), less("p99", "us", scaled("p99", 1e6))}},
		workload{number: 3, suite: "overhead", name: "chain", kind: "chain", full: args{"n": 1000}, short: args{"n": 5}, limit: limit,
			metrics: []metric{less("step", "us", func(v map[string]float64) (float64, bool) {
				r, ok := rate(v)
				return 1e6 / r, ok
			})}},
		shape("fan", args{"n": 10_000}, args{"n": 50}),
		shape("merge", args{"n": 10_000}, args{"n": 50}),
		shape("tree", args{"leaves": 1 << 13}, args{"leaves": 16}),
	)
	all = append(all, called()...)
	all = append(all, actors()...)
	all = append(all, handovers()...)
	all = append(all,
		workload{number: 6, suite: "work", name: "sdmi", kind: "sdmi", full: args{"n": 1000, "m": 16}, short: args{"n": 20, "m": 4}, limit: limit, metrics: wall()},
		workload{number: 6, suite: "work", name: "bdg", kind: "bdg", full: args{"n": 1000, "m": 16}, short: args{"n": 20, "m": 4}, limit: limit, metrics: wall()},
	)
	all = append(all, workload{number: 13, suite: "work", name: "simulation", kind: "simulation", full: args{"times": 30, "longest": 2000}, short: args{"times": 3, "longest": 20},
		limit: limit, metrics: []metric{more("", "steps/s", value("rate"))}})
	for _, kind := range []string{"chain", "scatter"} {
		all = append(all, workload{number: 10, suite: "work", name: "repeat " + kind, kind: "repeat", full: args{"shape": kind, "times": 300},
			short: args{"shape": kind, "times": 5}, limit: limit, metrics: []metric{more("", "graphs/s", rate)}})
	}
	all = append(all,
		workload{number: 11, suite: "kill", name: "kill", kind: "kill", full: args{"n": 120, "seconds": 0.05}, short: args{"n": 30, "seconds": 0.05}, limit: limit,
			metrics: []metric{
				less("lost task runs", "ms", scaled("rerun", 1e3)).unless("the lost task did not run again"),
				less("new worker runs", "ms", scaled("full", 1e3)).unless("no new worker had a task before the job ended"),
				less("tasks again", "tasks", value("again")), less("time added", "s", value("added")),
			}},
	)
	all = append(all, broadcasts()...)
	return append(all, metgs()...)
}

func wall() []metric { return []metric{less("", "s", value("seconds"))} }

// called are tasks that a running program calls by futures, without a graph.
func called() (all []workload) {
	for _, c := range []struct {
		name, kind string
		n, short   int
		unit       string
	}{
		{"sync", "calls_sync", 1000, 10, "tasks/s"}, {"async", "calls_async", 10_000, 100, "tasks/s"}, {"nested", "calls_nested", 3200, 200, "tasks/s"},
		{"wait 1k", "calls_wait", 1000, 20, "futures/s"}, {"put 1 KiB", "calls_put", 10_000, 20, "values/s"}, {"stream", "calls_stream", 1000, 10, "elements/s"},
	} {
		w := workload{number: 14, suite: "calls", name: "calls " + c.name, kind: c.kind, full: args{"n": c.n}, short: args{"n": c.short}, limit: time.Minute,
			metrics: []metric{more("", c.unit, rate)}}
		if c.kind == "calls_put" {
			w.full["size"], w.short["size"] = 1<<10, 1<<10
		}
		all = append(all, w)
	}
	return all
}

// actors are objects in processes of their own, that a program makes and calls.
func actors() (all []workload) {
	for _, a := range []struct {
		name     string
		n, short int
		unit     string
	}{{"sync", 1000, 10, "calls/s"}, {"async", 10_000, 100, "calls/s"}, {"create", 20, 2, "actors/s"}} {
		all = append(all, workload{number: 15, suite: "actors", name: "actors " + a.name, kind: "actors_" + a.name, full: args{"n": a.n}, short: args{"n": a.short},
			limit: time.Minute, metrics: []metric{more("", a.unit, rate)}})
	}
	return append(all, workload{number: 15, suite: "actors", name: "actors restart", kind: "actors_restart", full: args{"times": 5}, short: args{"times": 1},
		limit: time.Minute, metrics: []metric{less("", "ms", scaled("last", 1e3))}})
}

// handovers are arrays of growing size, from one task to four others.
func handovers() (all []workload) {
	for _, h := range []struct {
		name        string
		size, times int
	}{{"1 KiB", 1 << 10, 20}, {"1 MiB", 1 << 20, 20}, {"100 MiB", 100 << 20, 5}, {"1 GiB", 1 << 30, 3}} {
		w := workload{number: 7, suite: "work", name: "handover " + h.name, kind: "handover", full: args{"size": h.size, "consumers": 4, "times": h.times},
			limit: time.Minute, metrics: []metric{less("", "ms", scaled("last", 1e3))}}
		if h.size <= 1<<20 {
			w.short = args{"size": h.size, "consumers": 4, "times": 1}
		}
		all = append(all, w)
	}
	return all
}

// broadcasts are an array of one host that others need: one other, then four. Each is a host of its own.
func broadcasts() (all []workload) {
	for _, to := range []int{1, 4} {
		w := workload{number: 8, suite: fmt.Sprintf("%d hosts", to+1), name: fmt.Sprintf("broadcast 1 GiB to %d", to), kind: "broadcast", hosts: to + 1,
			full: args{"size": 1 << 30, "consumers": to, "times": 3}, limit: 90 * time.Second, rounds: 1, metrics: []metric{less("", "ms", scaled("last", 1e3))}}
		if to == 1 {
			w.rounds = 2
			w.short = args{"size": 1 << 20, "consumers": to, "times": 1}
		}
		all = append(all, w)
	}
	return all
}

// metgs are graphs of computing tasks, as wide as the machine and 16 times as wide.
func metgs() (all []workload) {
	for _, pattern := range []string{"stencil", "nearest", "fft", "spread", "trivial"} {
		for _, wide := range []int{1, 16} {
			w := workload{number: 5, suite: "metg", name: fmt.Sprintf("metg %s x%d", pattern, wide), kind: "metg", full: args{"pattern": pattern, "wide": wide, "tasks": 104 + 8*wide},
				limit: time.Minute, rounds: 1, metrics: []metric{less("", "us", scaled("metg", 1e6))}}
			all = append(all, w)
		}
	}
	return all
}

// scaled is a number as the runner measured it, in another unit.
func scaled(key string, by float64) func(map[string]float64) (float64, bool) {
	return func(v map[string]float64) (float64, bool) {
		x, ok := v[key]
		return x * by, ok
	}
}
