package shm

import (
	"fmt"
	"unsafe"

	"gonum.org/v1/gonum/mat"
)

// Number is what arrays are made of.
type Number interface {
	~float64 | ~float32 | ~int64 | ~int32 | ~int16 | ~int8 | ~uint64 | ~uint32 | ~uint16 | ~uint8
}

// View interprets bytes as numbers without a copy. The length must be a multiple of T's size and the first
// byte aligned to it, which Alloc with that alignment gives. The bytes are little-endian, as are all
// machines that we build for.
func View[T Number](b []byte) ([]T, error) {
	var t T
	size := int(unsafe.Sizeof(t))
	if len(b)%size != 0 {
		return nil, fmt.Errorf("%d bytes are no whole number of %T: %w", len(b), t, ErrBounds)
	}
	if len(b) == 0 {
		return []T{}, nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%uintptr(size) != 0 {
		return nil, fmt.Errorf("bytes for %T begin at %p, which is no multiple of %d: %w", t, p, size, ErrBounds)
	}
	return unsafe.Slice((*T)(p), len(b)/size), nil
}

// Bytes is the inverse of View: the bytes that numbers occupy.
func Bytes[T Number](v []T) []byte {
	if len(v) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0])))
}

// Dense gives a gonum matrix over bytes that hold rows x cols float64, row by row, without a copy. Writing
// to a matrix over a read-only view is a fault.
func Dense(b []byte, rows, cols int) (*mat.Dense, error) {
	v, err := View[float64](b)
	if err != nil {
		return nil, err
	}
	if rows < 1 || cols < 1 || rows > len(v)/cols || rows*cols != len(v) {
		return nil, fmt.Errorf("a matrix of %d x %d over %d numbers: %w", rows, cols, len(v), ErrBounds)
	}
	return mat.NewDense(rows, cols, v), nil
}
