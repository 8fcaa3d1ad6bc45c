package dag

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// cycles orders the nodes by Kahn's algorithm (Communications of the ACM 5,
// 1962), smallest index first, and reports what cannot be ordered.
func (r *resolver) cycles() {
	ix := r.ix
	if ix.outStart == nil { // other mistakes stopped the index; what was resolved is enough to look for cycles
		r.consumers()
	}
	forward := ix.slots == 0
	r.eachEdge(func(p, c, _ uint32, _ uint64) { forward = forward && p < c })
	if forward {
		return // index order is topological and the smallest, ix.order stays nil
	}
	waits := make([]uint32, ix.tasks+ix.slots) // unfinished producers of each node
	r.eachEdge(func(_, c, ref uint32, _ uint64) {
		if !ix.refs[ref].bound {
			waits[c]++
		}
	})
	followers := map[uint32][]uint32{}
	for gi := range r.g.Groups {
		st := r.g.Groups[gi].Stream
		if st == nil || r.broken[gi] {
			continue
		}
		start := ix.nodeStart(r.g, gi)
		for local := range ix.groups[gi].size {
			waits[start+local]++
			followers[uint32(st.Generator)] = append(followers[uint32(st.Generator)], start+local)
		}
	}
	var ready nodeHeap
	var slots []uint32 // slots that are ready: taken first, as they are not part of the order
	done := 0
	release := func(n uint32) {
		if waits[n]--; waits[n] != 0 {
			return
		}
		if int(n) < ix.tasks {
			heap.Push(&ready, n)
		} else {
			slots = append(slots, n)
		}
	}
	for n := range waits {
		if waits[n] == 0 && n < ix.tasks {
			ready = append(ready, uint32(n)) // ascending, hence a heap
		} else if waits[n] == 0 {
			slots = append(slots, uint32(n))
		}
	}
	order := make([]TaskIndex, 0, ix.tasks)
	for len(ready)+len(slots) > 0 {
		var n uint32
		if len(slots) > 0 {
			n, slots = slots[len(slots)-1], slots[:len(slots)-1]
		} else {
			n = heap.Pop(&ready).(uint32)
			order = append(order, TaskIndex(n))
		}
		done++
		for _, e := range ix.out[ix.outStart[n]:ix.outStart[n+1]] {
			release(e.consumer)
		}
		for _, s := range followers[n] {
			release(s)
		}
	}
	if done < len(waits) {
		r.reportCycles(waits)
		return
	}
	for i := range order {
		if order[i] != TaskIndex(i) {
			ix.order = order
			return
		}
	}
}

// nodeHeap is a heap of nodes, smallest first.
type nodeHeap []uint32

func (h nodeHeap) Len() int           { return len(h) }
func (h nodeHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h nodeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *nodeHeap) Push(x any) { *h = append(*h, x.(uint32)) }

// Pop implements heap.Interface.
func (h *nodeHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

const maxCycles = 20 // cycles reported at once

// reportCycles names cycles among the nodes that still wait. Each of those has
// a producer that waits too, so that walking from producer to producer must
// come back to where it was.
func (r *resolver) reportCycles(waits []uint32) {
	walk := make([]uint32, len(waits)) // number of the walk that visited a node
	reported := map[From]bool{}
	id := uint32(0)
	for n := range waits {
		if waits[n] == 0 || walk[n] != 0 {
			continue
		}
		id++
		var path []uint32
		at, ok := uint32(n), true
		for ok && walk[at] == 0 {
			walk[at] = id
			path = append(path, at)
			at, _, ok = r.waitingProducer(at, waits)
		}
		if !ok || walk[at] != id {
			continue // joins a walk that was reported
		}
		cycle := path[slices.Index(path, at):]
		slices.Reverse(cycle) // producers first
		least := slices.Index(cycle, slices.Min(cycle))
		cycle = append(cycle[least:len(cycle):len(cycle)], cycle[:least]...)
		_, from, _ := r.waitingProducer(cycle[0], waits)
		if reported[from] {
			continue
		}
		reported[from] = true
		r.reportCycle(cycle, from)
		if len(reported) == maxCycles {
			return
		}
	}
}

func (r *resolver) reportCycle(cycle []uint32, from From) {
	const shown = 12
	names := make([]string, 0, shown+2)
	for i, n := range cycle {
		if i == shown {
			names = append(names, fmt.Sprintf("... %d more", len(cycle)-shown))
			break
		}
		names = append(names, r.ix.nodeName(r.g, n))
	}
	names = append(names, r.ix.nodeName(r.g, cycle[0]))
	gi := r.ix.groupOfNode(cycle[0])
	r.reportFrom(gi, "in", "", 0, from, mistake("it waits for itself: "+strings.Join(names, " -> "), "remove one of these dependencies"))
}

// waitingProducer returns the first producer of a node that waits itself, and the reference to it.
func (r *resolver) waitingProducer(n uint32, waits []uint32) (producer uint32, from From, ok bool) {
	ix := r.ix
	gi := ix.groupOfNode(n)
	grp := &r.g.Groups[gi]
	local := n - ix.nodeStart(r.g, gi)
	ri := int(ix.groups[gi].refBase)
	for di := range grp.Inputs {
		for _, f := range grp.Inputs[di].From {
			x := &ix.refs[ri]
			ri++
			at, _ := x.at(local)
			for k := range int(x.stride) {
				if p := ix.srcTask[at+k]; !x.bound && waits[p] > 0 {
					return p, f, true
				}
			}
		}
	}
	if st := grp.Stream; st != nil && waits[st.Generator] > 0 {
		return uint32(st.Generator), From{}, true
	}
	return 0, From{}, false
}
