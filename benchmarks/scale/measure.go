//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/internal/hosts"
	"github.com/cascade-run/cascade/dag"
)

type settings struct{ Micros int64 }

type driveSettings struct {
	Micros        int64 // that each call waits
	Calls, Window int
}

var (
	scaleTask = cascade.Func1("scale_task", task, "with -> out")
	_         = cascade.Func1("scale_drive", drive, "with -> out")
)

// task waits. Its result goes nowhere: the job declares no output.
func task(_ context.Context, s settings) (int64, error) {
	if s.Micros > 0 {
		time.Sleep(time.Duration(s.Micros) * time.Microsecond)
	}
	return 0, nil
}

// drive calls tasks and awaits them in order, with at most so many under way.
func drive(ctx context.Context, s driveSettings) (n int64, err error) {
	under := make([]cascade.Future[int64], 0, s.Calls)
	for i := range s.Calls + s.Window {
		if i >= s.Window && i-s.Window < len(under) {
			if _, err := under[i-s.Window].Get(ctx); err != nil {
				return n, err
			}
			n++
		}
		if i < s.Calls {
			under = append(under, scaleTask.Go(ctx, cascade.Val(settings{s.Micros})))
		}
	}
	return n, nil
}

// work is what each host is given.
type work struct {
	task    time.Duration // that each task waits
	tasks   int           // of a job
	slots   int           // of an agent
	drivers int           // how many tasks call those; 0: they are in the job's graph
}

// way names how the tasks come to their agent.
func way(drivers int) string {
	if drivers > 0 {
		return "bottom-up"
	}
	return "static"
}

// jobFile is the job of the host with that name.
func (w work) jobFile(host string) string {
	run, n, with := "scale_task", w.tasks, ""
	if w.drivers > 0 {
		run, n = "scale_drive", w.drivers
		with = fmt.Sprintf(", calls: %d, window: %d", w.tasks/w.drivers, max(1, 3*w.slots/w.drivers)) // as the model has it
	}
	return fmt.Sprintf("job: scale\ntasks:\n  task: {run: %s, for: {i: \"0..%d\"}, with: {micros: %d%s}, resources: {at_%s: 1}}\n", run, n-1, w.task.Microseconds(), with, host)
}

// measured is what a real run took.
type measured struct {
	work
	hosts                       int
	time                        time.Duration
	controller, agent, executor time.Duration // processor time, of all processes of a kind
}

func (m *measured) rate() float64 { return float64(m.hosts*m.tasks) / m.time.Seconds() }

// measure runs a job on each of n hosts, after one that warms them up; of several
// rounds it returns the one in the middle.
func measure(n int, w work, rounds int) (best measured, err error) {
	c, err := hosts.Open(hosts.Config{Hosts: n, CPU: int64(w.slots) * 1000, Store: 64 << 20})
	if err != nil {
		return best, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	all := make([]measured, 0, rounds)
	for range rounds + 1 {
		m := measured{work: w, hosts: n}
		before, err := usage(c)
		if err != nil {
			return best, err
		}
		if m.time, err = run(c, n, w); err != nil {
			return best, err
		}
		after, err := usage(c)
		if err != nil {
			return best, err
		}
		m.controller, m.agent, m.executor = after[0]-before[0], after[1]-before[1], after[2]-before[2]
		all = append(all, m)
	}
	return middle(all[1:]), nil
}

// run submits a job for each host at once and waits for all.
func run(c *hosts.Cluster, n int, w work) (time.Duration, error) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer stop()
	graphs := make([]*dag.Graph, n)
	for i := range graphs {
		var err error
		if graphs[i], err = dag.ParseYAML("scale.yaml", []byte(w.jobFile(hosts.Name(i))), dag.Override{}, dag.Options{}); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, g := range graphs {
		wg.Go(func() {
			j, err := c.Client.Submit(ctx, g)
			if err == nil {
				_, err = j.Wait(ctx)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return time.Since(began), errors.Join(errs...)
}

// usage is the processor time so far of the controller, of the agents, and of their executors.
func usage(c *hosts.Cluster) (all [3]time.Duration, err error) {
	agents := map[int]bool{}
	for _, a := range c.Agents {
		agents[a.Process.Pid] = true
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all, err
	}
	parents, used := map[int]int{}, map[int]time.Duration{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if parent, d, ok := stat(pid); ok {
				parents[pid], used[pid] = parent, d
			}
		}
	}
	for pid, d := range used {
		switch {
		case pid == c.Controller.Process.Pid:
			all[0] += d
		case agents[pid]:
			all[1] += d
		default:
			for up := parents[pid]; up > 1; up = parents[up] {
				if agents[up] {
					all[2] += d
					break
				}
			}
		}
	}
	return all, nil
}

// stat reads a process's parent and processor time. A process may end at any time.
func stat(pid int) (parent int, used time.Duration, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	// The name, in parentheses, may have anything in it; state, parent and more follow.
	f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(f) < 2 {
		return 0, 0, false
	}
	const clockOfProcess = 2 // CPUCLOCK_SCHED: counts nanoseconds, where the text above has hundredths of a second
	var spent unix.Timespec
	err1 := unix.ClockGettime(int32(^pid<<3|clockOfProcess), &spent)
	parent, err2 := strconv.Atoi(f[1])
	return parent, time.Duration(spent.Nano()), errors.Join(err1, err2) == nil
}
