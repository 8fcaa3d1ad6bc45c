//go:build linux

package chaos

import (
	"testing"
	"time"
)

// The harness itself: a job that nobody disturbs delivers the same twice, every
// task says two lines, and stopping the daemons leaves nothing.
func TestUndisturbed(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	c := h.Client()
	want := h.Submit(c, mix, nil).Done()
	if len(want.Lines) != mixLines || len(want.Data) != 13 {
		t.Errorf("%d lines and %d outputs, want %d and 13", len(want.Lines), len(want.Data), mixLines)
	}
	got := h.Submit(c, mix, nil).Done()
	got.Same(t, want)
	got.Rerun(t, nil)
	for began := time.Now(); len(h.Executors()) != 2; time.Sleep(10 * time.Millisecond) { // the second may be on its way
		if time.Since(began) > patience {
			t.Fatalf("%d executors live, want 2", len(h.Executors()))
		}
	}
}
