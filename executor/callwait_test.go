package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// doubles calls double for 0 to n-1.
func (s *callScript) doubles(ctx context.Context, n int) []*Future {
	fs := make([]*Future, n)
	for i := range fs {
		fs[i] = s.goes(ctx, "double", i).Output(0)
	}
	return fs
}

// TestEndsOutOfOrder waits for the second call first.
func TestEndsOutOfOrder(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		fs := s.doubles(ctx, 3)
		return errors.Join(wantValue(ctx, fs[1], 2), wantValue(ctx, fs[2], 4), wantValue(ctx, fs[0], 0))
	})
	s.items(3)
	if w := s.waits(1); !slices.Equal(w.Refs, []comms.CallRef{at(1)}) {
		t.Errorf("%+v", w)
	}
	s.ends(s.returns(at(2), 4), s.returns(at(1), 2))
	s.goOn(1)
	s.waits(2)
	s.ends(s.returns(at(0), 0))
	s.goOn(2)
	s.finish()
}

// TestWait takes those that end first, in the order in which they do, and what has ended
// at a deadline.
func TestWait(t *testing.T) {
	passed := make(chan struct{})
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		fs := s.doubles(ctx, 4)
		fs = append(fs, FailedFuture(errOdd))
		ready, err := Wait(ctx, fs, 3)
		if err != nil || !slices.Equal(ready, []int{4, 3, 1}) {
			return fmt.Errorf("%v, %w", ready, errors.Join(err))
		}
		late, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if ready, err = Wait(late, fs, 5); err != nil || !slices.Equal(ready, []int{4, 3, 1}) {
			return fmt.Errorf("at the deadline %v, %w", ready, errors.Join(err))
		}
		stopped, stop := context.WithCancelCause(ctx)
		stop(errOdd)
		defer stop(nil)
		if ready, err = Wait(stopped, fs, 5); !errors.Is(err, errOdd) || len(ready) != 3 {
			return fmt.Errorf("of a context that ended %v, %w", ready, errors.Join(err))
		}
		close(passed)
		ready, err = Wait(ctx, fs, 9)
		if err != nil || !slices.Equal(ready, []int{4, 3, 1, 0, 2}) {
			return fmt.Errorf("at last %v, %w", ready, errors.Join(err))
		}
		ready, err = Wait(ctx, fs, -1)
		if len(ready) != 0 || err != nil {
			return fmt.Errorf("none: %v, %w", ready, errors.Join(err))
		}
		return nil
	})
	if w := s.waits(1); w.N != 2 || len(w.Refs) != 4 {
		t.Errorf("%+v", w)
	}
	s.ends(s.returns(at(3), 6), failure(at(1), "no"))
	s.goOn(1)
	s.waits(2)
	if w := s.waits(3); w.N != 0 {
		t.Errorf("behind its deadline: %+v", w)
	}
	<-passed
	s.waits(4)
	s.ends(s.returns(at(0), 0), s.returns(at(2), 4))
	s.goOn(4)
	s.finish()
}

// TestCompleted loops over calls as they end.
func TestCompleted(t *testing.T) {
	const n = 200
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		fs := s.doubles(ctx, n)
		fs = append(fs, fs[5], FailedFuture(errOdd))
		var got []int
		for i, err := range Completed(ctx, fs) {
			if err != nil {
				return err
			}
			got = append(got, i)
		}
		want := []int{n + 1}
		for i := n - 1; i >= 0; i-- {
			if want = append(want, i); i == 5 {
				want = append(want, n)
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("they ended in the order %v", got)
		}
		for range Completed(ctx, fs) {
			break
		}
		stopped, stop := context.WithCancelCause(ctx)
		stop(errOdd)
		for _, err := range Completed(stopped, []*Future{s.goes(ctx, "double", 1).Output(0)}) {
			return wantError(err, "odd number")
		}
		return errors.New("no error of a context that ended")
	})
	s.items(n)
	for i := range n {
		s.waits(uint64(i + 1))
		s.ends(s.returns(at(uint64(n-1-i)), 0))
		s.goOn(uint64(i + 1))
	}
	s.finish()
}

// TestGetAllFailsAtOnce meets the first error although other calls go on, and the agent
// has not let the run go on.
func TestGetAllFailsAtOnce(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		_, err := GetAll(ctx, s.doubles(ctx, 20))
		if !errors.Is(err, errOdd) {
			return fmt.Errorf("error %w", errors.Join(err))
		}
		_, err = GetAll(ctx, []*Future{FailedFuture(errOdd)})
		return wantError(err, "odd number")
	})
	s.waits(1)
	s.ends(s.returns(at(3), 6), failure(at(7), "it is odd", "odd"))
	s.finish()
}

// TestManyWait has goroutines wait at once: one wait is outstanding, whoever leaves.
func TestManyWait(t *testing.T) {
	const n = 30
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		fs := s.doubles(ctx, n)
		var all sync.WaitGroup
		errs := make([]error, n)
		for i := range fs {
			all.Go(func() { errs[i] = wantValue(ctx, fs[i], 2*i) })
		}
		all.Wait()
		return errors.Join(errs...)
	})
	items, _ := s.items(n)
	over := make(chan struct{})
	go func() { // the agent answers each wait, with an end or two before it
		defer close(over)
		left, wait := items, uint64(0)
		for len(left) > 0 {
			wait++
			if w := s.waits(wait); w.Seen > uint64(n-len(left)) {
				t.Errorf("it has seen %d of %d", w.Seen, n-len(left))
			}
			k := min(len(left), 1+int(wait%2))
			for _, it := range left[len(left)-k:] {
				s.ends(s.returns(it.Ref, 2*int(it.Ref.Number)))
			}
			left = left[:len(left)-k]
			s.goOn(wait)
		}
	}()
	<-over
	for {
		select {
		case <-s.over:
			s.finish()
			return
		case m := <-s.inbox: // goroutines that were slow to see that they have what they want
			if w, ok := m.(*comms.CallWait); ok {
				s.goOn(w.Wait)
			} else {
				s.held = append(s.held, m)
			}
		}
	}
}

// TestRefusedWait tells those that wait why they may not; they may try again.
func TestRefusedWait(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		f := s.doubles(ctx, 1)[0]
		_, err := f.Get(ctx)
		var late error
		for _, late = range Completed(ctx, []*Future{f}) {
			break
		}
		return errors.Join(wantError(err, "too many wait"), wantError(late, "too many wait"), wantValue(ctx, f, 0))
	})
	for i := range uint64(2) {
		s.waits(i + 1)
		s.tell(&comms.CallGo{Run: s.run, Wait: i + 1, Error: &comms.TaskError{Kind: comms.ErrorTask, Message: "too many wait"}})
	}
	s.waits(3)
	s.ends(s.returns(at(0), 0))
	s.goOn(3)
	s.finish()
}

// TestCancelledWait ends a wait by its context. The agent's answer comes later, and the
// next wait has another number.
func TestCancelledWait(t *testing.T) {
	stopped := make(chan struct{})
	went := make(chan struct{})
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		fs := s.doubles(ctx, 2)
		mine, stop := context.WithCancelCause(ctx)
		go func() {
			<-stopped
			stop(errOdd)
		}()
		_, err := fs[0].Get(mine)
		if !errors.Is(err, errOdd) {
			return fmt.Errorf("error %w", errors.Join(err))
		}
		stopped <- struct{}{}
		<-went
		return wantValue(ctx, fs[1], 2)
	})
	s.waits(1)
	stopped <- struct{}{}
	<-stopped
	s.ends(s.returns(at(0), 0))
	s.goOn(1)
	close(went)
	s.waits(2)
	s.ends(s.returns(at(1), 2))
	s.goOn(2)
	s.finish()
}

// TestEndWhileWaiting ends the function, and the run, while a goroutine waits.
func TestEndWhileWaiting(t *testing.T) {
	late := make(chan error, 1)
	going := make(chan struct{})
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		f := s.doubles(ctx, 1)[0]
		go func() {
			_, err := f.Get(context.WithoutCancel(ctx))
			late <- err
		}()
		<-going
		return nil
	})
	s.waits(1)
	close(going)
	s.finish()
	if err := <-late; !errors.Is(err, errReturned) {
		t.Errorf("the goroutine got %v", err)
	}
	s.ends(s.returns(at(0), 0)) // too late: nobody hears it
	s.goOn(1)
}

// TestStoppedWhileWaiting cancels a run that waits.
func TestStoppedWhileWaiting(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		return wantError(wantValue(ctx, s.doubles(ctx, 1)[0], 0), "a user wants it")
	})
	s.waits(1)
	s.tell(&comms.Cancel{Run: s.run, Why: comms.ErrorCancelled, Text: "a user wants it"})
	<-s.over
	for {
		it := next[*comms.Report](&callScript{t: t, fakeAgent: s.fakeAgent, held: s.held}).Items
		if last := it[len(it)-1]; last.Kind != comms.ReportStarted {
			if last.Kind != comms.ReportFailed || last.Error.Kind != comms.ErrorCancelled {
				t.Errorf("the run ended with %+v", last)
			}
			return
		}
	}
}

// TestCancelCalls has the agent end calls, of which one has ended.
func TestCancelCalls(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		fs := s.doubles(ctx, 2)
		Cancel("enough", fs[0], fs[1], FailedFuture(errOdd), &Future{known: &known{}})
		_, err := fs[0].Get(ctx)
		var task *comms.TaskError
		var known *Error
		if errors.As(err, &known) {
			task = known.TaskError
		}
		if task == nil || task.Kind != comms.ErrorCancelled {
			return fmt.Errorf("error %w", errors.Join(err))
		}
		return nil
	})
	s.items(2)
	if m := next[*comms.CallDrop](s); !m.Cancel || m.Why != "enough" || !slices.Equal(m.Refs, []comms.CallRef{at(0), at(1)}) {
		t.Errorf("%+v", m)
	}
	s.waits(1)
	e := failure(at(0), "cancelled: enough")
	e.Error.Kind = comms.ErrorCancelled
	s.ends(e)
	s.goOn(1)
	s.finish()
}

// TestGarbageIsDropped tells the agent of calls whose futures are gone, and keeps others:
// those that are waited for, and those of which one result is held.
func TestGarbageIsDropped(t *testing.T) {
	dropped := make(chan struct{})
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		fs := s.doubles(ctx, 3)
		rest := s.goes(ctx, "quarters", 7).Output(1)
		keep := fs[2]
		clear(fs)
		for {
			runtime.GC()
			select {
			case <-dropped:
				return errors.Join(wantValue(ctx, keep, 4), wantValue(ctx, rest, 3))
			case <-time.After(time.Millisecond): // until the collector has found them
			}
		}
	})
	s.items(4)
	var refs []comms.CallRef
	for len(refs) < 2 {
		m := next[*comms.CallDrop](s)
		if refs = append(refs, m.Refs...); m.Cancel {
			t.Errorf("%+v", m)
		}
	}
	slices.SortFunc(refs, comms.CallRef.Compare)
	if !slices.Equal(refs, []comms.CallRef{at(0), at(1)}) {
		t.Errorf("it dropped %v", refs)
	}
	s.ends(s.returns(at(0), 0)) // before the agent has heard of it
	close(dropped)
	s.waits(1)
	s.ends(s.returns(at(2), 4), s.returns(at(3), 1, 3))
	s.goOn(1)
	s.finish()
}

// TestStreamOfCall takes elements as they come, passes one on, and meets the error behind them.
func TestStreamOfCall(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		c := s.goes(ctx, "countTo", 3)
		var got []any
		var last error
		for v, err := range c.All(ctx) {
			if got = append(got, v); err != nil {
				last = err
			}
		}
		if fmt.Sprint(got) != "[0 10 20 <nil>]" || !errors.Is(last, errOdd) {
			return fmt.Errorf("%v, %w", got, errors.Join(last))
		}
		for f, err := range c.Elements(ctx) { // again, from the start
			if !f.Done() || err != nil {
				return err
			}
			s.goes(ctx, "double", f)
			break
		}
		n := 0
		for f, err := range c.Elements(ctx) {
			if n++; n == 2 {
				return errors.Join(err, wantValue(ctx, s.goes(ctx, "double", f).Output(0), 20))
			}
		}
		return errors.New("no second element")
	})
	s.waits(1)
	s.ends(s.element(at(0), 0, 0), s.element(at(0), 1, 10))
	s.goOn(1)
	s.waits(2)
	s.ends(s.element(at(0), 2, 20), failure(at(0), "it is odd", "odd"))
	s.goOn(2)
	items, _ := s.items(3)
	for i, it := range items[1:] {
		if in := it.Inputs[0]; in.From != comms.FromCall || in.Ref != at(0) || in.Element != uint64(i) {
			t.Errorf("call %v reads %+v", it.Ref, in)
		}
	}
	s.waits(3)
	s.ends(s.returns(at(2), 20))
	s.goOn(3)
	s.finish()
}

// TestCallsInPlace calls functions without an agent.
func TestCallsInPlace(t *testing.T) {
	ctx, s := t.Context(), &callScript{t: t, reg: callRegistry()}
	two, err := Put(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	c := s.goes(ctx, "quarters", s.goes(ctx, "double", two).Output(0))
	sum := s.goes(ctx, "total", Items{c.Output(0), c.Output(1), 5, two}).Output(0)
	whole := s.goes(ctx, "total", ListOf(1, 2)).Output(0)
	var got []any
	for v, err := range s.goes(ctx, "countTo", 2).All(ctx) {
		got = append(got, v, err)
	}
	for f, err := range s.goes(ctx, "countTo", 0).Elements(ctx) {
		got = append(got, f, err)
	}
	ready, err := Wait(Strand(NotRepeatable(ctx), "x"), []*Future{sum, whole}, 2)
	Release(sum)
	Cancel("x", sum)
	e := errors.Join(err, wantValue(ctx, sum, 8), wantValue(ctx, whole, 3))
	if fmt.Sprint(got) != "[0 <nil> 1 <nil> 0 odd number <nil> odd number]" || len(ready) != 2 || e != nil {
		t.Error(got, ready, e)
	}
}

// BenchmarkCall makes calls and takes their results, a thousand at a time.
func BenchmarkCall(b *testing.B) {
	for _, outstanding := range []int{1, 1000} {
		b.Run(fmt.Sprint(outstanding), func(b *testing.B) { benchmarkCalls(b, outstanding) })
	}
}

func benchmarkCalls(b *testing.B, outstanding int) {
	b.ReportAllocs()
	s := &callScript{t: b, reg: callRegistry(), over: make(chan struct{})}
	agent := &quickAgent{script: s}
	s.fakeAgent = &fakeAgent{t: b, ended: make(chan error, 1)}
	s.exec = New(Config{Conn: agent, Registry: s.reg, Token: "t"})
	agent.exec = s.exec
	go func() { s.ended <- s.exec.Run() }()
	s.exec.Handle(&comms.Welcome{Calls: true, InlineMax: 4096})
	agent.end = s.returns(comms.CallRef{}, 14).Outputs
	var held uint64
	s.start(func(ctx context.Context, s *callScript) error {
		defer b.StopTimer()
		fn, _ := s.reg.Lookup("double")
		var err error
		if held, err = heldByFutures(ctx, fn, agent); err != nil {
			return err
		}
		fs := make([]*Future, 0, outstanding)
		b.ResetTimer()
		for i := range b.N {
			fs = append(fs, fn.Go(ctx, CallOptions{}, 7).Output(0))
			if len(fs) < outstanding && i < b.N-1 {
				continue
			}
			if _, err := GetAll(ctx, fs); err != nil {
				return err
			}
			fs = fs[:0]
		}
		return nil
	})
	<-s.over
	b.ReportMetric(float64(held), "B/future")
	s.exec.Handle(&comms.Stop{Now: true})
	if err := s.wait(); err != nil {
		b.Error(err)
	}
}

// heldByFutures is the memory on the heap of a call that has not ended, with its future.
func heldByFutures(ctx context.Context, fn *Func, agent *quickAgent) (uint64, error) {
	const n = 10_000
	fs := make([]*Future, n)
	agent.ends = make([]comms.CallEnd, 0, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // of what had cleanups
	runtime.ReadMemStats(&before)
	for i := range fs {
		fs[i] = fn.Go(ctx, CallOptions{}, 7).Output(0)
	}
	fs[0].call.state.run.flushCalls()
	runtime.GC()
	runtime.ReadMemStats(&after)
	_, err := GetAll(ctx, fs)
	return (after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)) / n, err
}

// quickAgent ends each call with the same value, when the run waits.
type quickAgent struct {
	script *callScript
	exec   *Executor
	end    []comms.Desc
	ends   []comms.CallEnd
}

func (a *quickAgent) Queue(m comms.Message) error { return a.Send(m) }

func (a *quickAgent) Send(m comms.Message) error {
	switch m := m.(type) {
	case *comms.Calls:
		for i := range m.Items {
			a.ends = append(a.ends, comms.CallEnd{Ref: m.Items[i].Ref, Outputs: a.end})
		}
	case *comms.CallWait:
		a.exec.Handle(&comms.CallEnds{Run: m.Run, Ends: a.ends})
		a.exec.Handle(&comms.CallGo{Run: m.Run, Wait: m.Wait})
		a.ends = nil
	}
	return nil
}
