package sim

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// When the controller dies, of two writes to two shards either may happen alone; of
// two to one shard never the second.
func TestShardsKeepPartsOfTheirOwn(t *testing.T) {
	for shards, want := range map[int][]string{1: {"", "a", "ab"}, 2: {"", "a", "ab", "b"}} {
		kept := map[string]bool{}
		for seed := range uint64(50) {
			w := newWorld(Options{Seed: seed})
			w.fate.shards = shards
			s, done := newStore(w, w.controller), ""
			for n, name := range []string{"a", "b"} {
				s.put(comms.JobID{15: byte(n)}, func() { done += name }, func() {})
			}
			s.crash()
			kept[done] = true
		}
		if got := slices.Sorted(maps.Keys(kept)); !reflect.DeepEqual(got, want) {
			t.Errorf("of %d shards %q is kept, want %q", shards, got, want)
		}
	}
}
