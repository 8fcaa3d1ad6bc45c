package sim

import (
	"testing"
	"time"
	"unsafe"
)

func TestClock(t *testing.T) {
	if n := unsafe.Sizeof(time.Time{}); n != 24 {
		t.Fatalf("a time takes %d bytes", n)
	}
	before := clock(epoch.Add(time.Hour), 5*time.Second)
	after := clock(epoch.Add(time.Minute+7), 8*time.Second) // set back
	if d := after.Sub(before); d != 3*time.Second || !after.After(before) {
		t.Errorf("%v passed by the monotonic clock", d)
	}
	if d := after.UnixNano() - before.UnixNano(); d != int64(time.Minute+7-time.Hour) {
		t.Errorf("%v passed by the wall clock", time.Duration(d))
	}
	if !before.Round(0).Equal(epoch.Add(time.Hour)) || before.Add(time.Second).Sub(before) != time.Second {
		t.Errorf("it is %v", before)
	}
}
