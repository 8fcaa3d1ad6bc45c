package perf

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade"
)

// noopIndependent is one graph of tasks that do nothing, and the memory that the
// process with controller, agent and client has at most while it runs.
func noopIndependent(ctx context.Context, b *bench) error {
	c, err := b.local(ctx)
	if err != nil {
		return err
	}
	n := b.size(1_000_000, 5000)
	debug.FreeOSMemory()
	before, err := controlRSS()
	if err != nil {
		return err
	}
	loop := loopRate()
	watch, cpu := watchRSS(), cpuTime()
	f, err := b.timed(ctx, c, independent("noop-independent", n))
	peak, rssErr := watch()
	cpu = cpuTime() - cpu
	if err != nil {
		return err
	}
	if rssErr != nil {
		return rssErr
	}
	loop = (loop + loopRate()) / 2
	if err := f.listed(ctx, c); err != nil {
		return err
	}
	debug.FreeOSMemory()
	err = b.tell(Figure{Name: "noop_independent", Value: float64(n) / f.took.Seconds(), Unit: "tasks/s",
		Baseline: loop, BaselineOf: loopName, Note: fmt.Sprintf("%d tasks in %.2fs; %.2f us of cpu a task in this process", n, f.took.Seconds(), cpu/float64(n))})
	if err != nil {
		return err
	}
	return b.tell(Figure{Name: "control_rss_1m", Value: mib(peak), Unit: "MiB", Baseline: mib(before), BaselineOf: "the idle process",
		Note: fmt.Sprintf("%d tasks; RssAnon + RssFile of the process with controller, agent and client, read every 10ms", n)})
}

// inFlight is how many submits of noop_submits are unanswered at most.
const inFlight = 1000

// noopSubmits is jobs of one task, submitted one by one by one client which, like
// the driver in Ray's benchmark, does not wait for one before the next.
func noopSubmits(ctx context.Context, b *bench) error {
	c, err := b.local(ctx)
	if err != nil {
		return err
	}
	n := b.size(200_000, 200)
	g := independent("noop-submits", 1)
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	ids := make([]*cascade.Job, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began, cpu := time.Now(), cpuTime()
	for range min(inFlight, n) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				j, err := c.Submit(ctx, g)
				if err == nil {
					ids[i] = j
					_, err = j.Wait(ctx)
				}
				if err != nil {
					once.Do(func() { failed = err; cancel() })
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	cpu = cpuTime() - cpu
	if failed != nil {
		return failed
	}
	for i := 0; i < n; i += max(n/100, 1) { // a hundred of them stand for all
		if err := (finished{job: ids[i], graph: g}).listed(ctx, c); err != nil {
			return err
		}
	}
	return b.tell(Figure{Name: "noop_submits", Value: float64(n) / took.Seconds(), Unit: "tasks/s",
		Baseline: 1 / rtt.Seconds(), BaselineOf: rttName + ", one after another",
		Note: fmt.Sprintf("%d jobs in %.2fs, %d in flight; %.2f us of cpu a job in this process", n, took.Seconds(), min(inFlight, n), cpu/float64(n))})
}

// noopFused is chains that a plan may fuse.
func noopFused(ctx context.Context, b *bench) error {
	c, err := b.local(ctx)
	if err != nil {
		return err
	}
	width, length := b.size(1000, 20), b.size(1000, 20)
	loop, cpu := loopRate(), cpuTime()
	f, err := b.timed(ctx, c, paths("noop-fused", width, length))
	if err != nil {
		return err
	}
	cpu = cpuTime() - cpu
	loop = (loop + loopRate()) / 2
	if err := f.listed(ctx, c); err != nil {
		return err
	}
	return b.tell(Figure{Name: "noop_fused", Value: float64(width*length) / f.took.Seconds(), Unit: "tasks/s",
		Baseline: loop, BaselineOf: loopName, Note: fmt.Sprintf("%d paths of %d in %.2fs; %.2f us of cpu a task in this process", width, length, f.took.Seconds(), cpu/float64(width*length))})
}
