package statedir

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
)

// TestTake takes a folder whose lock is held: of a process that lives it is refused,
// of one that has ended it is had when the lock is free.
func TestTake(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what string
		pid  int
		had  bool
	}{{"it lives", os.Getpid(), false}, {"it has ended", dead.Process.Pid, true}, {"no record", 0, false}} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			held, err := Lock(filepath.Join(dir, "lock"))
			if err != nil {
				t.Fatal(err)
			}
			if tt.pid != 0 {
				text, err := json.Marshal(Record{PID: tt.pid, Boot: boot()})
				if err := errors.Join(err, os.WriteFile(filepath.Join(dir, fileName), text, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan error, 1)
			go func() {
				f, _, err := Take(dir, "lock", false)
				if err == nil {
					err = f.Close()
				}
				done <- err
			}()
			synctest.Wait() // it waits, or has been refused
			if err := held.Close(); err != nil {
				t.Fatal(err)
			}
			err = <-done
			if served := (*ServedError)(nil); tt.had && err != nil || !tt.had && !errors.As(err, &served) {
				t.Errorf("%s: %v", tt.what, err)
			}
		})
	}
}
