//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/cascade-run/cascade/benchmarks/scale/model"
	"github.com/cascade-run/cascade/dag"
)

func TestSolve(t *testing.T) {
	us := time.Microsecond
	for _, tc := range []struct {
		name            string
		messages, tasks [2]int
		used            [2]time.Duration
		want            model.Cost
	}{
		{"both cost something", [2]int{10, 100}, [2]int{1000, 100}, [2]time.Duration{1050 * us, 600 * us}, model.Cost{Message: 5 * us, Task: us}},
		{"messages cost nothing", [2]int{10, 100}, [2]int{1000, 100}, [2]time.Duration{1000 * us, 90 * us}, model.Cost{Task: us}},
		{"tasks cost nothing", [2]int{10, 100}, [2]int{1000, 100}, [2]time.Duration{40 * us, 500 * us}, model.Cost{Message: 5 * us}},
		{"runs that tell nothing apart", [2]int{10, 20}, [2]int{100, 200}, [2]time.Duration{100 * us, 200 * us}, model.Cost{Task: us}},
	} {
		got := solve(tc.messages, tc.tasks, tc.used)
		if (got.Message-tc.want.Message).Abs() > time.Nanosecond || (got.Task-tc.want.Task).Abs() > time.Nanosecond {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestRest(t *testing.T) {
	us := time.Microsecond
	for _, tc := range []struct {
		name            string
		message         time.Duration
		messages, tasks int
		used            time.Duration
		want            model.Cost
	}{
		{"tasks bear what messages do not", 5 * us, 100, 50, 1000 * us, model.Cost{Message: 5 * us, Task: 10 * us}},
		{"messages cost less than they did", 5 * us, 100, 50, 300 * us, model.Cost{Message: 3 * us}},
		{"nothing was used", 5 * us, 100, 50, -us, model.Cost{}},
	} {
		if got := rest(model.Cost{Message: tc.message, Task: time.Second}, tc.messages, tc.tasks, tc.used); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A fit finds again what a model was made with.
func TestFitCalls(t *testing.T) {
	us := time.Microsecond
	static := model.Costs{Controller: model.Cost{Message: us, Task: us / 10}, Beside: model.Cost{Message: 20 * us}, Agent: model.Cost{Message: 5 * us}, Executor: model.Cost{Message: 8 * us}}
	called := static
	called.Agent.Task, called.Executor.Task, called.Beside.Task = 40*us, 6*us, 2*us
	m := measured{work: work{tasks: 400, slots: 4, drivers: 1}, hosts: 1}
	r, err := model.Run(modelOf(m.hosts, m.work, called))
	if err != nil {
		t.Fatal(err)
	}
	of := func(c model.Cost, messages, tasks int) time.Duration {
		return time.Duration(messages)*c.Message + time.Duration(tasks)*c.Task
	}
	m.agent = of(called.Agent, r.Controller+r.Executors, m.tasks)
	m.executor = of(called.Executor, r.Executors, 2*m.tasks)
	m.controller = of(called.Beside, r.Controller, m.tasks)
	got, err := fitCalls(m, static)
	if err != nil {
		t.Fatal(err)
	}
	near := func(a, b model.Cost) bool { // calls go in batches: how many messages there are jumps with the costs
		return (a.Message-b.Message).Abs() <= b.Message/4 && (a.Task-b.Task).Abs() <= b.Task/2
	}
	if !near(got.Agent, called.Agent) || !near(got.Executor, called.Executor) {
		t.Errorf("%+v, want near %+v", got, called)
	}
}

// Jobs are such as the command runs, and the model has.
func TestJobFile(t *testing.T) {
	for _, w := range []work{{time.Millisecond, 100, 8, 0}, {0, 100, 8, 2}} {
		g, err := dag.ParseYAML("scale.yaml", []byte(w.jobFile("a")), dag.Override{}, dag.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := w.tasks
		if w.drivers > 0 {
			want = w.drivers
		}
		if n := g.NumTasks(); n != want {
			t.Errorf("%s: %d tasks, want %d", way(w.drivers), n, want)
		}
	}
}

// Large clusters have less work, so that their model ends: never less than ten tasks a core.
func TestConfig(t *testing.T) {
	o := options{tasks: 200_000, cores: 32, shards: 2}
	for _, tc := range []struct {
		hosts   int
		task    time.Duration
		drivers int
		want    int
	}{
		{1, 0, 0, 200_000}, {100, 0, 0, 40_000}, {1, longTask, 0, 12_800}, {1000, longTask, 0, 4000}, {10, 0, 8, 20_000}, {1000, 0, 8, 320},
	} {
		if got := o.config(tc.hosts, tc.task, tc.drivers, model.Costs{}); got.Tasks != tc.want {
			t.Errorf("%d hosts, tasks of %v, %s: %d tasks a host, want %d", tc.hosts, tc.task, way(tc.drivers), got.Tasks, tc.want)
		}
	}
}
