package main

import (
	"testing"

	"github.com/cascade-run/cascade/internal/testing/tier"
)

// A job whose live set is three times the memory of its host ends well, with what was
// planned to be spilled on disk and no attempt in vain.
func TestSpill(t *testing.T) {
	tier.Nightly(t, "runs for seconds")
	x := &execution{hosts: 1, cores: 2, memory: 32 << 20}
	r, err := x.spill(2<<20, 3)
	if err != nil {
		t.Fatal(err)
	}
	if r.live != 96<<20 || r.toDisk < 64<<20 || r.onDisk < 64<<20 || r.again > 0 {
		t.Errorf("of three times the memory: %+v", r)
	}
}
