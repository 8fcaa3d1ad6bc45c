package controller

import (
	"os"
	"testing"
	"time"
)

// The clock goes back and forth between starts: numbers grow all the same.
func TestIncarnationsGrow(t *testing.T) {
	dir := t.TempDir()
	last := uint64(0)
	for _, at := range []int64{1_000, 2_000, 500, 500, -7 + 1_000, 1 << 60, 3} {
		n, err := nextIncarnation(dir, time.Unix(0, at))
		if err != nil {
			t.Fatal(err)
		}
		if n <= last {
			t.Errorf("at %d: %d after %d", at, n, last)
		}
		last = n
		if err := keepIncarnation(dir, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(incarnationFile(dir), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := nextIncarnation(dir, time.Unix(1, 0)); err == nil {
		t.Errorf("a broken file gives %d", n)
	}
}
