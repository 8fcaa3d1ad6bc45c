package inbox

import (
	"slices"
	"testing"
	"testing/synctest"
)

func TestOrder(t *testing.T) {
	in := New[int](8)
	in.Offer(1)
	in.Put(2)
	if woken(in) {
		t.Error("Offer and Put woke Run's goroutine")
	}
	in.Push(3)
	if !woken(in) {
		t.Error("Push woke nobody")
	}
	if !in.Waiting() {
		t.Error("nothing waits")
	}
	if got := in.Take(nil); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("took %v", got)
	}
	if in.Waiting() {
		t.Error("what was taken waits")
	}
}

func woken(in *Inbox[int]) bool {
	select {
	case <-in.Woken():
		return true
	default:
		return false
	}
}

// A full inbox holds back who reads links, and nobody else, and wakes Run's goroutine for it.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New[int](2)
		in.Offer(1)
		in.Offer(2)
		offered := false
		go func() { in.Offer(4); offered = true }()
		synctest.Wait()
		if offered || !woken(in) {
			t.Fatal("a full inbox took an offer, or woke nobody")
		}
		in.Put(3)
		if got := in.Take(nil); !slices.Equal(got, []int{1, 2, 3}) {
			t.Errorf("took %v", got)
		}
		synctest.Wait()
		if got := in.Take(nil); !offered || !slices.Equal(got, []int{4}) {
			t.Errorf("then took %v, offered %v", got, offered)
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New[int](1)
		in.Offer(1)
		gone := false
		go func() { in.Offer(2); gone = true }()
		synctest.Wait()
		in.Close()
		synctest.Wait()
		in.Push(3)
		if got := in.Take(nil); !gone || len(got) > 0 {
			t.Errorf("after Close took %v, who waited is gone: %v", got, gone)
		}
	})
}
