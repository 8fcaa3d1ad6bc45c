package perf

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// Functions that programs call, once Register has made them known.
var (
	callNoop cascade.Function0x1[int64]
	callFan  cascade.Function1x1[int64, int64]
	callHold cascade.Generator0[int64]
	callSize cascade.Function1x1[[]byte, int64]
)

// fan calls n functions and waits for all.
func fan(ctx context.Context, n int64) (int64, error) {
	all, err := cascade.GetAll(ctx, noops(ctx, int(n)))
	return int64(len(all)), err
}

// hold keeps a core until it is cancelled. Its element says that it has it.
func hold(ctx context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		if yield(1, nil) {
			<-ctx.Done()
			yield(0, context.Cause(ctx))
		}
	}
}

func sizeOf(_ context.Context, b []byte) (int64, error) { return int64(len(b)), nil }

// noops makes n calls.
func noops(ctx context.Context, n int) []cascade.Future[int64] {
	all := make([]cascade.Future[int64], n)
	for i := range all {
		all[i] = callNoop.Go(ctx)
	}
	return all
}

// A program does the following.

// latency is what each of n calls takes, one after another, in microseconds.
func (p *caller) latency(ctx context.Context, n int) ([]float64, error) {
	took := make([]float64, 0, n)
	for i := range n + n/10 {
		began := time.Now()
		if _, err := callNoop.Go(ctx).Get(ctx); err != nil {
			return nil, err
		}
		if i >= n/10 { // warm
			took = append(took, microseconds(time.Since(began)))
		}
	}
	return took, nil
}

func (p *caller) burst(ctx context.Context, n int) error {
	_, err := cascade.GetAll(ctx, noops(ctx, n))
	return err
}

func (p *caller) nested(ctx context.Context, tasks, calls int) error {
	all := make([]cascade.Future[int64], tasks)
	for i := range all {
		all[i] = callFan.Go(ctx, cascade.Val(int64(calls)))
	}
	got, err := cascade.GetAll(ctx, all)
	if err == nil && slices.ContainsFunc(got, func(n int64) bool { return n != int64(calls) }) {
		err = fmt.Errorf("the tasks called %v functions, want %d each", got, calls)
	}
	return err
}

func (p *caller) completed(ctx context.Context, n int) error {
	all := noops(ctx, n)
	seen := 0
	for i, err := range cascade.Completed(ctx, all) {
		if err == nil {
			_, err = all[i].Get(ctx)
		}
		if err != nil {
			return err
		}
		seen++
	}
	if seen != n {
		return fmt.Errorf("%d of %d calls were told to have ended", seen, n)
	}
	return nil
}

// oneByOne waits for the next of those that are left, again and again.
func (p *caller) oneByOne(ctx context.Context, n int) error {
	rest := noops(ctx, n)
	for len(rest) > 0 {
		ready, err := cascade.Wait(ctx, rest, 1)
		if err == nil {
			_, err = rest[ready[0]].Get(ctx)
		}
		if err != nil {
			return err
		}
		rest = slices.Delete(rest, ready[0], ready[0]+1)
	}
	return nil
}

// put keeps n values. A call that reads the last one proves that the agent has all.
func (p *caller) put(ctx context.Context, n int) (err error) {
	b := make([]byte, 1<<10)
	all := make([]cascade.Future[[]byte], n)
	for i := range all {
		if all[i], err = cascade.Put(ctx, b); err != nil {
			return err
		}
	}
	size, err := callSize.Go(ctx, all[n-1]).Get(ctx)
	if err == nil && size != int64(len(b)) {
		err = errWrongBytes
	}
	runtime.KeepAlive(all)
	return err
}

// hold keeps n cores but half of one.
func (p *caller) hold(ctx context.Context, n int) error {
	for i := range n {
		cores := 1.0
		if i == 0 {
			cores = 0.5
		}
		for f, err := range callHold.Go(ctx, cascade.CPU(cores)).Elements(ctx) {
			if err != nil {
				return err
			}
			p.holders = append(p.holders, f)
			break
		}
	}
	return nil
}

// outstanding makes n calls, for which there is no core, and returns when the agent has them.
func (p *caller) outstanding(ctx context.Context, n int) error {
	p.held = noops(ctx, n)
	_, err := callNoop.Go(ctx, cascade.CPU(0.25), cascade.Priority(1)).Get(ctx) // the agent hears of it last
	return err
}

// release lets what is outstanding run.
func (p *caller) release(ctx context.Context) error {
	cascade.Cancel("measured", p.holders...)
	_, err := cascade.GetAll(ctx, p.held)
	p.held, p.holders = nil, nil
	return err
}

// settledRSS is the memory of this process when what is free was returned.
func settledRSS() (uint64, error) {
	debug.FreeOSMemory()
	return controlRSS()
}

// The bench measures the following.

// callLatency is one call after another.
func callLatency(ctx context.Context, b *bench) error {
	return b.withProgram(ctx, func(p *program) error {
		n := b.size(20_000, 50)
		before, err := p.do(question{What: "relay", N: n})
		if err != nil {
			return err
		}
		took, err := p.do(question{What: "latency", N: n})
		if err != nil {
			return err
		}
		after, err := p.do(question{What: "relay", N: n})
		if err != nil {
			return err
		}
		return b.tell(Figure{Name: "call_latency_p50", Value: quantile(took, 0.5), Unit: "us", Baseline: (before[0] + after[0]) / 2, BaselineOf: relayName,
			Note: fmt.Sprintf("%d calls and their Get, one after another; p99 %.0f us", n, quantile(took, 0.99))})
	})
}

// rate is how often a second a program's calls end, and what all processes use for one.
func (b *bench) rate(p *program, q question, calls int, name, what string) error {
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	if _, err := p.do(q); err != nil { // it warms up
		return err
	}
	before := familyCPU()
	var took []float64
	for range 3 {
		t, err := p.do(q)
		if err != nil {
			return err
		}
		took = append(took, t[0]/1e9)
	}
	cpu := familyCPU().since(before) / float64(len(took)*calls)
	note := fmt.Sprintf("%d calls, %s; median of 3; processor time is that of agent, controller, executors and program", calls, what)
	return errors.Join(
		b.tell(Figure{Name: name, Value: float64(calls) / median(took), Unit: "calls/s", Baseline: 1 / rtt.Seconds(), BaselineOf: rttName + ", one after another", Note: note}),
		b.tell(Figure{Name: name + "_cpu", Value: cpu, Unit: "us", Baseline: microseconds(rtt), BaselineOf: rttName, Note: note}))
}

// callsAsync is calls in a burst.
func callsAsync(ctx context.Context, b *bench) error {
	return b.withProgram(ctx, func(p *program) error {
		n := b.size(50_000, 5000) // times of processes are told in hundredths of a second
		return b.rate(p, question{What: "burst", N: n}, n, "calls_async", "made in a burst by a program and collected by GetAll")
	})
}

// callsNested is calls that tasks make.
func callsNested(ctx context.Context, b *bench) error {
	return b.withProgram(ctx, func(p *program) error {
		tasks, each := b.size(64, 8), b.size(500, 500)
		return b.rate(p, question{What: "nested", N: tasks, M: each}, tasks*each, "calls_nested", fmt.Sprintf("made by %d tasks, %d each", tasks, each))
	})
}

// callWaits is waiting for one call after another, of many.
func callWaits(ctx context.Context, b *bench) error {
	return b.withProgram(ctx, func(p *program) error {
		few, many := b.size(1000, 50), b.size(100_000, 500)
		us := func(what string, n int) (float64, error) {
			var took []float64
			for range max(3, 5*few/n) + 1 {
				t, err := p.do(question{What: what, N: n})
				if err != nil {
					return 0, err
				}
				took = append(took, t[0]/1e3/float64(n))
			}
			return median(took[1:]), nil // the first warms up
		}
		var all, each, wait, large float64
		for _, m := range []struct {
			us   *float64
			what string
			n    int
		}{{&all, "burst", few}, {&each, "completed", few}, {&wait, "wait", few}, {&large, "completed", many}} {
			var err error
			if *m.us, err = us(m.what, m.n); err != nil {
				return err
			}
		}
		return errors.Join(
			b.tell(Figure{Name: "wait_1k", Value: each, Unit: "us", Baseline: all, BaselineOf: "the same calls, collected by GetAll",
				Note: fmt.Sprintf("for each of %d calls, made and then collected one at a time by Completed; by Wait for one of the rest, again and again, %.2f us", few, wait)}),
			b.tell(Figure{Name: "wait_100k", Value: large, Unit: "us", Baseline: each, BaselineOf: fmt.Sprintf("the same for %d calls", few),
				Note: fmt.Sprintf("for each of %d calls, by Completed", many)}))
	})
}

// putValues is how many values a program puts a second.
func putValues(ctx context.Context, b *bench) error {
	return b.withProgram(ctx, func(p *program) error { return b.puts(p, "put_1KiB", b.size(100_000, 500), "by a program") })
}

// puts is how many of n values a program puts a second.
func (b *bench) puts(p *program, name string, n int, by string) error {
	rtt, err := socketRTT()
	if err != nil {
		return err
	}
	var took []float64
	for range 4 {
		t, err := p.do(question{What: "put", N: n})
		if err != nil {
			return err
		}
		took = append(took, t[0]/1e9)
	}
	return b.tell(Figure{Name: name, Value: float64(n) / median(took[1:]), Unit: "puts/s", Baseline: 1 / rtt.Seconds(), BaselineOf: rttName + ", one after another",
		Note: fmt.Sprintf("%d values %s, until the agent has them; median of 3", n, by)})
}

// callMemory is the memory that calls take which wait for a core.
func callMemory(ctx context.Context, b *bench) error {
	c, err := b.local(ctx)
	if err != nil {
		return err
	}
	rows, err := cascade.Rows[comms.AgentRow](ctx, c.Client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return err
	}
	if len(rows) != 1 {
		return fmt.Errorf("the local cluster has %d agents", len(rows))
	}
	return b.withProgram(ctx, func(p *program) error {
		n := b.size(200_000, 20_000)
		if _, err := p.do(question{What: "hold", N: int(rows[0].CPU)}); err != nil {
			return err
		}
		before, err := bothRSS(p)
		if err != nil {
			return err
		}
		if _, err := p.do(question{What: "outstanding", N: n}); err != nil {
			return err
		}
		with, err := bothRSS(p)
		if err != nil {
			return err
		}
		if _, err := p.do(question{What: "release"}); err != nil {
			return err
		}
		agent, prog := (with[0]-before[0])/float64(n), (with[1]-before[1])/float64(n)
		return b.tell(Figure{Name: "call_memory", Value: agent + prog, Unit: "bytes", Baseline: callBytes(), BaselineOf: "a call as a message",
			Note: fmt.Sprintf("of one of %d calls without inputs that wait for a core; %.0f in the agent, %.0f in the program", n, agent, prog)})
	})
}

// callBytes is the size of a call in a message of many.
func callBytes() float64 {
	m := &comms.Calls{Run: 1, Items: make([]comms.CallItem, 1000)}
	for i := range m.Items {
		m.Items[i] = comms.CallItem{Ref: comms.CallRef{Number: uint64(i)}, Kind: 1}
	}
	return float64(len(comms.Encode(m))) / float64(len(m.Items))
}

// bothRSS is the memory of agent (and controller), and of a program.
func bothRSS(p *program) (both [2]float64, err error) {
	theirs, err := p.do(question{What: "memory"})
	if err != nil {
		return both, err
	}
	ours, err := settledRSS()
	return [2]float64{float64(ours), theirs[0]}, err
}
