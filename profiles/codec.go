package profiles

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrMalformed says that bytes are no profile.
var ErrMalformed = errors.New("profile is malformed")

const (
	encodedSize = 1 + 8*8
	maxLoaded   = 1 << 10 // elements of a list in the stored form: more is no profile
)

// Encode returns version 3 of the stored form: the version and eight little-endian
// words, which are all of version 1, then what came since. Later versions append.
func (p Profile) Encode() []byte {
	e := encoder{b: append(make([]byte, 0, 2*encodedSize), 3)}
	e.word(p.Count)
	e.word(p.MemoryCount)
	e.floats(p.Seconds, p.SecondsVar, p.Bytes, p.BytesVar, p.Memory, p.MemoryPeak)
	e.floats(p.CPU)
	e.word(p.CPUCount)
	e.word(p.Version)
	e.word(p.Prior)
	e.word(p.Before.Version)
	e.word(p.Before.Count)
	e.floats(p.Before.Seconds, p.Before.Bytes, p.Before.Memory)
	for _, s := range []*Sketch{&p.Times, &p.Sizes, &p.Peaks} {
		e.sketch(s)
	}
	e.count(len(p.Points))
	for _, x := range p.Points {
		e.floats(x.In, x.Seconds, x.Bytes)
	}
	e.count(len(p.Classes))
	for _, x := range p.Classes {
		e.b = append(e.b, byte(x.Log))
		e.word(x.Count)
		e.floats(x.Seconds, x.Bytes)
	}
	e.floats(p.Held)
	return e.b
}

// encoder writes the stored form.
type encoder struct{ b []byte }

func (e *encoder) word(w uint64) { e.b = binary.LittleEndian.AppendUint64(e.b, w) }

func (e *encoder) floats(fs ...float64) {
	for _, f := range fs {
		e.word(math.Float64bits(f))
	}
}

func (e *encoder) count(n int) { e.b = binary.LittleEndian.AppendUint16(e.b, uint16(n)) }

func (e *encoder) sketch(s *Sketch) {
	e.count(len(s.bins))
	for _, x := range s.bins {
		e.b = binary.LittleEndian.AppendUint16(e.b, uint16(x.key))
		e.b = binary.LittleEndian.AppendUint32(e.b, math.Float32bits(x.weight))
	}
}

// reader takes a stored profile apart; what is too short or out of range makes it bad.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if len(r.b) < n {
		r.b, r.bad = nil, true
		return make([]byte, n)
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

func (r *reader) word() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *reader) floats(to ...*float64) {
	for _, f := range to {
		*f = math.Float64frombits(r.word())
		r.bad = r.bad || !(*f >= 0 && *f <= math.MaxFloat64)
	}
}

func (r *reader) count() int {
	n := int(binary.LittleEndian.Uint16(r.take(2)))
	if n > maxLoaded {
		r.bad = true
		return 0
	}
	return n
}

// Decode reads what Encode writes, in this version or another.
func Decode(b []byte) (Profile, error) {
	if len(b) < encodedSize || b[0] == 0 {
		return Profile{}, ErrMalformed
	}
	r := &reader{b: b[1:]}
	var p Profile
	p.Count, p.MemoryCount = r.word(), r.word()
	r.floats(&p.Seconds, &p.SecondsVar, &p.Bytes, &p.BytesVar, &p.Memory, &p.MemoryPeak)
	if b[0] >= 2 {
		r.floats(&p.CPU)
		p.CPUCount, p.Version, p.Prior = r.word(), r.word(), r.word()
		p.Before.Version, p.Before.Count = r.word(), r.word()
		r.floats(&p.Before.Seconds, &p.Before.Bytes, &p.Before.Memory)
		for _, s := range []*Sketch{&p.Times, &p.Sizes, &p.Peaks} {
			r.sketch(s)
		}
		for range r.count() {
			var x Point
			r.floats(&x.In, &x.Seconds, &x.Bytes)
			p.Points = append(p.Points, x)
		}
		for range r.count() {
			x := Class{Log: int8(r.take(1)[0]), Count: r.word()}
			r.floats(&x.Seconds, &x.Bytes)
			r.bad = r.bad || len(p.Classes) > 0 && x.Log <= p.Classes[len(p.Classes)-1].Log
			p.Classes = append(p.Classes, x)
		}
	}
	if b[0] >= 3 {
		r.floats(&p.Held)
	}
	if r.bad {
		return Profile{}, ErrMalformed
	}
	return p, nil
}

func (r *reader) sketch(s *Sketch) {
	for range r.count() {
		x := bin{int16(binary.LittleEndian.Uint16(r.take(2))), math.Float32frombits(binary.LittleEndian.Uint32(r.take(4)))}
		r.bad = r.bad || !(x.weight > 0 && x.weight <= 1e9) || len(s.bins) > 0 && x.key <= s.bins[len(s.bins)-1].key
		s.bins = append(s.bins, x)
	}
}
