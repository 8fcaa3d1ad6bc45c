package shm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// DType names the type of an array's numbers. The name is what descriptors carry.
type DType string

// The types of numbers.
const (
	F64 DType = "f64"
	F32 DType = "f32"
	I64 DType = "i64"
	I32 DType = "i32"
	I16 DType = "i16"
	I8  DType = "i8"
	U64 DType = "u64"
	U32 DType = "u32"
	U16 DType = "u16"
	U8  DType = "u8"
)

// Size is the number of bytes of one number, 0 for an unknown type.
func (d DType) Size() int64 {
	switch d {
	case F64, I64, U64:
		return 8
	case F32, I32, U32:
		return 4
	case I16, U16:
		return 2
	case I8, U8:
		return 1
	}
	return 0
}

// DTypeOf returns the name of a Go type.
func DTypeOf[T Number]() DType {
	var t T
	switch any(t).(type) {
	case float64:
		return F64
	case float32:
		return F32
	}
	// What remains are integers, also under names of their own, and named floats.
	var half T = 1
	half /= 2
	size := strconv.Itoa(8 * len(Bytes([]T{t})))
	switch zero := T(0); {
	case half != 0:
		return DType("f" + size)
	case zero-1 < zero:
		return DType("i" + size)
	default:
		return DType("u" + size)
	}
}

// MaxDims bounds the dimensions of an array.
const MaxDims = 32

// Array describes a dense array, row by row (the last index runs fastest), little-endian, without padding.
// An empty shape is a single number.
type Array struct {
	DType DType
	Shape []int64
}

// Bytes is the size of the array; the error tells an unknown type, a negative or an absurd shape.
func (a Array) Bytes() (int64, error) {
	n := a.DType.Size()
	if n == 0 {
		return 0, fmt.Errorf("array: unknown type %q, known are f64 f32 i64 i32 i16 i8 u64 u32 u16 u8", string(a.DType))
	}
	if len(a.Shape) > MaxDims {
		return 0, fmt.Errorf("array: %d dimensions, at most %d", len(a.Shape), MaxDims)
	}
	for _, d := range a.Shape {
		if d < 0 {
			return 0, fmt.Errorf("array %v: dimension %d is negative", a, d)
		}
	}
	if slices.Contains(a.Shape, 0) {
		return 0, nil
	}
	for _, d := range a.Shape {
		if n > math.MaxInt64/d {
			return 0, fmt.Errorf("array %v: its size overflows", a)
		}
		n *= d
	}
	return n, nil
}

// String prints f64[3 4]; ParseArray reads it. It is the form in which descriptors carry arrays.
func (a Array) String() string {
	var b strings.Builder
	b.WriteString(string(a.DType))
	b.WriteByte('[')
	for i, d := range a.Shape {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatInt(d, 10))
	}
	b.WriteByte(']')
	return b.String()
}

// ParseArray is the inverse of String and checks type and shape.
func ParseArray(s string) (Array, error) {
	name, rest, ok := strings.Cut(s, "[")
	shape, ok2 := strings.CutSuffix(rest, "]")
	if !ok || !ok2 {
		return Array{}, fmt.Errorf("array %q: want a type and a shape, as in f64[3 4]", s)
	}
	a := Array{DType: DType(name), Shape: []int64{}}
	for _, f := range strings.Fields(shape) {
		d, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return Array{}, fmt.Errorf("array %q: dimension: %w", s, err)
		}
		a.Shape = append(a.Shape, d)
		if len(a.Shape) > MaxDims {
			break
		}
	}
	if _, err := a.Bytes(); err != nil {
		return Array{}, err
	}
	return a, nil
}

// ViewArray is View with a check that type and size are those of the descriptor.
func ViewArray[T Number](a Array, b []byte) ([]T, error) {
	if want := DTypeOf[T](); a.DType != want {
		return nil, fmt.Errorf("array %v read as %v", a, want)
	}
	n, err := a.Bytes()
	if err != nil {
		return nil, err
	}
	if n != int64(len(b)) {
		return nil, fmt.Errorf("array %v needs %d bytes, there are %d: %w", a, n, len(b), ErrBounds)
	}
	return View[T](b)
}
