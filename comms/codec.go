package comms

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Errors of the decoder. Both mean that the sender is broken or hostile.
var (
	ErrTruncated = errors.New("message is truncated")
	ErrMalformed = errors.New("message is malformed")
)

// Coder walks the fields of a message in wire order, writing them or reading
// them: each message lists its fields once, for both directions.
//
// The wire form is msgpack. A struct is an array; a reader skips trailing
// elements it does not know and leaves fields the sender did not know at zero;
// nil in place of a field leaves it at zero too. A writer uses the shortest form
// of each value, so that equal messages are equal bytes; a reader takes any form
// that holds the value (docs/protocol.md, "Encoding").
// When reading, byte slices and strings alias or copy the input as documented;
// the first error sticks, and the remaining fields stay zero.
type Coder struct {
	buf    []byte // writing: what was written; reading: what is left
	read   bool
	left   int // elements left in the current array, when reading
	fields int // elements written to the current array, when writing
	depth  int
	err    error
}

const maxDepth = 16 // nesting of arrays in any message

func (c *Coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.left = 0
}

// Struct codes an array of n elements: fields must visit exactly n.
func (c *Coder) Struct(n int, fields func(*Coder)) {
	if !c.read {
		outer := c.fields
		c.buf = appendArray(c.buf, n)
		c.fields = 0
		fields(c)
		if c.fields != n {
			panic(fmt.Sprintf("comms: a message announces %d fields and lists %d", n, c.fields))
		}
		c.fields = outer + 1
		return
	}
	if !c.next() {
		return
	}
	if c.depth++; c.depth > maxDepth {
		c.fail(ErrMalformed)
		return
	}
	outer := c.left
	c.left = c.array()
	fields(c)
	for c.err == nil && c.left > 0 {
		c.left--
		c.skip(0)
	}
	c.depth--
	if c.err == nil {
		c.left = outer
	}
}

// next reports whether the next element is to be coded; when reading past the
// end of the array, or a nil, it is not, and the field keeps its zero value.
func (c *Coder) next() bool {
	if !c.read {
		c.fields++
		return true
	}
	if c.err != nil || c.left == 0 {
		return false
	}
	c.left--
	if len(c.buf) > 0 && c.buf[0] == 0xc0 {
		c.buf = c.buf[1:]
		return false
	}
	return true
}

// Uint codes an unsigned integer of any width; a value too large for T is malformed.
func Uint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *Coder, v *T) {
	if !c.next() {
		return
	}
	if !c.read {
		c.buf = appendUint(c.buf, uint64(*v))
		return
	}
	u := c.uint()
	if uint64(T(u)) != u {
		c.fail(ErrMalformed)
		return
	}
	*v = T(u)
}

// Int codes a signed integer of any width; a value too large for T is malformed.
func Int[T ~int | ~int32 | ~int64](c *Coder, v *T) {
	if !c.next() {
		return
	}
	if !c.read {
		c.buf = appendInt(c.buf, int64(*v))
		return
	}
	i := c.int()
	if int64(T(i)) != i {
		c.fail(ErrMalformed)
		return
	}
	*v = T(i)
}

// Bool codes a boolean.
func (c *Coder) Bool(v *bool) {
	if !c.next() {
		return
	}
	if !c.read {
		if *v {
			c.buf = append(c.buf, 0xc3)
		} else {
			c.buf = append(c.buf, 0xc2)
		}
		return
	}
	b := c.take(1)
	if b == nil {
		return
	}
	switch b[0] {
	case 0xc2:
		*v = false
	case 0xc3:
		*v = true
	default:
		c.fail(ErrMalformed)
	}
}

// Float codes a float64. It also reads a float32 and integers: where a language
// does not tell 2 from 2.0, a sum of seconds may arrive as either.
func (c *Coder) Float(v *float64) {
	if !c.next() {
		return
	}
	if !c.read {
		c.buf = append(c.buf, 0xcb)
		c.buf = binary.BigEndian.AppendUint64(c.buf, math.Float64bits(*v))
		return
	}
	if len(c.buf) > 0 {
		switch c.buf[0] {
		case 0xcb:
			c.take(1)
			*v = math.Float64frombits(c.bigEndian(8))
			return
		case 0xca:
			c.take(1)
			*v = float64(math.Float32frombits(uint32(c.bigEndian(4))))
			return
		}
	}
	if u, negative := c.integer(); negative {
		*v = float64(int64(u))
	} else {
		*v = float64(u)
	}
}

// String codes a string; when reading, the bytes are copied.
func String[T ~string](c *Coder, v *T) {
	if !c.next() {
		return
	}
	if !c.read {
		c.buf = appendStringHeader(c.buf, len(*v))
		c.buf = append(c.buf, *v...)
		return
	}
	*v = T(c.bytes())
}

// Bytes codes a byte slice; when reading, it aliases the message.
func (c *Coder) Bytes(v *[]byte) {
	if !c.next() {
		return
	}
	if !c.read {
		c.buf = appendBinHeader(c.buf, len(*v))
		c.buf = append(c.buf, *v...)
		return
	}
	if b := c.bytes(); len(b) > 0 {
		*v = b
	}
}

// Hash codes a content hash, whose bytes are no text.
func (c *Coder) Hash(v *Hash) {
	if !c.next() {
		return
	}
	if !c.read {
		c.buf = appendBinHeader(c.buf, len(*v))
		c.buf = append(c.buf, *v...)
		return
	}
	*v = Hash(c.bytes())
}

// ID codes sixteen bytes.
func (c *Coder) ID(v *[16]byte) {
	if !c.next() {
		return
	}
	if !c.read {
		c.buf = appendBinHeader(c.buf, len(v))
		c.buf = append(c.buf, v[:]...)
		return
	}
	b := c.bytes()
	if c.err == nil && len(b) != len(v) {
		c.fail(ErrMalformed)
		return
	}
	copy(v[:], b)
}

// Slice codes a slice, each element by elem, which must code exactly one value.
func Slice[T any](c *Coder, v *[]T, elem func(*Coder, *T)) {
	if !c.next() {
		return
	}
	if !c.read {
		outer := c.fields
		c.buf = appendArray(c.buf, len(*v))
		for i := range *v {
			elem(c, &(*v)[i])
		}
		c.fields = outer
		return
	}
	if c.depth++; c.depth > maxDepth {
		c.fail(ErrMalformed)
		return
	}
	outer := c.left
	n := c.array()
	if c.err != nil {
		return
	}
	// Every element takes at least one byte, so n is at most what is left; the
	// capacity grows as elements really arrive.
	out := make([]T, 0, min(n, 256))
	c.left = n
	for range n {
		var e T
		elem(c, &e)
		if c.err != nil {
			return
		}
		out = append(out, e)
	}
	if n > 0 {
		*v = out
	}
	c.left = outer
	c.depth--
}

// Pointer codes an optional struct: nil, or what fields codes.
func Pointer[T any](c *Coder, v **T, fields func(*Coder, *T)) {
	if !c.read {
		if *v == nil {
			c.fields++
			c.buf = append(c.buf, 0xc0)
			return
		}
		fields(c, *v)
		return
	}
	if c.err != nil || c.left == 0 {
		return
	}
	if len(c.buf) > 0 && c.buf[0] == 0xc0 {
		c.left--
		c.buf = c.buf[1:]
		return
	}
	*v = new(T)
	fields(c, *v)
}

// ---- reading

func (c *Coder) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > len(c.buf) {
		c.fail(ErrTruncated)
		return nil
	}
	b := c.buf[:n:n]
	c.buf = c.buf[n:]
	return b
}

// bigEndian reads n bytes as an unsigned integer.
func (c *Coder) bigEndian(n int) (v uint64) {
	for _, x := range c.take(n) {
		v = v<<8 | uint64(x)
	}
	return v
}

// size reads a length of n bytes that counts at least that many bytes of the rest.
func (c *Coder) size(n int) int {
	v := c.bigEndian(n)
	if v > uint64(len(c.buf)) {
		c.fail(ErrTruncated)
		return 0
	}
	return int(v)
}

func (c *Coder) array() int {
	b := c.take(1)
	if b == nil {
		return 0
	}
	n := 0
	switch {
	case b[0]&0xf0 == 0x90:
		n = int(b[0] & 15)
	case b[0] == 0xdc:
		n = c.size(2)
	case b[0] == 0xdd:
		n = c.size(4)
	default:
		c.fail(ErrMalformed)
	}
	if n > len(c.buf) {
		c.fail(ErrTruncated)
		return 0
	}
	return n
}

// integer reads an integer of any form. When it is negative, v is its two's complement.
func (c *Coder) integer() (v uint64, negative bool) {
	b := c.take(1)
	if b == nil {
		return 0, false
	}
	switch k := b[0]; {
	case k < 0x80:
		return uint64(k), false
	case k >= 0xe0:
		return uint64(int8(k)), true
	case k >= 0xcc && k <= 0xcf:
		return c.bigEndian(1 << (k - 0xcc)), false
	case k >= 0xd0 && k <= 0xd3:
		n := 1 << (k - 0xd0)
		i := int64(c.bigEndian(n)<<(64-8*n)) >> (64 - 8*n)
		return uint64(i), i < 0
	}
	c.fail(ErrMalformed)
	return 0, false
}

func (c *Coder) uint() uint64 {
	v, negative := c.integer()
	if negative {
		c.fail(ErrMalformed)
		return 0
	}
	return v
}

func (c *Coder) int() int64 {
	v, negative := c.integer()
	if !negative && v > math.MaxInt64 {
		c.fail(ErrMalformed)
		return 0
	}
	return int64(v)
}

func (c *Coder) bytes() []byte {
	b := c.take(1)
	if b == nil {
		return nil
	}
	switch k := b[0]; {
	case k&0xe0 == 0xa0:
		return c.take(int(k & 31))
	case k == 0xc0:
		return nil
	case k == 0xc4, k == 0xd9:
		return c.take(c.size(1))
	case k == 0xc5, k == 0xda:
		return c.take(c.size(2))
	case k == 0xc6, k == 0xdb:
		return c.take(c.size(4))
	}
	c.fail(ErrMalformed)
	return nil
}

// skip passes over one value of any kind, as a newer peer may send it.
func (c *Coder) skip(depth int) {
	if len(c.buf) == 0 {
		c.fail(ErrTruncated)
		return
	}
	if depth > maxDepth {
		c.fail(ErrMalformed)
		return
	}
	children := 0
	switch k := c.buf[0]; {
	case k < 0x80, k >= 0xe0, k == 0xc0, k == 0xc2, k == 0xc3:
		c.take(1)
	case k&0xe0 == 0xa0, k >= 0xc4 && k <= 0xc6, k >= 0xd9 && k <= 0xdb:
		c.bytes()
	case k&0xf0 == 0x90, k == 0xdc, k == 0xdd:
		children = c.array()
	case k&0xf0 == 0x80:
		c.take(1)
		children = 2 * int(k&15)
	case k == 0xde, k == 0xdf:
		c.take(1)
		children = 2 * c.size(2<<(k-0xde))
	case k >= 0xcc && k <= 0xcf:
		c.take(1 + 1<<(k-0xcc))
	case k >= 0xd0 && k <= 0xd3:
		c.take(1 + 1<<(k-0xd0))
	case k == 0xca:
		c.take(5)
	case k == 0xcb:
		c.take(9)
	case k >= 0xc7 && k <= 0xc9: // ext: size, type, bytes
		c.take(1)
		c.take(1 + c.size(1<<(k-0xc7)))
	case k >= 0xd4 && k <= 0xd8: // fixext
		c.take(2 + 1<<(k-0xd4))
	default:
		c.fail(ErrMalformed)
	}
	for ; children > 0 && c.err == nil; children-- {
		c.skip(depth + 1)
	}
}

// ---- writing

func appendUint(b []byte, v uint64) []byte {
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

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(b, uint64(v))
	case v >= -32:
		return append(b, byte(v))
	case v >= math.MinInt8:
		return append(b, 0xd0, byte(v))
	case v >= math.MinInt16:
		return append(b, 0xd1, byte(v>>8), byte(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
}

func appendArray(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n <= math.MaxUint16:
		return append(b, 0xdc, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdd), uint32(n))
}

func appendStringHeader(b []byte, n int) []byte {
	switch {
	case n < 32:
		return append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		return append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		return append(b, 0xda, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
}

func appendBinHeader(b []byte, n int) []byte {
	switch {
	case n <= math.MaxUint8:
		return append(b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		return append(b, 0xc5, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
}
