package executor

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
)

// liveValues are results that wait in this process for later runs of the same
// executor. A value stays until every queued run that names it has taken it; one
// that no run has named yet stays while it is among the youngest maxUnnamed.
type liveValues struct {
	entries map[liveKey]*liveValue
	unnamed []liveKey // oldest first
}

type liveKey struct {
	run    comms.RunID
	output uint32
}

type liveValue struct {
	there bool
	value any
	codec value.Codec  // for consumers of another Go type
	hold  *hold        // memory that it lies in, with a reference
	sum   xxh3.Uint128 // of its bytes, in check builds
	wants int          // queued runs that name it
}

const maxUnnamed = 64

func newLiveValues() liveValues { return liveValues{entries: map[liveKey]*liveValue{}} }

// eachLive visits the live inputs of a run.
func (r *run) eachLive(visit func(liveKey)) {
	for _, in := range r.Inputs {
		for i := range in.Data {
			if d := &in.Data[i]; d.Place.Kind == comms.PlaceLive {
				visit(liveKey{d.Place.Run, d.Ref.Output})
			}
		}
	}
}

// expect notes what a queued run will take.
func (l *liveValues) expect(r *run) {
	r.eachLive(func(k liveKey) {
		v := l.entries[k]
		if v == nil {
			v = &liveValue{}
			l.entries[k] = v
		}
		v.wants++
	})
}

// forget notes that a run has taken what it needs, or never will. The caller
// drops the returned references when it holds no lock.
func (l *liveValues) forget(r *run) (done []*hold) {
	r.eachLive(func(k liveKey) {
		if v := l.entries[k]; v != nil {
			if v.wants--; v.wants <= 0 {
				delete(l.entries, k)
				if v.hold != nil {
					done = append(done, v.hold)
				}
			}
		}
	})
	return done
}

// has tells whether all live inputs of a run are there.
func (l *liveValues) has(r *run) bool {
	all := true
	r.eachLive(func(k liveKey) {
		v := l.entries[k]
		all = all && v != nil && v.there
	})
	return all
}

// put stores an output for later runs. A value pushed out by it is returned.
func (l *liveValues) put(k liveKey, v any, codec value.Codec, h *hold) (old *hold) {
	e := l.entries[k]
	if e == nil {
		e = &liveValue{}
		l.entries[k] = e
		if l.unnamed = append(l.unnamed, k); len(l.unnamed) > maxUnnamed {
			if o := l.entries[l.unnamed[0]]; o != nil && o.wants == 0 {
				delete(l.entries, l.unnamed[0])
				old = o.hold
			}
			l.unnamed = append(l.unnamed[:0], l.unnamed[1:]...)
		}
	}
	e.there, e.value, e.codec, e.hold, e.sum = true, v, codec, h, hashOf(codec, v)
	return old
}

// hashMost is how large a value may be that is hashed each time: 4 KiB take 200 ns.
const hashMost = 4 << 10

// hashOf is the hash of a value that shares its memory with those who get it, if
// it is small or this is a check build.
func hashOf(codec value.Codec, v any) (sum xxh3.Uint128) {
	if !codec.Aliases() {
		return sum
	}
	f, err := codec.Encode(v)
	if err != nil || !checked && len(f.Bytes) > hashMost {
		return sum
	}
	return xxh3.Hash128(f.Bytes)
}

// unchanged tells whether a run left its inputs as they were that no mapping
// protects: those that came in a message, and live values, which are ordinary
// memory. Large live values are looked at in check builds only.
func (r *run) unchanged() error {
	for i := range r.mem.copies {
		if c := &r.mem.copies[i]; xxh3.Hash(c.bytes) != c.sum {
			return wroteTo(c.input)
		}
	}
	if r.reads > 0 && hashOf(r.input.codec, r.input.value) != r.input.sum {
		return wroteTo(r.kind.Inputs[0].Name)
	}
	for i, in := range r.Inputs {
		for k := range in.Data {
			if d := &in.Data[k]; d.Place.Kind == comms.PlaceLive {
				if v := r.liveInput(d); hashOf(v.codec, v.value) != v.sum {
					return wroteTo(r.kind.Inputs[i].Name)
				}
			}
		}
	}
	return nil
}

func wroteTo(input string) error {
	return &kindError{comms.ErrorReadOnly, fmt.Errorf("it wrote to input %q, which later tasks may share: copy it first", input)}
}
