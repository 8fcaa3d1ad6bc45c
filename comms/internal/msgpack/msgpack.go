// Package msgpack reads and writes the forms of msgpack that envelopes and
// messages are made of (https://github.com/msgpack/msgpack/blob/master/spec.md).
//
// Append functions write the shortest form, but for AppendInt64. Reader takes any form that holds the
// value, checks every length against what is left before it is used, and
// allocates nothing.
package msgpack

import (
	"encoding/binary"
	"errors"
	"math"
)

// Errors of a Reader. Both mean that the sender is broken or hostile.
var (
	ErrTruncated = errors.New("message is truncated")
	ErrMalformed = errors.New("message is malformed")
)

// Bytes that stand for themselves.
const (
	Nil   = 0xc0
	False = 0xc2
	True  = 0xc3
)

// Reader reads values from the front of Buf. The first error sticks; from then on
// Buf is empty and every value zero, so that callers may check once.
type Reader struct {
	Buf []byte
	Err error
}

// Fail ends reading with an error, unless one ended it before: what fails because
// nothing is left then does not hide why.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
	r.Buf = nil
}

// Take returns the next n bytes, which alias Buf; nil when there are fewer.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.Buf) {
		r.Fail(ErrTruncated)
		return nil
	}
	b := r.Buf[:n:n]
	r.Buf = r.Buf[n:]
	return b
}

// tag returns the byte that says what comes next; 0, and an error, at the end.
func (r *Reader) tag() byte {
	if len(r.Buf) == 0 {
		r.Fail(ErrTruncated)
		return 0
	}
	k := r.Buf[0]
	r.Buf = r.Buf[1:]
	return k
}

// Nil consumes a nil if it is next.
func (r *Reader) Nil() bool {
	if len(r.Buf) == 0 || r.Buf[0] != Nil {
		return false
	}
	r.Buf = r.Buf[1:]
	return true
}

// bigEndian reads n bytes as an unsigned integer.
func (r *Reader) bigEndian(n int) (v uint64) {
	for _, x := range r.Take(n) {
		v = v<<8 | uint64(x)
	}
	return v
}

// size reads a length of n bytes that counts at least that many bytes of the rest.
func (r *Reader) size(n int) int {
	v := r.bigEndian(n)
	if v > uint64(len(r.Buf)) {
		r.Fail(ErrTruncated)
		return 0
	}
	return int(v)
}

// integer reads an integer of any form. When it is negative, v is its two's complement.
func (r *Reader) integer() (v uint64, negative bool) {
	switch k := r.tag(); {
	case k < 0x80:
		return uint64(k), false
	case k >= 0xe0:
		return uint64(int8(k)), true
	case k >= 0xcc && k <= 0xcf:
		return r.bigEndian(1 << (k - 0xcc)), false
	case k >= 0xd0 && k <= 0xd3:
		n := 1 << (k - 0xd0)
		i := int64(r.bigEndian(n)<<(64-8*n)) >> (64 - 8*n)
		return uint64(i), i < 0
	}
	r.Fail(ErrMalformed)
	return 0, false
}

// Uint reads an integer that is not negative.
func (r *Reader) Uint() uint64 {
	if len(r.Buf) > 0 && r.Buf[0] < 0x80 {
		v := r.Buf[0]
		r.Buf = r.Buf[1:]
		return uint64(v)
	}
	v, negative := r.integer()
	if negative {
		r.Fail(ErrMalformed)
		return 0
	}
	return v
}

// Int reads an integer.
func (r *Reader) Int() int64 {
	v, negative := r.integer()
	if !negative && v > math.MaxInt64 {
		r.Fail(ErrMalformed)
		return 0
	}
	return int64(v)
}

// Float reads a float64, a float32 or an integer: where a language does not tell
// 2 from 2.0, a sum of seconds may arrive as either.
func (r *Reader) Float() float64 {
	if len(r.Buf) > 0 {
		switch r.Buf[0] {
		case 0xcb:
			r.Buf = r.Buf[1:]
			return math.Float64frombits(r.bigEndian(8))
		case 0xca:
			r.Buf = r.Buf[1:]
			return float64(math.Float32frombits(uint32(r.bigEndian(4))))
		}
	}
	v, negative := r.integer()
	if negative {
		return float64(int64(v))
	}
	return float64(v)
}

// Bool reads a boolean.
func (r *Reader) Bool() bool {
	k := r.tag()
	if k != False && k != True {
		r.Fail(ErrMalformed)
	}
	return k == True
}

// Bytes reads text or bytes; they alias Buf.
func (r *Reader) Bytes() []byte {
	switch k := r.tag(); {
	case k&0xe0 == 0xa0:
		return r.Take(int(k & 31))
	case k >= 0xc4 && k <= 0xc6:
		return r.Take(r.size(1 << (k - 0xc4)))
	case k >= 0xd9 && k <= 0xdb:
		return r.Take(r.size(1 << (k - 0xd9)))
	}
	r.Fail(ErrMalformed)
	return nil
}

// Array reads the header of an array and returns its length. As each element
// takes at least one byte, it is at most what is left.
func (r *Reader) Array() int {
	var n int
	switch k := r.tag(); {
	case k&0xf0 == 0x90:
		n = int(k & 15)
	case k == 0xdc, k == 0xdd:
		n = r.size(2 << (k - 0xdc))
	default:
		r.Fail(ErrMalformed)
		return 0
	}
	if n > len(r.Buf) {
		r.Fail(ErrTruncated)
		return 0
	}
	return n
}

// Skip passes over one value of any kind, nested depth deep at most.
func (r *Reader) Skip(depth int) {
	if depth < 0 {
		r.Fail(ErrMalformed)
		return
	}
	children := 0
	switch k := r.tag(); {
	case k < 0x80, k >= 0xe0, k == Nil, k == False, k == True:
	case k&0xf0 == 0x80:
		children = 2 * int(k&15)
	case k&0xf0 == 0x90:
		children = int(k & 15)
	case k&0xe0 == 0xa0:
		r.Take(int(k & 31))
	case k >= 0xc4 && k <= 0xc6: // bin
		r.Take(r.size(1 << (k - 0xc4)))
	case k >= 0xc7 && k <= 0xc9: // ext: size, type, bytes
		r.Take(1 + r.size(1<<(k-0xc7)))
	case k == 0xca, k == 0xcb:
		r.Take(4 << (k - 0xca))
	case k >= 0xcc && k <= 0xcf:
		r.Take(1 << (k - 0xcc))
	case k >= 0xd0 && k <= 0xd3:
		r.Take(1 << (k - 0xd0))
	case k >= 0xd4 && k <= 0xd8: // fixext
		r.Take(1 + 1<<(k-0xd4))
	case k >= 0xd9 && k <= 0xdb:
		r.Take(r.size(1 << (k - 0xd9)))
	case k == 0xdc, k == 0xdd:
		children = r.size(2 << (k - 0xdc))
	case k == 0xde, k == 0xdf:
		children = 2 * r.size(2<<(k-0xde))
	default:
		r.Fail(ErrMalformed)
	}
	for ; children > 0 && r.Err == nil; children-- {
		r.Skip(depth - 1)
	}
}

// AppendUint writes an unsigned integer.
func AppendUint(b []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return append(b, 0xcd, byte(v>>8), byte(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

// AppendInt writes an integer, an unsigned one when it is not negative.
func AppendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return AppendUint(b, uint64(v))
	case v >= -32:
		return append(b, byte(v))
	case v >= math.MinInt8:
		return append(b, 0xd0, byte(v))
	case v >= math.MinInt16:
		return append(b, 0xd1, byte(v>>8), byte(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(v))
	}
	return AppendInt64(b, v)
}

// AppendInt64 writes an integer in the form of an int64, whatever it is, for readers
// that take the type from the form.
func AppendInt64(b []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
}

// AppendFloat writes a float64.
func AppendFloat(b []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(v))
}

// AppendBool writes a boolean.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, True)
	}
	return append(b, False)
}

// AppendArray writes the header of an array of n elements.
func AppendArray(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n <= math.MaxUint16:
		return append(b, 0xdc, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

// AppendMap writes the header of a map of n entries.
func AppendMap(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x80|byte(n))
	case n <= math.MaxUint16:
		return append(b, 0xde, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdf), uint32(n))
}

// AppendString writes text.
func AppendString[T ~string](b []byte, s T) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		b = append(b, 0xda, byte(n>>8), byte(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

// AppendBytes writes bytes.
func AppendBytes[T ~string | ~[]byte](b []byte, s T) []byte {
	switch n := len(s); {
	case n <= math.MaxUint8:
		b = append(b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		b = append(b, 0xc5, byte(n>>8), byte(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
	}
	return append(b, s...)
}
