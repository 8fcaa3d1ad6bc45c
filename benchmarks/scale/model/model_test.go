package model

import (
	"fmt"
	"testing"
	"time"
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
		{"the controller is the bound", Config{Hosts: 8, Cores: 16, Tasks: 20_000, Costs: Costs{Delay: free.Delay, Executor: Cost{Task: time.Microsecond},
			Controller: Cost{Task: time.Microsecond}}}, 1e6, 0.8},
		{"executors are the bound", Config{Hosts: 2, Cores: 2, Tasks: 20_000, Costs: Costs{Delay: free.Delay, Executor: Cost{Task: 10 * time.Microsecond}}}, 4e5, 0.7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Run(tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got.Rate > tc.most*1.001 || got.Rate < tc.most*tc.part {
				t.Errorf("%.0f tasks a second; want at most %.0f, and %.2f of it: %+v", got.Rate, tc.most, tc.part, got)
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
