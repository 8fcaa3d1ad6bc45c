//go:build linux

package main

import (
	"runtime"
	"time"

	"github.com/cascade-run/cascade/benchmarks/scale/model"
)

// modelOf is the model of a run on hosts that share this machine.
func modelOf(n int, w work, costs model.Costs) model.Config {
	return model.Config{Hosts: n, Cores: runtime.NumCPU(), Slots: w.slots, OneHost: true, Tasks: w.tasks, Task: w.task, Sleep: true, Costs: costs}
}

// fit finds what a message and a task cost, from two runs on one host that have few
// messages for many tasks, and many for few. How many messages there are the model
// tells, which depends on what they cost: a few turns settle that.
func fit(few, many measured) (costs model.Costs, err error) {
	guess := model.Cost{Message: 5 * time.Microsecond, Task: 500 * time.Nanosecond}
	costs = model.Costs{Controller: guess, Agent: guess, Executor: guess}
	const turns = 6
	for range turns {
		var meters [2]model.Meter
		var ran [2]model.Result
		for i, m := range []*measured{&few, &many} {
			cfg := modelOf(m.hosts, m.work, costs)
			cfg.Meter = &meters[i]
			if ran[i], err = model.Run(cfg); err != nil {
				return costs, err
			}
		}
		tasks := [2]int{few.tasks, many.tasks}
		count := func(of func(*model.Result) int) [2]int { return [2]int{of(&ran[0]), of(&ran[1])} }
		toController := count(func(r *model.Result) int { return r.Controller })
		toExecutors := count(func(r *model.Result) int { return r.Executors })
		both := count(func(r *model.Result) int { return r.Controller + r.Executors })
		costs.Agent = solve(both, tasks, [2]time.Duration{few.agent, many.agent})
		costs.Executor = solve(toExecutors, tasks, [2]time.Duration{few.executor, many.executor})
		all := solve(toController, tasks, [2]time.Duration{few.controller, many.controller})
		costs.Controller = solve([2]int{meters[0].Messages, meters[1].Messages}, tasks, [2]time.Duration{meters[0].Time, meters[1].Time})
		costs.Beside = model.Cost{Message: max(0, all.Message-costs.Controller.Message), Task: max(0, all.Task-costs.Controller.Task)}
	}
	return costs, nil
}

// solve finds the cost of a message and of a task from two runs. Neither is less
// than nothing: where that comes out, the other one bears all.
func solve(messages, tasks [2]int, used [2]time.Duration) model.Cost {
	m, t, u := floats(messages), floats(tasks), [2]float64{used[0].Seconds(), used[1].Seconds()}
	det := m[0]*t[1] - m[1]*t[0]
	message, task := (u[0]*t[1]-u[1]*t[0])/det, (m[0]*u[1]-m[1]*u[0])/det
	switch {
	case det == 0 || message < 0:
		message, task = 0, u[0]/t[0]
	case task < 0:
		message, task = u[1]/m[1], 0
	}
	return model.Cost{Message: time.Duration(message * float64(time.Second)), Task: time.Duration(task * float64(time.Second))}
}

func floats(n [2]int) [2]float64 { return [2]float64{float64(n[0]), float64(n[1])} }
