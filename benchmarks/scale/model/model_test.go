package model

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// TestRun predicts small clusters whose figures can be told by hand.
func TestRun(t *testing.T) {
	free := Costs{Delay: 50 * time.Microsecond}
	for _, tc := range []struct {
		name string
		cfg  Config
		most float64 // tasks a second that cannot be passed
		part float64 // of which the model must reach so much
	}{
		{"tasks of 5 ms keep all slots busy", Config{Hosts: 3, Cores: 4, Tasks: 2000, Task: 5 * time.Millisecond, Costs: free}, 3 * 4 * 200, 0.9},
		{"tasks that wait need no core", Config{Hosts: 2, Cores: 1, Slots: 8, Tasks: 2000, Task: 5 * time.Millisecond, Sleep: true, Costs: free}, 2 * 8 * 200, 0.9},
		{"one host of two cores for all", Config{Hosts: 4, Cores: 2, Slots: 2, OneHost: true, Tasks: 500, Task: 5 * time.Millisecond, Costs: free}, 2 * 200, 0.9},
		{"the controller is the bound", Config{Hosts: 8, Cores: 16, Tasks: 5000, Costs: Costs{Delay: free.Delay, Executor: Cost{Task: time.Microsecond},
			Controller: Cost{Task: time.Microsecond}}}, 1e6, 0.8},
		{"many executors wait for few cores", Config{Hosts: 4, Cores: 2, Slots: 8, OneHost: true, Tasks: 5000, Costs: Costs{Executor: Cost{Message: 80 * time.Microsecond, Task: time.Microsecond}}}, 2e6, 0.25},
		{"executors are the bound", Config{Hosts: 2, Cores: 2, Tasks: 20_000, Costs: Costs{Delay: free.Delay, Executor: Cost{Task: 10 * time.Microsecond}}}, 4e5, 0.7},
		{"called tasks of 5 ms keep all slots busy", Config{Hosts: 3, Cores: 4, Tasks: 800, Task: 5 * time.Millisecond, Drivers: 2, Costs: free}, 3 * 4 * 200, 0.9},
		{"drivers call no faster than they can", Config{Hosts: 2, Cores: 16, Slots: 8, Tasks: 1000, Drivers: 2, Costs: Costs{Delay: free.Delay, Executor: Cost{Task: 10 * time.Microsecond}}}, 2 * 2 * 1e5, 0.4},
		{"a called task costs its agent", Config{Hosts: 2, Cores: 16, Slots: 8, Tasks: 1000, Drivers: 2, Costs: Costs{Delay: free.Delay, Agent: Cost{Task: 50 * time.Microsecond}}}, 2 * 2e4, 0.8},
		{"executors that nobody needs any more end", Config{Hosts: 1, Cores: 32, Tasks: 2000, Drivers: 8, Costs: Costs{Delay: free.Delay, Agent: Cost{Message: time.Millisecond}}}, 400, 0.4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Run(tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got.Rate > tc.most*1.001 || got.Rate < tc.most*tc.part {
				t.Errorf("%.0f tasks a second; want at most %.0f, and %.2f of it: %+v", got.Rate, tc.most, tc.part, got)
			}
			if got.BusyPart > 1 {
				t.Errorf("%s works for %.2f of the time", got.Busiest, got.BusyPart)
			}
			if again, _ := Run(tc.cfg); fmt.Sprint(again) != fmt.Sprint(got) {
				t.Errorf("the same configuration gives\n%+v\nand then\n%+v", got, again)
			}
		})
	}
}

// TestRunRefuses names what a model cannot be made of.
func TestRunRefuses(t *testing.T) {
	if _, err := Run(Config{Hosts: 1, Cores: 1}); err == nil {
		t.Error("a model without tasks runs")
	}
}

// TestReclaim: what has begun stays.
func TestReclaim(t *testing.T) {
	w := &world{}
	a := &agent{server: server{on: &machine{w: w, free: 1}}, w: w, cfg: &Config{}}
	x := newExecutor(a, 1)
	x.queue, x.runs = []comms.Run{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}}, 2
	x.reclaim(&comms.Reclaim{Runs: []comms.RunID{2, 3}})
	var left []comms.RunID
	for _, r := range x.queue {
		left = append(left, r.ID)
	}
	if want := []comms.RunID{1, 2, 4}; !slices.Equal(left, want) {
		t.Errorf("%v are left, want %v", left, want)
	}
}
