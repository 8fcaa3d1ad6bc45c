package core

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// The uses of a host are those of the last ten minutes, in fixed room; what is no use counts as none.
func TestUses(t *testing.T) {
	var u uses
	if u.row() != nil {
		t.Error("a host of which nothing was told has a use")
	}
	began := time.Unix(1_800_000_000, 0)
	tell := func(k int, busy float64) {
		u.add(began.Add(time.Duration(k*comms.UseEvery)*time.Second), &comms.Use{Busy: busy, Cores: 8, Memory: uint64(k), Total: 1000})
	}
	for k := range 2*keptUses + 7 {
		tell(k, 1.5)
	}
	c := &Core{agents: map[string]*agent{"a": {uses: u}, "silent": {}}}
	c.agents["a"].row.Name, c.agents["silent"].row.Name = "a", "silent"
	rows := c.useRows()
	if len(rows) != 1 || rows[0].Agent != "a" || len(rows[0].At) != keptUses || len(rows[0].Busy) != keptUses {
		t.Fatalf("rows %+v", rows)
	}
	want := make([]uint64, keptUses)
	for i := range want {
		want[i] = uint64(keptUses + 7 + i)
	}
	if !slices.Equal(rows[0].Memory, want) || !slices.IsSorted(rows[0].At) || rows[0].Cores != 8 || rows[0].Total != 1000 {
		t.Errorf("row %+v", rows[0])
	}
	for _, busy := range []float64{math.NaN(), math.Inf(1), -1, 8.5} {
		tell(500, busy)
		if row := u.row(); row.Busy != 0 || row.Memory != 500 || row.At != "2027-01-15T09:23:20Z" {
			t.Errorf("of %v: %+v", busy, row)
		}
	}
}
