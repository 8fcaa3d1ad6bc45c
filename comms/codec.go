package comms

import (
	"fmt"
	"unsafe"

	"github.com/cascade-run/cascade/comms/internal/msgpack"
)

// Errors of the decoder. Both mean that the sender is broken or hostile.
var (
	ErrTruncated = msgpack.ErrTruncated
	ErrMalformed = msgpack.ErrMalformed
)

// Coder walks the fields of a message in wire order, writing them or reading
// them: each message lists its fields once, for both directions.
//
// The wire form is msgpack. A struct is an array; a reader skips trailing
// elements it does not know and leaves fields the sender did not know at zero;
// nil in place of a field leaves it at zero too. A writer uses the shortest form
// of each value, so that equal messages are equal bytes; a reader takes any form
// that holds the value (docs/protocol/encoding.md, "Encoding").
// When reading, byte slices and strings alias or copy the input as documented;
// the first error sticks, and the remaining fields stay zero.
type Coder struct {
	buf    []byte         // writing: what was written
	in     msgpack.Reader // reading: what is left, and the first error
	read   bool
	left   int // elements left in the current array, when reading
	fields int // elements written to the current array, when writing
	depth  int
	memory int // bytes that records may still take, when reading
	folded int // entries that are in blocks, with their parts
}

const maxDepth = 16 // nesting of arrays in any message

// Records take more memory than their bytes on the wire, an event of few fields
// about ten times. A message that asks for much more is hostile.
const (
	memoryPerByte = 24
	memoryAtLeast = 64 << 10
)

// afford takes memory for n records of a type out of the message's budget.
func afford[T any](c *Coder, n int) bool {
	var record T
	if c.memory -= n * int(unsafe.Sizeof(record)); c.memory < 0 {
		c.in.Fail(ErrMalformed)
		return false
	}
	return true
}

// deeper enters an array that is read; it tells whether that is allowed.
func (c *Coder) deeper() bool {
	if c.depth++; c.depth > maxDepth {
		c.in.Fail(ErrMalformed)
		return false
	}
	return true
}

// skipRest passes over the elements of the current array that this version does not know.
func (c *Coder) skipRest() {
	for ; c.left > 0 && c.in.Err == nil; c.left-- {
		c.in.Skip(maxDepth)
	}
}

// Struct codes an array of n elements: fields must visit exactly n.
func (c *Coder) Struct(n int, fields func(*Coder)) {
	if !c.read {
		outer := c.fields
		c.buf = msgpack.AppendArray(c.buf, n)
		c.fields = 0
		fields(c)
		if c.fields != n {
			panic(fmt.Sprintf("comms: a message announces %d fields and lists %d", n, c.fields))
		}
		c.fields = outer + 1
		return
	}
	if !c.next() || !c.deeper() {
		return
	}
	outer := c.left
	c.left = c.in.Array()
	fields(c)
	c.skipRest()
	c.left = outer
	c.depth--
}

// next reports whether the next element is to be coded; when reading past the
// end of the array, or a nil, it is not, and the field keeps its zero value.
func (c *Coder) next() bool {
	if !c.read {
		c.fields++
		return true
	}
	if c.in.Err != nil || c.left == 0 {
		return false
	}
	c.left--
	return !c.in.Nil()
}

// Uint codes an unsigned integer of any width; a value too large for T is malformed.
func Uint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](c *Coder, v *T) {
	if !c.next() {
		return
	}
	if !c.read {
		c.buf = msgpack.AppendUint(c.buf, uint64(*v))
		return
	}
	u := c.in.Uint()
	if uint64(T(u)) != u {
		c.in.Fail(ErrMalformed)
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
		c.buf = msgpack.AppendInt(c.buf, int64(*v))
		return
	}
	i := c.in.Int()
	if int64(T(i)) != i {
		c.in.Fail(ErrMalformed)
		return
	}
	*v = T(i)
}

// Bool codes a boolean.
func (c *Coder) Bool(v *bool) {
	switch {
	case !c.next():
	case c.read:
		*v = c.in.Bool()
	default:
		c.buf = msgpack.AppendBool(c.buf, *v)
	}
}

// Float codes a float64; when reading, other numbers are taken too.
func (c *Coder) Float(v *float64) {
	switch {
	case !c.next():
	case c.read:
		*v = c.in.Float()
	default:
		c.buf = msgpack.AppendFloat(c.buf, *v)
	}
}

// String codes a string; when reading, the bytes are copied.
func String[T ~string](c *Coder, v *T) {
	switch {
	case !c.next():
	case c.read:
		*v = T(c.in.Bytes())
	default:
		c.buf = msgpack.AppendString(c.buf, *v)
	}
}

// Bytes codes a byte slice; when reading, it aliases the message.
func (c *Coder) Bytes(v *[]byte) {
	switch {
	case !c.next():
	case c.read:
		if b := c.in.Bytes(); len(b) > 0 {
			*v = b
		}
	default:
		c.buf = msgpack.AppendBytes(c.buf, *v)
	}
}

// Hash codes a content hash, whose bytes are no text.
func (c *Coder) Hash(v *Hash) {
	switch {
	case !c.next():
	case c.read:
		*v = Hash(c.in.Bytes())
	default:
		c.buf = msgpack.AppendBytes(c.buf, *v)
	}
}

// ID codes sixteen bytes.
func (c *Coder) ID(v *[16]byte) {
	if !c.next() {
		return
	}
	if !c.read {
		c.buf = msgpack.AppendBytes(c.buf, v[:])
		return
	}
	b := c.in.Bytes()
	if len(b) != len(v) {
		c.in.Fail(ErrMalformed)
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
		c.buf = msgpack.AppendArray(c.buf, len(*v))
		for i := range *v {
			elem(c, &(*v)[i])
		}
		c.fields = outer
		return
	}
	n := c.in.Array()
	if n == 0 || !c.deeper() {
		return
	}
	outer := c.left
	if !afford[T](c, n) { // all slices of a message together take no more than its budget
		return
	}
	out := make([]T, 0, n)
	c.left = n
	for range n {
		var zero T
		out = append(out, zero)
		if elem(c, &out[len(out)-1]); c.in.Err != nil {
			return
		}
	}
	*v = out
	c.left = outer
	c.depth--
}

// Pointer codes an optional struct: nil, or what fields codes.
func Pointer[T any](c *Coder, v **T, fields func(*Coder, *T)) {
	if !c.read {
		if *v == nil {
			c.fields++
			c.buf = append(c.buf, msgpack.Nil)
			return
		}
		fields(c, *v)
		return
	}
	if c.in.Err != nil || c.left == 0 {
		return
	}
	if c.in.Nil() {
		c.left--
		return
	}
	if !afford[T](c, 1) {
		return
	}
	*v = new(T)
	fields(c, *v)
}
