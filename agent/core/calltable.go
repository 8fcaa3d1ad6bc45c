package core

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/seqmap"
)

// callTable is the calls of a task by their names. Strands number theirs in sequence.
type callTable struct {
	first   seqmap.Map[rowRef] // of strand 0
	strands map[uint64]*seqmap.Map[rowRef]
	n       int
}

func (t *callTable) strand(id uint64) *seqmap.Map[rowRef] {
	if id == 0 {
		return &t.first
	}
	return t.strands[id]
}

func (t *callTable) get(ref comms.CallRef) (at rowRef, ok bool) {
	if s := t.strand(ref.Strand); s != nil {
		at = s.Get(ref.Number)
	}
	return at, at.job != nil
}

func (t *callTable) set(ref comms.CallRef, at rowRef) {
	s := t.strand(ref.Strand)
	if s == nil {
		if t.strands == nil {
			t.strands = map[uint64]*seqmap.Map[rowRef]{}
		}
		s = &seqmap.Map[rowRef]{}
		t.strands[ref.Strand] = s
	}
	t.n -= s.Len()
	s.Set(ref.Number, at)
	t.n += s.Len()
}

func (t *callTable) delete(ref comms.CallRef) {
	s := t.strand(ref.Strand)
	if s == nil {
		return
	}
	t.n -= s.Len()
	s.Delete(ref.Number)
	t.n += s.Len()
	if ref.Strand != 0 && s.Len() == 0 { // strands come and go too
		delete(t.strands, ref.Strand)
	}
}

// all yields the calls, in no order.
func (t *callTable) all(yield func(comms.CallRef, rowRef) bool) {
	for n, at := range t.first.All() {
		if !yield(comms.CallRef{Number: n}, at) {
			return
		}
	}
	for id, s := range t.strands {
		for n, at := range s.All() {
			if !yield(comms.CallRef{Strand: id, Number: n}, at) {
				return
			}
		}
	}
}

// sum tells calls of one name apart. Two tries of a task that make the same call have
// the same sum, wherever their arguments lie.
func (c *Core) sum(by *caller, s *callShape, m *comms.CallItem, refs []comms.ItemRefs) (xxh3.Uint128, error) {
	kind := uint64(0)
	if s != nil {
		kind = s.sum
	}
	b := binary.LittleEndian.AppendUint64(c.sumBuf[:0], kind)
	b = appendPart(appendPart(b, m.Name), m.With)
	for i := range m.Inputs {
		in := &m.Inputs[i]
		b = append(b, byte(in.From))
		for _, n := range [...]uint64{uint64(in.Port), uint64(in.Output), in.Element, uint64(in.Input), uint64(in.Item)} {
			b = binary.AppendUvarint(b, n)
		}
		if in.From != comms.FromCall && in.From != comms.FromCallValue {
			b = appendDesc(b, &in.Data)
			if in.Data.Place.Kind == comms.PlaceInline && in.From != comms.FromInput {
				b = appendPart(b, in.Data.Place.Bytes)
			}
			continue
		}
		other, ok := by.calls.get(in.Ref)
		if !ok {
			return xxh3.Uint128{}, fmt.Errorf("call %v reads call %v, which it has not made or has dropped", m.Ref, in.Ref)
		}
		sum := other.row().sum.Bytes()
		b = append(b, sum[:]...)
	}
	for i := range refs {
		for _, ref := range refs[i].Refs {
			at, _ := by.calls.get(ref.Ref)
			if at.job == nil {
				return xxh3.Uint128{}, fmt.Errorf("call %v refers to call %v, which it has not made or has dropped", m.Ref, ref.Ref)
			}
			sum := at.row().sum.Bytes()
			b = append(binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(b, uint64(refs[i].Input)), uint64(ref.Output)), ref.Element), sum[:]...)
		}
	}
	if cap(b) <= mostSumBuf {
		c.sumBuf = b
	}
	return xxh3.Hash128(b), nil
}

// mostSumBuf is how large the memory may be that is kept for the next sum.
const mostSumBuf = 64 << 10

// appendDesc writes what a dataset is, not where it lies.
func appendDesc(b []byte, d *comms.Desc) []byte {
	for _, n := range [...]uint64{uint64(d.Ref.Task), uint64(d.Ref.Output), d.Ref.Element, uint64(d.Attempt), d.Size, uint64(len(d.Shape))} {
		b = binary.AppendUvarint(b, n)
	}
	for _, n := range d.Shape {
		b = binary.AppendUvarint(b, n)
	}
	return appendPart(appendPart(appendPart(b, d.Codec), d.DType), d.Hash)
}

// appendPart writes bytes so that they cannot be taken for those of others.
func appendPart[T ~string | ~[]byte](b []byte, part T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}
