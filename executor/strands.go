package executor

import (
	"context"
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/seqmap"
)

// strand is a line of execution that numbers its calls.
type strand struct {
	id    uint64
	next  uint64
	calls seqmap.Map[*callState] // that are not dropped; calls.mu guards it
}

type strandKey struct{}

// Strand returns a context whose calls are numbered on their own. A task that calls from
// several goroutines gives each a strand, named so that another run of the task names
// it equally: else it does not meet the calls that it made before. A strand that is
// named twice goes on with its numbers.
func Strand(ctx context.Context, name string) context.Context {
	r, _ := ctx.Value(taskKey{}).(*run)
	if r == nil {
		return ctx
	}
	c := r.called()
	parent := c.strand(ctx)
	id := strandID(parent.id, name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ctx
	}
	s := c.strands[id]
	if s == nil {
		s = &strand{id: id}
		c.strands[id] = s
	}
	return context.WithValue(ctx, strandKey{}, s)
}

// strandID is the number of a strand, never that of the first one.
func strandID(parent uint64, name string) uint64 {
	return max(xxh3.Hash(append(binary.BigEndian.AppendUint64(nil, parent), name...)), 1)
}

func (c *calls) strand(ctx context.Context) *strand {
	if s, _ := ctx.Value(strandKey{}).(*strand); s != nil {
		return s
	}
	return &c.base
}

// callsOf returns the calls of a strand; nil when there is no such strand. mu is held.
func (c *calls) callsOf(strand uint64) *seqmap.Map[*callState] {
	if strand == 0 {
		return &c.base.calls
	}
	if s := c.strands[strand]; s != nil {
		return &s.calls
	}
	return nil
}

// find returns a call; nil when it was dropped. mu is held.
func (c *calls) find(ref comms.CallRef) *callState {
	if all := c.callsOf(ref.Strand); all != nil {
		return all.Get(ref.Number)
	}
	return nil
}
