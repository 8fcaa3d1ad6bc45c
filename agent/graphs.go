//go:build linux

package agent

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/blake3"
	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/graphcache"
)

// graphs puts together the blobs that an Assign may name instead of carrying its
// graph, and decodes graphs. It belongs to the goroutine that reads the controller's link.
type graphs struct {
	shared *graphcache.Graphs // with the controller, when it is in this process
	parts  map[comms.Hash]*blob
	order  []comms.Hash                // of parts, oldest first
	known  map[xxh3.Uint128]knownGraph // small ones that came lately: many jobs have the same
}

// knownGraph is a decoded graph and its bytes: the hash under which it is found can be
// made to collide, and another user's graph must not be taken.
type knownGraph struct {
	graph *dag.Graph
	data  []byte
}

type blob struct {
	data  []byte
	total uint64
}

// Bounds of what a controller may make us keep.
const (
	maxBlob  = 1 << 30
	maxBlobs = 4
)

// add takes the next piece of a blob. The hash is checked when the blob is whole.
func (g *graphs) add(m *comms.Blob, body []byte) error {
	b := g.parts[m.Hash]
	if b == nil {
		if m.Total > maxBlob {
			return fmt.Errorf("blob %s has %d bytes, at most %d are taken", m.Hash, m.Total, maxBlob)
		}
		if g.parts == nil {
			g.parts = map[comms.Hash]*blob{}
		}
		b = &blob{total: m.Total}
		g.parts[m.Hash] = b
		if g.order = append(g.order, m.Hash); len(g.order) > maxBlobs {
			g.drop(g.order[0])
		}
	}
	have := uint64(len(b.data))
	switch {
	case m.Total != b.total || m.Offset > have || uint64(len(body)) > b.total-m.Offset:
		return fmt.Errorf("blob %s: piece of %d bytes at %d does not follow %d of %d", m.Hash, len(body), m.Offset, have, b.total)
	case m.Offset+uint64(len(body)) <= have:
		return nil // a second copy
	}
	b.data = append(b.data[:m.Offset], body...)
	if uint64(len(b.data)) == b.total {
		if sum := blake3.Sum256(b.data); string(m.Hash) != string(comms.HashBLAKE3)+string(sum[:]) {
			g.drop(m.Hash)
			return fmt.Errorf("blob %s: its bytes have another hash", m.Hash)
		}
	}
	return nil
}

func (g *graphs) drop(h comms.Hash) {
	delete(g.parts, h)
	g.order = slices.DeleteFunc(g.order, func(o comms.Hash) bool { return o == h })
}

// of returns the graph of an Assign. Its blob is not kept: the sender sends it again with the next.
func (g *graphs) of(m *comms.Assign) (*dag.Graph, error) {
	data := m.Graph
	if data == nil {
		b := g.parts[m.GraphHash]
		if b == nil || uint64(len(b.data)) < b.total {
			return nil, errors.New("the controller names a graph that it has not sent")
		}
		data = b.data
		g.drop(m.GraphHash)
	}
	if len(data) > maxKnown {
		return g.shared.Decode(data)
	}
	sum := xxh3.Hash128(data)
	if k := g.known[sum]; bytes.Equal(k.data, data) && k.graph != nil {
		return k.graph, nil
	}
	graph, err := g.shared.Decode(data)
	if err != nil {
		return nil, err
	}
	if g.known == nil || len(g.known) >= maxKnownGraphs {
		g.known = map[xxh3.Uint128]knownGraph{}
	}
	if graph.NumTasks() <= maxKnownTasks {
		g.known[sum] = knownGraph{graph, slices.Clone(data)} // they may be part of the whole message
	}
	return graph, nil
}

// Bounds of the graphs that are kept decoded.
const (
	maxKnown       = 64 << 10 // encoded bytes of one
	maxKnownTasks  = 100_000
	maxKnownGraphs = 64
)
