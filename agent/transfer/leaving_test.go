package transfer

import (
	"testing"
	"time"
)

// Who withdraws a copy a second time hears that nobody uses its bytes when that is so, and not before.
func TestWithdrawTwice(t *testing.T) {
	x := exchange(t, config(t, "a"))
	c := copyNo(1)
	if err := x.Offer(c, noise(100)); err != nil {
		t.Fatal(err)
	}
	x.mu.Lock()
	m := x.copies[c]
	m.refs++ // a body that the kernel has not taken
	x.mu.Unlock()
	first, second := make(chan struct{}), make(chan struct{})
	x.Withdraw(c, func() { close(first) })
	x.Withdraw(c, func() { close(second) })
	select {
	case <-first:
		t.Error("the first heard too early")
	case <-second:
		t.Error("the second heard too early")
	case <-time.After(100 * time.Millisecond):
	}
	x.release(m)
	wait(t, first)
	wait(t, second)
	if n := len(x.leaving); n > 0 {
		t.Errorf("%d copies are leaving", n)
	}
}
