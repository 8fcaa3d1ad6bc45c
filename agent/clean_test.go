//go:build linux

package agent

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/cascade-run/cascade/internal/statedir"
)

// What an agent has written while it holds its folder stays there, however often
// the folder is cleaned meanwhile.
func TestCleanTakesNothingFromTheLiving(t *testing.T) {
	dir := t.TempDir() + "/state"
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			_, err := Clean(dir, false, true)
			var served *statedir.ServedError
			if err != nil && !errors.As(err, &served) && !errors.Is(err, fs.ErrNotExist) {
				done <- err
				return
			}
		}
	}()
	starts := 0
	for i := 0; i < 3000; i++ {
		s, _, err := openState(dir)
		if err != nil {
			continue // being cleaned
		}
		starts++
		for range 10 {
			if _, err := os.Stat(s.file()); err != nil {
				t.Errorf("start %d: %v", i, err)
			}
		}
		s.close()
		if t.Failed() {
			break
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if starts == 0 {
		t.Error("none started")
	}
}
