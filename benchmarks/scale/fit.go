//go:build linux

package main

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/benchmarks/scale/model"
)

// modelOf is the model of a run on hosts that share this machine.
func modelOf(n int, w work, costs model.Costs) model.Config {
	return model.Config{Hosts: n, Cores: runtime.NumCPU(), Slots: w.slots, OneHost: true, Tasks: w.tasks, Task: w.task, Sleep: true, Drivers: w.drivers, Costs: costs}
}

// fit finds what a message and a task cost, from two runs on one host that have few
// messages for many tasks, and many for few. How many messages there are the model
// tells, which depends on what they cost: a few turns settle that.
func fit(few, many measured) (costs model.Costs, err error) {
	guess := model.Cost{Message: 5 * time.Microsecond, Task: 500 * time.Nanosecond}
	costs = model.Costs{Controller: guess, Agent: guess, Executor: guess}
	const turns = 6
	runtime.LockOSThread() // whose clock is read
	defer runtime.UnlockOSThread()
	for range turns {
		meters := [2]model.Meter{{Clock: spent}, {Clock: spent}}
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

// fitCalls finds what a task costs that another task calls, where the messages cost
// what they do in jobs of one graph.
func fitCalls(m measured, costs model.Costs) (model.Costs, error) {
	of := costs
	runtime.LockOSThread() // whose clock is read
	defer runtime.UnlockOSThread()
	for range 3 { // how long tasks take changes how many messages join
		meter := model.Meter{Clock: spent}
		cfg := modelOf(m.hosts, m.work, of)
		cfg.Meter = &meter
		ran, err := model.Run(cfg)
		if err != nil {
			return costs, err
		}
		of.Agent = rest(costs.Agent, ran.Controller+ran.Executors, m.tasks, m.agent)
		of.Executor = rest(costs.Executor, ran.Executors, 2*m.tasks, m.executor) // one to call, one to be called
		of.Controller = rest(costs.Controller, meter.Messages, m.tasks, meter.Time)
		of.Beside = rest(costs.Beside, ran.Controller, m.tasks, m.controller-meter.Time)
	}
	return of, nil
}

// spent is the processor time of this thread: on a busy machine others take theirs
// in the middle of a step.
func spent() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // every Linux has that clock
	}
	return time.Duration(t.Nano())
}

// rest is the cost of a task that explains what messages do not. Where they explain
// more than was used they are cheaper.
func rest(c model.Cost, messages, tasks int, used time.Duration) model.Cost {
	of := c.Message * time.Duration(messages)
	if of > used {
		return model.Cost{Message: max(0, used) / time.Duration(max(1, messages))}
	}
	return model.Cost{Message: c.Message, Task: (used - of) / time.Duration(tasks)}
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
