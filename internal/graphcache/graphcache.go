// Package graphcache lets the parts of one process share the graphs that they have:
// client, controller and agent of `cascade run` have the same bytes, one after the
// other, and a graph does not change.
//
//	client ──────── Add ──┐
//	controller ── Decode ─┤                    ┌─ known and still in use: that one
//	agent ────── Decode ──┴─▶ hash of the bytes ┤
//	                                            └─ else dag.Decode
//
// Invariant: a Graphs keeps no graph in memory.
package graphcache

import (
	"maps"
	"sync"
	"weak"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/dag"
)

// Graphs finds graphs by their encoded bytes. Its zero value knows none, and nil is
// one that never does. It may be used from any goroutine.
type Graphs struct {
	mu    sync.Mutex
	known map[xxh3.Uint128]weak.Pointer[dag.Graph]
}

// Decode is dag.Decode.
func (gs *Graphs) Decode(b []byte) (*dag.Graph, error) {
	if gs == nil {
		return dag.Decode(b)
	}
	sum := xxh3.Hash128(b)
	if g := gs.find(sum); g != nil {
		return g, nil
	}
	g, err := dag.Decode(b)
	if err == nil {
		gs.add(sum, g)
	}
	return g, err
}

func (gs *Graphs) find(sum xxh3.Uint128) *dag.Graph {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return gs.known[sum].Value()
}

// Add makes a graph known that was encoded as b.
func (gs *Graphs) Add(b []byte, g *dag.Graph) {
	if gs != nil && g.Checked() {
		gs.add(xxh3.Hash128(b), g)
	}
}

// few is how many graphs are known before unused ones are dropped.
const few = 64

func (gs *Graphs) add(sum xxh3.Uint128, g *dag.Graph) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.known == nil {
		gs.known = map[xxh3.Uint128]weak.Pointer[dag.Graph]{}
	}
	if n := len(gs.known); n >= few && n&(n-1) == 0 { // each time that they have doubled
		maps.DeleteFunc(gs.known, func(_ xxh3.Uint128, p weak.Pointer[dag.Graph]) bool { return p.Value() == nil })
	}
	gs.known[sum] = weak.Make(g)
}
