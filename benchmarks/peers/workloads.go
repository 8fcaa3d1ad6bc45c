package main

import "time"

// args are the parameters of a workload, as runners read them.
type args map[string]any

// metric is one number that a workload yields.
type metric struct {
	name   string // added to the workload's in rows; "" for its only one
	unit   string
	higher bool // whether higher is better
	// of computes it from what the runner measured; false when the runner did not measure it.
	of func(values map[string]float64) (float64, bool)
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
	metrics []metric
	axis    string  // "": alone; else the ladder to which it belongs, for plots
	size    float64 // where it stands on the ladder
}

// seconds is a metric that the runner measured in seconds, told in another unit.
func seconds(key, unit string) func(map[string]float64) (float64, bool) {
	scale := map[string]float64{"s": 1, "ms": 1e3, "us": 1e6}[unit]
	return func(v map[string]float64) (float64, bool) {
		x, ok := v[key]
		return x * scale, ok
	}
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

func tasksPerSecond() []metric { return []metric{{unit: "tasks/s", higher: true, of: rate}} }

// workloads is the whole table, in the order in which it runs.
func workloads() (all []workload) {
	const limit = time.Minute
	noop := func(n int, name string, short args, rounds int) workload {
		return workload{number: 1, suite: "overhead", name: "noop " + name, kind: "noop", full: args{"n": n}, short: short, limit: limit,
			rounds: rounds, metrics: tasksPerSecond(), axis: "independent no-op tasks", size: float64(n)}
	}
	shape := func(kind string, full, short args) workload {
		return workload{number: 4, suite: "overhead", name: kind, kind: kind, full: full, short: short, limit: limit, metrics: tasksPerSecond()}
	}
	all = append(all,
		noop(1000, "1k", args{"n": 100}, 0),
		noop(10_000, "10k", nil, 0),
		noop(100_000, "100k", nil, 0),
		workload{number: 2, suite: "overhead", name: "latency", kind: "latency", full: args{"n": 500}, short: args{"n": 20}, limit: limit,
			metrics: []metric{{"p50", "us", false, seconds("p50", "us")}, {"p99", "us", false, seconds("p99", "us")}}},
		workload{number: 3, suite: "overhead", name: "chain", kind: "chain", full: args{"n": 1000}, short: args{"n": 20}, limit: limit,
			metrics: []metric{{"step", "us", false, func(v map[string]float64) (float64, bool) {
				r, ok := rate(v)
				return 1e6 / r, ok
			}}}},
		shape("fan", args{"n": 10_000}, args{"n": 50}),
		shape("merge", args{"n": 10_000}, args{"n": 50}),
		shape("tree", args{"leaves": 1 << 13}, args{"leaves": 16}),
	)
	return all
}
