package flock_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/internal/flock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTry(t *testing.T) {
	for name, c := range map[string]struct {
		have, want flock.Mode
		held       bool
	}{
		"both share":   {flock.Shared, flock.Shared, false},
		"one shares":   {flock.Exclusive, flock.Shared, true},
		"other shares": {flock.Shared, flock.Exclusive, true},
		"none shares":  {flock.Exclusive, flock.Exclusive, true},
	} {
		path := filepath.Join(t.TempDir(), "lock")
		have := try(t, path, c.have)
		got, err := flock.Try(path, c.want)
		if errors.Is(err, flock.ErrHeld) != c.held || (got == nil) != c.held {
			t.Errorf("%s: %v", name, err)
		}
		closed(t, have)
		if c.held {
			got = try(t, path, c.want)
		}
		closed(t, got)
	}
}

func TestFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "other"), filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if f, err := flock.Try(filepath.Join(dir, "lock"), flock.Shared); err == nil || f != nil {
		t.Errorf("a link was followed: %v", err)
	}
}

func TestWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	have := try(t, path, flock.Exclusive)

	over, cancel := context.WithCancelCause(context.Background())
	why := errors.New("given up")
	cancel(why)
	if f, err := flock.Wait(over, path, flock.Shared); !errors.Is(err, why) || f != nil {
		t.Errorf("after its context had ended: %v", err)
	}

	type result struct {
		f   *os.File
		err error
	}
	done := make(chan result)
	go func() {
		f, err := flock.Wait(context.Background(), path, flock.Exclusive)
		done <- result{f, err}
	}()
	select {
	case r := <-done:
		t.Fatalf("a held lock was had: %v", r.err)
	default:
	}
	closed(t, have)
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	if _, err := flock.Try(path, flock.Shared); !errors.Is(err, flock.ErrHeld) {
		t.Errorf("while one that waited has it: %v", err)
	}
	closed(t, r.f)
}

// TestPrograms starts a program while a lock is held: it holds it, too, if it is given the file, and else not.
func TestPrograms(t *testing.T) {
	for name, given := range map[string]bool{"given": true, "not given": false} {
		path := filepath.Join(t.TempDir(), "lock")
		have := try(t, path, flock.Shared)
		program := exec.Command("cat")
		end, err := program.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if given {
			program.ExtraFiles = []*os.File{have}
		}
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
		closed(t, have)
		got, err := flock.Try(path, flock.Exclusive)
		if errors.Is(err, flock.ErrHeld) != given || (got == nil) != given {
			t.Errorf("%s, while the program runs: %v", name, err)
		}
		if err := errors.Join(end.Close(), program.Wait()); err != nil {
			t.Fatal(err)
		}
		if given {
			got = try(t, path, flock.Exclusive)
		}
		closed(t, got)
	}
}

func try(t *testing.T, path string, mode flock.Mode) *os.File {
	t.Helper()
	f, err := flock.Try(path, mode)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func closed(t *testing.T, f *os.File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
