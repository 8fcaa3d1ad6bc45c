package daemon

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A process with little to do has 2 MiB alive. Go collects garbage when a heap has
// doubled, and at 4 MiB at the earliest: of a hundred jobs of one task two or three would
// wait for the collector. A floor makes that rare, and leaves larger heaps alone.
const (
	heapFloor   = 32 << 20 // bytes of a heap below which no collection begins
	goPercent   = 100      // Go's own GOGC
	goFloor     = 4 << 20  // bytes below which none begins at that; it grows with GOGC
	mostPercent = goPercent * heapFloor / goFloor
)

// KeepHeap has this process collect its garbage when its heap has 32 MiB, or twice what is
// alive, whichever is more. It changes nothing where GOGC or GOMEMLIMIT is set: then the
// user has decided. main calls it, once.
func KeepHeap(getenv func(string) string) {
	if getenv("GOGC") == "" && getenv("GOMEMLIMIT") == "" {
		keepHeap(struct{}{})
	}
}

// keepHeap sets GOGC by what the last collection has left alive, and again after the next
// one: the percentage of a small heap is too much for one that has grown.
func keepHeap(struct{}) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	debug.SetGCPercent(percentOf(live[0].Value.Uint64()))
	runtime.AddCleanup(new(*int), keepHeap, struct{}{}) // nothing refers to it: the next collection calls keepHeap
}

// percentOf returns the GOGC with which a heap that has so many bytes alive is collected
// at the floor, or at twice its size.
func percentOf(live uint64) int {
	if live <= heapFloor*goPercent/(goPercent+mostPercent) {
		return mostPercent
	}
	return max(goPercent, int(heapFloor*goPercent/live)-goPercent)
}
