//go:build linux

package cascade_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
)

// purse is an actor whose state can be saved.
type purse struct{ n int64 }

var (
	purses   = cascade.Actor1("Purse", newPurse, "start")
	purseAdd = cascade.Method1(purses, "Add", (*purse).add, "by -> n")
	purseDo  = cascade.Method1(purses, "Do", (*purse).do, "what -> said")
)

func newPurse(_ context.Context, start int64) (*purse, error) { return &purse{start}, nil }

func (p *purse) add(_ context.Context, by int64) (int64, error) {
	p.n += by
	return p.n, nil
}

// do dies the first time that it is told to by this file.
func (p *purse) do(ctx context.Context, what string) (string, error) {
	switch verb, path, _ := strings.Cut(what, " "); verb {
	case "die":
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			return "", errors.Join(f.Close(), syscall.Kill(os.Getpid(), syscall.SIGKILL))
		}
		return "survived", nil
	case "wait": // for a writer of the pipe, then it dies as above
		if f, err := os.Open(path); err != nil || f.Close() != nil {
			return "", err
		}
		return p.do(ctx, "die "+path+".died")
	case "always":
		return "", syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "call":
		_, err := fibTask.Go(ctx, cascade.Val(fibOf{1})).Get(ctx)
		return "", err
	case "graph":
		g := cascade.NewGraph("called")
		g.Output(fibTask.Add(g, "fib", cascade.With(fibOf{1})), "")
		return "", g.Go(ctx).Wait(ctx)
	case "pid":
		return strconv.Itoa(os.Getpid()), nil
	case "set":
		n, err := strconv.ParseInt(path, 10, 64)
		p.n = n
		return "", err
	}
	return "", fmt.Errorf("cannot %s", what)
}

// unsaved and unrestored are states with which a purse cannot be saved, or restored.
const unsaved, unrestored, unsure = -1, -2, -100

// MarshalBinary implements encoding.BinaryMarshaler.
func (p *purse) MarshalBinary() ([]byte, error) {
	if p.n == unsure {
		panic("the purse is lost")
	}
	if p.n == unsaved {
		return nil, errors.New("the purse is torn")
	}
	return binary.BigEndian.AppendUint64(nil, uint64(p.n)), nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (p *purse) UnmarshalBinary(b []byte) error {
	p.n = int64(binary.BigEndian.Uint64(b))
	if p.n == unrestored {
		return errors.New("the purse is stolen")
	}
	return nil
}

// TestActorRestarts has the process of an actor die between calls that were answered and calls that follow.
func TestActorRestarts(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client)
	ctx := s.Context()
	add := func(a cascade.Actor[purse], by int64) string {
		n, err := purseAdd.Go(ctx, a, cascade.Val(by)).Get(ctx)
		if err != nil {
			return err.Error()
		}
		return strconv.FormatInt(n, 10)
	}
	do := func(a cascade.Actor[purse], what string) string {
		said, err := purseDo.Go(ctx, a, cascade.Val(what)).Get(ctx)
		switch {
		case errors.Is(err, cascade.ErrActorRestarted):
			return "restarted"
		case err != nil:
			return err.Error()
		}
		return said
	}
	with := func(opts ...cascade.ActorOption) []cascade.ActorOption { return append(opts, cascade.OwnProcess()) }
	for _, row := range []struct {
		name  string
		opts  []cascade.ActorOption
		first string // before ten calls that add 1 to 100
		die   string // the call that kills the process
		dies  string // what becomes of it
		then  string // what a call that adds 0 says
		again string // the same behind a second death
	}{
		{"no restart", with(), "", "die", "its process", "the actor has ended", "the actor has ended"},
		{"at most once", with(cascade.Restarts(2)), "", "die", "restarted", "100", "100"},
		{"at most once, saved", with(cascade.Restarts(2), cascade.SaveEvery(4)), "", "die", "restarted", "108", "108"},
		{"at least once", with(cascade.AtLeastOnce()), "", "die", "survived", "100", "100"},
		{"at least once, saved", with(cascade.AtLeastOnce(), cascade.SaveEvery(4)), "", "die", "survived", "108", "108"},
		{"exactly once", with(cascade.ExactlyOnce()), "", "die", "survived", "110", "110"},
		{"exactly once, saved", with(cascade.ExactlyOnce(), cascade.SaveEvery(4)), "", "die", "survived", "110", "110"},
		{"exactly once, in a shared process", []cascade.ActorOption{cascade.ExactlyOnce()}, "", "die", "survived", "110", "110"},
		{"saved by each call", with(cascade.ExactlyOnce(), cascade.SaveEvery(1)), "", "die", "survived", "110", "110"},
		{"a poison", with(cascade.ExactlyOnce()), "", "always", "restarted 3 times, which is all that it may be", "the actor has ended", "the actor has ended"},
		{"a call", with(cascade.ExactlyOnce()), "", "call", "ExactlyOnce makes no calls", "110", "110"},
		{"a graph", with(cascade.ExactlyOnce()), "", "graph", "ExactlyOnce makes no calls", "110", "110"},
		{"not to be saved", with(cascade.ExactlyOnce(), cascade.SaveEvery(1)), "set -1", "die", "the purse is torn", "the actor has ended", "the actor has ended"},
		{"a save that panics", with(cascade.ExactlyOnce(), cascade.SaveEvery(1)), "set -100", "die", "MarshalBinary panicked: the purse is lost", "the actor has ended", "the actor has ended"},
		{"not to be restored", with(cascade.ExactlyOnce(), cascade.SaveEvery(1)), "set -12", "die", "restore its state: the purse is stolen", "restore its state", "restore its state"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a, dir := purses.Spawn(ctx, cascade.Val(int64(100)), row.opts...), t.TempDir()
			if row.first != "" {
				do(a, row.first)
			}
			for range 10 {
				add(a, 1)
			}
			for i, want := range []string{row.then, row.again} {
				dies := do(a, fmt.Sprintf("%s %s/%d", row.die, dir, i))
				if got := add(a, 0); i == 0 && !strings.Contains(dies, row.dies) || !strings.Contains(got, want) {
					t.Errorf("death %d: the call says %q, want %q, and the next %q, want %q", i+1, dies, row.dies, got, want)
				}
			}
		})
	}
	for _, row := range []struct {
		opts []cascade.ActorOption
		want string
	}{
		{[]cascade.ActorOption{cascade.Restarts(0)}, "Restarts(0): want 1 or more"},
		{[]cascade.ActorOption{cascade.SaveEvery(3)}, "add Restarts, AtLeastOnce or ExactlyOnce"},
		{[]cascade.ActorOption{cascade.ExactlyOnce()}, "*cascade_test.tally has no methods MarshalBinary"},
	} {
		if _, err := tallyAdd.Go(ctx, tallies.Spawn(ctx, cascade.Val(0), row.opts...), cascade.Val(1)).Get(ctx); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("a call says %v, want %s", err, row.want)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRestartedActorEndsWithItsHandle has an actor restarted whose handle is gone: its calls end well, and the only core
// is free for the next.
func TestRestartedActorEndsWithItsHandle(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(1))
	s := open(t, c.Client)
	ctx := s.Context()
	var died cascade.Future[string]
	var added cascade.Future[int64]
	func() {
		a := purses.Spawn(ctx, cascade.Val(int64(1)), cascade.CPU(1), cascade.ExactlyOnce())
		died = purseDo.Go(ctx, a, cascade.Val("die "+filepath.Join(t.TempDir(), "died")))
		added = purseAdd.Go(ctx, a, cascade.Val(int64(1)))
	}()
	for !added.Done() && ctx.Err() == nil {
		runtime.GC()
	}
	if said, err := died.Get(ctx); err != nil || said != "survived" {
		t.Errorf("the call that killed it says %q, %v", said, err)
	}
	if n, err := added.Get(ctx); err != nil || n != 2 {
		t.Errorf("the call behind says %d, %v", n, err)
	}
	next := tallies.Spawn(ctx, cascade.Val(0), cascade.CPU(1))
	if n, err := tallyAdd.Go(ctx, next, cascade.Val(1)).Get(ctx); err != nil || n != 1 {
		t.Errorf("the next actor says %d, %v", n, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRestartKeepsWhatEnded cancels a call and kills an actor around the death of its process: the calls behind the one
// that was cancelled are answered, and an actor that was killed does not come back.
func TestRestartKeepsWhatEnded(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client)
	ctx := s.Context()
	pipe := func() string {
		path := filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	goOn := func(path string) { // to the end of the test: the call that runs again opens the pipe too
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() }) // nothing was written
	}
	for _, row := range []struct {
		name string
		opts []cascade.ActorOption
	}{
		{"at least once", []cascade.ActorOption{cascade.OwnProcess(), cascade.AtLeastOnce()}},
		{"exactly once", []cascade.ActorOption{cascade.OwnProcess(), cascade.ExactlyOnce()}},
	} {
		a, path := purses.Spawn(ctx, cascade.Val(int64(1)), row.opts...), pipe()
		dies := purseDo.Go(ctx, a, cascade.Val("wait "+path))
		between, behind := purseAdd.Go(ctx, a, cascade.Val(int64(1))), purseDo.Go(ctx, a, cascade.Val("die "+path+".died"))
		cascade.Cancel("not needed", between)
		if n, err := between.Get(ctx); err == nil {
			t.Errorf("%s: the call that was cancelled says %d", row.name, n)
		}
		goOn(path)
		for i, f := range []cascade.Future[string]{dies, behind} {
			if said, err := f.Get(ctx); err != nil || said != "survived" {
				t.Errorf("%s: call %d says %q, %v", row.name, i, said, err)
			}
		}
	}
	a := purses.Spawn(ctx, cascade.Val(int64(1)), cascade.OwnProcess(), cascade.AtLeastOnce())
	pid, err := purseDo.Go(ctx, a, cascade.Val("pid")).Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.Kill("not needed")
	if n, err := purseAdd.Go(ctx, a, cascade.Val(int64(1))).Get(ctx); !errors.Is(err, cascade.ErrActorDead) {
		t.Errorf("an actor that was killed says %d, %v", n, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestActorExactlyOnce kills the process of two actors again and again while thousands of calls are open: each call
// has the answer that it would have had.
func TestActorExactlyOnce(t *testing.T) {
	c := cascadetest.Start(t, cascade.WithCPU(2))
	s := open(t, c.Client)
	ctx := s.Context()
	const calls, deaths = 4000, 5
	draw := rand.New(rand.NewPCG(1, 2))
	actors := []cascade.Actor[purse]{
		purses.Spawn(ctx, cascade.Val(int64(0)), cascade.ExactlyOnce(), cascade.Restarts(2*deaths), cascade.SaveEvery(37)),
		purses.Spawn(ctx, cascade.Val(int64(0)), cascade.ExactlyOnce(), cascade.Restarts(2*deaths)),
	}
	type call struct {
		f    cascade.Future[int64]
		want int64
	}
	var made []call
	dir := t.TempDir()
	for i, a := range actors {
		die := map[int]bool{}
		for range deaths {
			die[draw.IntN(calls)] = true
		}
		n := int64(0)
		for k := range calls {
			if die[k] {
				purseDo.Go(ctx, a, cascade.Val("die "+filepath.Join(dir, fmt.Sprintf("%d-%d", i, k))))
			}
			n += int64(k)
			made = append(made, call{purseAdd.Go(ctx, a, cascade.Val(int64(k))), n})
		}
	}
	for i, m := range made {
		if got, err := m.f.Get(ctx); err != nil || got != m.want {
			t.Fatalf("call %d says %d, %v, want %d", i, got, err, m.want)
		}
	}
	died, err := os.ReadDir(dir)
	if err != nil || len(died) < deaths {
		t.Errorf("the process died %d times, %v", len(died), err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
