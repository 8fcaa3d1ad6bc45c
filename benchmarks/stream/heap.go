//go:build linux

package main

import (
	"math"
	"runtime"
	"strings"
)

// storeHeap tells what memory the store takes of its own: the memory on the heap
// that Badger and its caches have allocated and still use. These are memtables,
// cached blocks and indices, and what a flush or a compaction has in hand. Go's
// profile of the heap has it as of the last collection, sampled as its rate says:
// pieces much larger than that are all counted.
type storeHeap struct {
	of      map[[32]uintptr]bool // stacks that were seen: whether they are the store's
	records []runtime.MemProfileRecord
}

// packages whose allocations are the store's.
var storePackages = [...]string{"github.com/dgraph-io/badger/", "github.com/dgraph-io/ristretto/"}

func (h *storeHeap) bytes() (sum int64) {
	if h.of == nil {
		h.of = map[[32]uintptr]bool{}
	}
	n, ok := runtime.MemProfile(h.records, false)
	for !ok {
		h.records = make([]runtime.MemProfileRecord, n+n/4+50) // more stacks may come meanwhile
		n, ok = runtime.MemProfile(h.records, false)
	}
	for i := range h.records[:n] {
		r := &h.records[i]
		if h.ours(r) {
			sum += unsampled(r.InUseObjects(), r.InUseBytes())
		}
	}
	return sum
}

// ours tells whether a stack of allocations leads through the store.
func (h *storeHeap) ours(r *runtime.MemProfileRecord) bool {
	ours, seen := h.of[r.Stack0]
	if seen {
		return ours
	}
	frames := runtime.CallersFrames(r.Stack())
	for more := true; more && !ours; {
		var f runtime.Frame
		f, more = frames.Next()
		for _, p := range storePackages {
			ours = ours || strings.HasPrefix(f.Function, p)
		}
	}
	h.of[r.Stack0] = ours
	return ours
}

// unsampled is how many bytes samples stand for: an allocation of size s is in the
// profile with the chance 1 - exp(-s/rate).
func unsampled(objects, bytes int64) int64 {
	if objects == 0 || bytes == 0 || runtime.MemProfileRate <= 1 {
		return bytes
	}
	size := float64(bytes) / float64(objects)
	return int64(float64(bytes) / (1 - math.Exp(-size/float64(runtime.MemProfileRate))))
}
