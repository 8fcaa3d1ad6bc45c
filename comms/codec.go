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
// elements it does not know and leaves fields the sender did not know at zero.
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
// end of the array it is not, and the field keeps its zero value.
func (c *Coder) next() bool {
	if !c.read {
		c.fields++
		return true
	}
	if c.err != nil || c.left == 0 {
		return false
	}
	c.left--
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

// Float codes a float64.
func (c *Coder) Float(v *float64) {
	if !c.next() {
		return
	}
	if !c.read {
		c.buf = append(c.buf, 0xcb)
		c.buf = binary.BigEndian.AppendUint64(c.buf, math.Float64bits(*v))
		return
	}
	b := c.take(9)
	if b == nil {
		return
	}
	if b[0] != 0xcb {
		c.fail(ErrMalformed)
		return
	}
	*v = math.Float64frombits(binary.BigEndian.Uint64(b[1:]))
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

// size reads a big-endian length of n bytes that counts at least that many bytes of the rest.
func (c *Coder) size(n int) int {
	b := c.take(n)
	if b == nil {
		return 0
	}
	var v uint64
	for _, x := range b {
		v = v<<8 | uint64(x)
	}
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

func (c *Coder) uint() uint64 {
	b := c.take(1)
	if b == nil {
		return 0
	}
	if b[0] < 0x80 {
		return uint64(b[0])
	}
	if b[0] < 0xcc || b[0] > 0xcf {
		c.fail(ErrMalformed)
		return 0
	}
	var v uint64
	for _, x := range c.take(1 << (b[0] - 0xcc)) {
		v = v<<8 | uint64(x)
	}
	return v
}

func (c *Coder) int() int64 {
	if len(c.buf) > 0 {
		switch k := c.buf[0]; {
		case k >= 0xe0:
			c.buf = c.buf[1:]
			return int64(int8(k))
		case k >= 0xd0 && k <= 0xd3:
			c.buf = c.buf[1:]
			n := 1 << (k - 0xd0)
			var v uint64
			for _, x := range c.take(n) {
				v = v<<8 | uint64(x)
			}
			return int64(v<<(64-8*n)) >> (64 - 8*n)
		}
	}
	u := c.uint()
	if u > math.MaxInt64 {
		c.fail(ErrMalformed)
		return 0
	}
	return int64(u)
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

// skip passes over one value of any kind.
func (c *Coder) skip(depth int) {
	if len(c.buf) == 0 || depth > maxDepth {
		c.fail(ErrMalformed)
		return
	}
	k := c.buf[0]
	switch {
	case k < 0x80, k >= 0xe0, k == 0xc0, k == 0xc2, k == 0xc3:
		c.take(1)
	case k&0xe0 == 0xa0, k >= 0xc4 && k <= 0xc6, k >= 0xd9 && k <= 0xdb:
		c.bytes()
	case k&0xf0 == 0x90, k == 0xdc, k == 0xdd:
		for n := c.array(); n > 0 && c.err == nil; n-- {
			c.skip(depth + 1)
		}
	case k >= 0xcc && k <= 0xcf:
		c.take(1 + 1<<(k-0xcc))
	case k >= 0xd0 && k <= 0xd3:
		c.take(1 + 1<<(k-0xd0))
	case k == 0xca:
		c.take(5)
	case k == 0xcb:
		c.take(9)
	default:
		c.fail(ErrMalformed) // maps and extensions occur in no message of ours
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
