package diskspace

import (
	"errors"
	"math"
	"testing"
)

func TestFloors(t *testing.T) {
	for _, commit := range []uint64{0, 1, 16 << 20, DefaultCommit, 1 << 40} {
		f := Above(commit)
		if f.Commit != commit || f.Keep < f.Commit || f.Grow < f.Keep || f.Spill < f.Grow {
			t.Errorf("floors above %d: %+v", commit, f)
		}
		if commit >= 4 && (f.Keep == f.Commit || f.Grow == f.Keep || f.Spill == f.Grow) {
			t.Errorf("no room between the floors above %d: %+v", commit, f)
		}
	}
}

func TestLeaves(t *testing.T) {
	for _, c := range []struct {
		free, bytes, floor uint64
		ok                 bool
	}{
		{100, 0, 100, true},
		{99, 0, 100, false},
		{150, 50, 100, true},
		{150, 51, 100, false},
		{150, math.MaxUint64, 100, false},
		{150, 150, 0, true},
	} {
		if err := Leaves("/dir", c.free, c.bytes, c.floor); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrLow) {
			t.Errorf("%d of %d above %d: %v", c.bytes, c.free, c.floor, err)
		}
	}
}
