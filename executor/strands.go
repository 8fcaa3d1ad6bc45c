package executor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/seqmap"
)

// strand is a line of execution that numbers its calls.
type strand struct {
	id    uint64
	next  uint64
	by    uint64                 // the goroutine that makes its calls; 0 none yet. making guards it
	calls seqmap.Map[*callState] // that are not dropped; calls.mu guards it
}

type strandKey struct{}

// Strand returns a context whose calls are numbered on their own. A task that calls from
// several goroutines gives each a strand, named so that another run of the task names
// it equally: else it does not meet the calls that it made before. Calls and values that
// are put are refused from a goroutine that is not the first which used the strand. A
// strand that is named twice goes on with its numbers.
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

// Of the calls of a strand that is not the first these are looked at: to look takes 1 to 2 us.
const (
	alwaysLooked = 16
	lookedEvery  = 16
)

// ownGoroutine stands for the goroutine of the function itself. No goroutine has its number.
const ownGoroutine = math.MaxUint64

// taken tells why this goroutine cannot number calls of a strand: another one does, and the
// order of the two would name calls otherwise in another run. making is held.
func (s *strand) taken() error {
	id := uint64(ownGoroutine)
	if !debug.SetPanicOnFault(true) { // it is set in the goroutine of the function: this is another
		debug.SetPanicOnFault(false)
		if s.by != 0 && s.by != ownGoroutine && s.next > alwaysLooked && s.next%lookedEvery != 0 {
			return nil
		}
		id = goroutineID()
	}
	if s.by == 0 && (s.id != 0 || id == ownGoroutine) {
		s.by = id
	}
	if s.by == id {
		return nil
	}
	return errors.New("another goroutine of the task calls with the same context: give each goroutine a strand, cascade.Strand(ctx, NAME), so that a retry of the task names its calls equally, or use cascade.NotRepeatable(ctx)")
}

// goroutineID is the number of this goroutine, which none has after it.
func goroutineID() uint64 {
	var text [64]byte
	n := runtime.Stack(text[:], false)
	words := bytes.Fields(text[:n]) // goroutine 7 [running]:
	if len(words) < 2 {
		return 0
	}
	id, err := strconv.ParseUint(string(words[1]), 10, 64)
	if err != nil {
		return 0
	}
	return id
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
