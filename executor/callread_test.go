package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm/ledger"
)

// TestReadResult reads a large result in shared memory, which stays while the future is
// garbage, until it is released.
func TestReadResult(t *testing.T) {
	read, released := make(chan struct{}), make(chan struct{})
	s, store := startCallerWithStore(t, func(ctx context.Context, s *callScript) error {
		f := s.goes(ctx, "ramp", big).Output(0)
		v, err := f.Get(ctx)
		if err != nil {
			return err
		}
		again, err := f.Get(ctx) // without asking again
		if err != nil {
			return err
		}
		x, y := v.([]float64), again.([]float64)
		if len(x) != big || &x[0] != &y[0] {
			return fmt.Errorf("%d numbers, or not the same", len(x))
		}
		if _, ok := s.exec.current.inputAt(uintptr(unsafe.Pointer(&x[0]))); !ok {
			return errors.New("the result of a call is not known by its address")
		}
		c := f.call
		runtime.GC()
		runtime.GC()
		if x[big-1] != big-1 {
			return errors.New("the numbers have changed")
		}
		close(read)
		<-released
		Release(&c.first)
		Release(&c.first)
		_, err = c.Output(0).Get(ctx)
		_, err2 := s.goes(ctx, "scaled", &c.first, scale{}).Output(0).Get(ctx)
		return errors.Join(wantError(err, "released"), wantError(err2, "released"), wantValue(ctx, s.doubles(ctx, 1)[0], 0))
	})
	s.items(1)
	s.waits(1)
	d := s.desc(ramp(big), 0, 0)
	far := d
	far.Place = comms.Place{Kind: comms.PlaceAgent, Where: "host"}
	s.ends(comms.CallEnd{Ref: at(0), Outputs: []comms.Desc{far}})
	s.goOn(1)
	if m := next[*comms.CallRead](s); m.Ref != at(0) || m.Output != 0 {
		t.Errorf("%+v", m)
	}
	s.waits(2)
	here := store.put(s.fakeAgent, ledger.File, d)
	s.ends(comms.CallEnd{Ref: at(0), Outputs: []comms.Desc{here}, Read: true})
	s.goOn(2)
	<-read
	close(released)
	s.items(1)
	if m := next[*comms.CallDrop](s); !slices.Equal(m.Refs, []comms.CallRef{at(0)}) || m.Cancel {
		t.Errorf("%+v", m)
	}
	s.waits(3)
	s.ends(s.returns(at(1), 0))
	s.goOn(3)
	s.finish()
}

// TestReadFails is told that a result cannot be had, asks again, and gets it.
func TestReadFails(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		c := s.goes(ctx, "quarters", 7)
		_, err := c.Output(1).Get(ctx)
		return errors.Join(wantError(err, "no room"), wantValue(ctx, c.Output(1), 3))
	})
	s.waits(1)
	e := s.returns(at(0), 1, 3)
	e.Outputs[1].Place = comms.Place{Kind: comms.PlaceAgent}
	s.ends(e)
	s.goOn(1)
	next[*comms.CallRead](s)
	s.waits(2)
	none := failure(at(0), "no room")
	none.Read, none.Outputs = true, []comms.Desc{{Ref: comms.DatasetRef{Output: 1}}}
	s.ends(none)
	s.goOn(2)
	next[*comms.CallRead](s)
	s.waits(3)
	ok := comms.CallEnd{Ref: at(0), Read: true, Outputs: []comms.Desc{s.desc(3, 1, 0)}}
	s.ends(ok, ok)
	s.goOn(3)
	s.finish()
}

// TestReleaseEndsReads releases a future whose value a goroutine waits for: the agent does
// not answer what was dropped.
func TestReleaseEndsReads(t *testing.T) {
	asked := make(chan struct{})
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		f, got := s.goes(ctx, "double", 1).Output(0), make(chan error)
		go func() {
			_, err := f.Get(ctx)
			got <- err
		}()
		<-asked
		Release(f)
		return wantError(<-got, "released")
	})
	s.waits(1)
	s.ends(comms.CallEnd{Ref: at(0), Outputs: []comms.Desc{{Place: comms.Place{Kind: comms.PlaceAgent}}}})
	s.goOn(1)
	s.waits(2)
	close(asked)
	s.finish()
}

// TestReadsAtOnce asks for all large results before it waits for the first.
func TestReadsAtOnce(t *testing.T) {
	const n = 3
	s, store := startCallerWithStore(t, func(ctx context.Context, s *callScript) error {
		fs := make([]*Future, n)
		for i := range fs {
			fs[i] = s.goes(ctx, "ramp", big).Output(0)
		}
		got, err := GetAll(ctx, fs)
		for i := range got {
			if v := got[i].([]float64); v[big-1] != big-1 {
				return fmt.Errorf("result %d ends in %v", i, v[big-1])
			}
		}
		return err
	})
	s.waits(1)
	d := s.desc(ramp(big), 0, 0)
	for i := range uint64(n) {
		far := d
		far.Place = comms.Place{Kind: comms.PlaceAgent}
		s.ends(comms.CallEnd{Ref: at(i), Outputs: []comms.Desc{far}})
	}
	s.goOn(1)
	var ends []comms.CallEnd
	for range n {
		m := next[*comms.CallRead](s)
		ends = append(ends, comms.CallEnd{Ref: m.Ref, Read: true, Outputs: []comms.Desc{store.put(s.fakeAgent, ledger.File, d)}})
	}
	s.waits(2)
	s.ends(ends...)
	s.goOn(2)
	s.finish()
}

// A read that its context ends leaves nothing in the function's hands: the call is dropped with its future.
func TestReadsThatFailHoldNothing(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, _ := startCallerWithStore(t, func(ctx context.Context, s *callScript) error {
		f := s.goes(ctx, "ramp", big).Output(0)
		if _, err := Wait(ctx, []*Future{f}, 1); err != nil {
			return err
		}
		if _, err := f.Get(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Get by a context that ends: %v", err)
		}
		c := s.exec.current.called()
		c.mu.Lock()
		defer c.mu.Unlock()
		if f.call.state.pinned {
			t.Error("the call is held for a value that the function was not given")
		}
		return nil
	})
	s.items(1)
	s.waits(1)
	far := s.desc(ramp(big), 0, 0)
	far.Place = comms.Place{Kind: comms.PlaceAgent, Where: "host"}
	s.ends(comms.CallEnd{Ref: at(0), Outputs: []comms.Desc{far}})
	s.goOn(1)
	next[*comms.CallRead](s)
	cancel()
	s.waits(2)
	s.goOn(2)
	<-s.over
}
