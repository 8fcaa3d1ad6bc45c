//go:build linux

package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// misbehaves does what no function should.
func misbehaves(_ context.Context, how string) (int, error) {
	switch how {
	case "panics in a deferred function":
		defer func() { panic("the second") }()
		panic("the first")
	case "panics with nil in a goroutine":
		done := make(chan struct{})
		go func() {
			defer close(done)
			panic(errors.New("of a goroutine"))
		}()
		<-done
		select {}
	case "exits":
		os.Exit(3)
	case "closes its standard files":
		for fd := range 3 {
			if err := syscall.Close(fd); err != nil {
				return 0, err
			}
		}
	case "leaves a daemon":
		c := exec.Command("sleep", "1000")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			return 0, err
		}
	case "closes every descriptor":
		for fd := 3; fd < 64; fd++ {
			_ = syscall.Close(fd)
		}
	}
	return len(how), nil
}

var misbehavesTask = cascade.Func1("misbehaves", misbehaves, "how -> n")

// TestFunctionsThatMisbehave calls functions that end their process, or harm it: the call has an error that says so or
// a value, and the next call is none the worse.
func TestFunctionsThatMisbehave(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	for how, want := range map[string]string{
		"panics in a deferred function": "the second", "panics with nil in a goroutine": "of a goroutine", "exits": "status 3",
		"closes its standard files": "", "leaves a daemon": "", "closes every descriptor": "*",
	} {
		t.Run(how, func(t *testing.T) {
			n, err := misbehavesTask.Go(s.Context(), cascade.Val(how), cascade.Retries(0)).Get(s.Context())
			switch {
			case want == "*":
			case want == "" && (err != nil || n != len(how)):
				t.Errorf("it returned %d, %v", n, err)
			case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("its error does not say %q: %v", want, err)
			}
			if n, err := doubledTask.Go(s.Context(), cascade.Val(4)).Get(s.Context()); err != nil || n != 8 {
				t.Errorf("the next call returned %d, %v", n, err)
			}
		})
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestManySessions has a program with many sessions at once, each of which calls.
func TestManySessions(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	all := make([]*cascade.Session, tier.Rounds(30, 100))
	for i := range all {
		all[i] = open(t, c.Client)
	}
	futures := make([]cascade.Future[int], len(all))
	for i, s := range all {
		futures[i] = doubledTask.Go(s.Context(), cascade.Val(i))
	}
	for i, s := range all {
		if n, err := futures[i].Get(s.Context()); err != nil || n != 2*i {
			t.Errorf("session %d: %d, %v", i, n, err)
		}
	}
	if _, err := doubledTask.Go(all[0].Context(), futures[1]).Get(all[0].Context()); err == nil {
		t.Error("a future of another session was an argument")
	}
	var closing sync.WaitGroup
	for _, s := range all {
		closing.Go(func() {
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	closing.Wait()
}

// apis are the ways to wait for a call, or to make one.
func apis(call context.Context, f cascade.Future[int], stream cascade.Stream[int]) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Get":    func(ctx context.Context) error { _, err := f.Get(ctx); return err },
		"GetAll": func(ctx context.Context) error { _, err := cascade.GetAll(ctx, []cascade.Future[int]{f}); return err },
		"Wait": func(ctx context.Context) error {
			if ready, err := cascade.Wait(ctx, []cascade.Future[int]{f}, 1); err != nil || len(ready) > 0 {
				return errors.Join(err, fmt.Errorf("%d are ready", len(ready)))
			}
			return context.Canceled // it returns those that have ended
		},
		"Completed": func(ctx context.Context) error {
			for _, err := range cascade.Completed(ctx, []cascade.Future[int]{f}) {
				return err
			}
			return nil
		},
		"All": func(ctx context.Context) error {
			for _, err := range stream.All(ctx) {
				return err
			}
			return nil
		},
		"Go and Get": func(ctx context.Context) error { _, err := doubledTask.Go(call, f).Get(ctx); return err },
	}
}

// TestCancelledContexts waits with a context that is cancelled: each way to wait returns its cause, and the call goes on.
func TestCancelledContexts(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	shut := gateTask.Go(s.Context())
	f, stream := doubledTask.Go(s.Context(), cascade.Val(3)), upToTask.Go(s.Context(), cascade.Val(2))
	cause := errors.New("no longer")
	ctx, cancel := context.WithCancelCause(s.Context())
	cancel(cause)
	for name, wait := range apis(s.Context(), f, stream) {
		if err := wait(ctx); !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := c.Session(ctx); err == nil {
		t.Error("a session was opened with a context that is cancelled")
	}
	shut.Cancel("enough")
	if n, err := f.Get(s.Context()); err != nil || n != 6 {
		t.Errorf("the call itself: %d, %v", n, err)
	}
	if err := s.Close(ctx); err != nil && !errors.Is(err, cause) {
		t.Errorf("close: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFuturesOfAClosedSession uses futures when their session is closed: one whose value was read before has it, others say
// that the session is closed.
func TestFuturesOfAClosedSession(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	known := doubledTask.Go(s.Context(), cascade.Val(1))
	if _, err := known.Get(s.Context()); err != nil {
		t.Fatal(err)
	}
	shut := gateTask.Go(s.Context())
	f, stream := doubledTask.Go(s.Context(), cascade.Val(3)), upToTask.Go(s.Context(), cascade.Val(2))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, wait := range apis(s.Context(), f, stream) {
		if err := wait(t.Context()); !errors.Is(err, cascade.ErrSessionClosed) && !(name == "Wait" && err != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := cascade.Put(s.Context(), 4); !errors.Is(err, cascade.ErrSessionClosed) {
		t.Errorf("Put: %v", err)
	}
	if n, err := known.Get(t.Context()); err != nil && !errors.Is(err, cascade.ErrSessionClosed) || err == nil && n != 2 {
		t.Errorf("a value that was read before: %d, %v", n, err)
	}
	f.Cancel("nothing is there")
	cascade.Release(f)
	shut.Cancel("nothing is there")
	if f.Done() {
		t.Error("a call that never ended is done")
	}
}

// TestOneFutureOfManyGoroutines reads one future in many goroutines, large and small.
func TestOneFutureOfManyGoroutines(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	small, big := doubledTask.Go(s.Context(), cascade.Val(3)), rampUpTask.Go(s.Context(), cascade.Val(fibOf{large}))
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if n, err := small.Get(s.Context()); err != nil || n != 6 {
				t.Errorf("small: %d, %v", n, err)
			}
			if a, err := big.Get(s.Context()); err != nil || a.Data[large-1] != large-1 {
				t.Errorf("large: %v", err)
			}
		})
	}
	all.Wait()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLargeArgument passes an argument that fits into the store, and one that never will.
func TestLargeArgument(t *testing.T) {
	size := tier.Rounds(64<<20, 1<<30)
	c := cascadetest.Start(t, cascade.WithCPU(1), cascade.WithStore(int64(size)+size64MiB))
	s := open(t, c.Client)
	a := cascade.Array[byte]{Shape: []int{size}, Data: make([]byte, size)}
	a.Data[size-1] = 9
	if n, err := lastOfTask.Go(s.Context(), cascade.Val(a)).Get(s.Context()); err != nil || n != 9 {
		t.Errorf("the last byte of an argument of %d bytes is %d, %v", size, n, err)
	}
	much := cascade.Array[byte]{Shape: []int{2*size + size64MiB}, Data: make([]byte, 2*size+size64MiB)}
	if _, err := lastOfTask.Go(s.Context(), cascade.Val(much)).Get(s.Context()); err == nil || !strings.Contains(err.Error(), "memory") && !strings.Contains(err.Error(), "store") {
		t.Errorf("an argument that is larger than the store: %v", err)
	}
	if n, err := doubledTask.Go(s.Context(), cascade.Val(4)).Get(s.Context()); err != nil || n != 8 {
		t.Errorf("the next call returned %d, %v", n, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

const size64MiB = 64 << 20

func lastOf(_ context.Context, a cascade.Array[byte]) (int, error) {
	return int(a.Data[len(a.Data)-1]), nil
}

var lastOfTask = cascade.Func1("misuseLast", lastOf, "bytes -> n")
