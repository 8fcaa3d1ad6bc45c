package value

import (
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"unsafe"
)

// Number is an element type of arrays.
type Number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~int | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uint |
		~float32 | ~float64 | ~complex64 | ~complex128
}

// Array is a tensor: numbers in row-major order and their shape. As an input it
// is a read-only view over shared memory.
type Array[T Number] struct {
	Data  []T
	Shape []int // extents, slowest first; their product is len(Data)
}

// At returns one element. It panics when the indices do not fit the shape, like a slice does.
func (a Array[T]) At(index ...int) T { return a.Data[a.offset(index)] }

// Set changes one element. Inputs must not be changed: see Array.
func (a Array[T]) Set(v T, index ...int) { a.Data[a.offset(index)] = v }

// Row returns the sub-array at a position of the first axis, without a copy.
func (a Array[T]) Row(i int) Array[T] {
	n := len(a.Data) / a.Shape[0]
	return Array[T]{Data: a.Data[i*n : (i+1)*n : (i+1)*n], Shape: a.Shape[1:]}
}

func (a Array[T]) offset(index []int) int {
	if len(index) != len(a.Shape) {
		panic(fmt.Sprintf("array of shape %v indexed with %d numbers", a.Shape, len(index)))
	}
	at := 0
	for k, i := range index {
		if i < 0 || i >= a.Shape[k] {
			panic(fmt.Sprintf("index %v is outside the array of shape %v", index, a.Shape))
		}
		at = at*a.Shape[k] + i
	}
	return at
}

// filler is what an Array[T] is to code that does not know T.
type filler interface {
	fill(bytes []byte, shape []int)
	flat() (bytes []byte, shape []int, err error)
	elem() reflect.Type
}

func (a *Array[T]) elem() reflect.Type { return reflect.TypeFor[T]() }

func (a *Array[T]) fill(b []byte, shape []int) {
	var zero T
	a.Data = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
	a.Shape = shape
}

func (a *Array[T]) flat() ([]byte, []int, error) {
	n, err := product(a.Shape)
	if err != nil || n != len(a.Data) {
		return nil, nil, fmt.Errorf("array of shape %v holds %d numbers", a.Shape, len(a.Data))
	}
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(a.Data))), len(a.Data)*int(unsafe.Sizeof(zero))), a.Shape, nil
}

// View is the numbers of b without a copy; b must be aligned and hold whole numbers.
func View[T Number](b []byte, shape ...int) Array[T] {
	var a Array[T]
	a.fill(b, shape)
	return a
}

// product multiplies extents; negative ones and overflow are errors.
func product(shape []int) (int, error) {
	n := uint64(1)
	for _, s := range shape {
		if s < 0 {
			return 0, fmt.Errorf("shape %v has a negative extent", shape)
		}
		hi, lo := bits.Mul64(n, uint64(s))
		if hi != 0 || lo > 1<<62 {
			return 0, fmt.Errorf("shape %v holds too many numbers", shape)
		}
		n = lo
	}
	return int(n), nil
}

// Size returns how many bytes an array of T with a shape takes.
func Size[T Number](shape ...int) (int, error) {
	var zero T
	n, err := product(append(slices.Clone(shape), int(unsafe.Sizeof(zero))))
	if err != nil {
		return 0, err
	}
	return n, nil
}

// dtypeOf names the dtype of a kind of number, "" for other kinds.
func dtypeOf(k reflect.Kind) string {
	switch k {
	case reflect.Float64:
		return "f64"
	case reflect.Float32:
		return "f32"
	case reflect.Int64, reflect.Int:
		return "i64"
	case reflect.Int32:
		return "i32"
	case reflect.Int16:
		return "i16"
	case reflect.Int8:
		return "i8"
	case reflect.Uint64, reflect.Uint:
		return "u64"
	case reflect.Uint32:
		return "u32"
	case reflect.Uint16:
		return "u16"
	case reflect.Uint8:
		return "u8"
	case reflect.Complex64:
		return "c64"
	case reflect.Complex128:
		return "c128"
	}
	return ""
}

// numbers checks that f holds an array with elements of type elem, and returns
// its bytes, aligned, and its shape. Raw bytes count as a one-dimensional array.
func numbers(f Flat, elem reflect.Type) ([]byte, []int, error) {
	want, size := dtypeOf(elem.Kind()), int(elem.Size())
	var shape []int
	switch {
	case f.Codec == Numbers && f.DType == want:
		shape = make([]int, len(f.Shape))
		for i, s := range f.Shape {
			if s > 1<<62 {
				return nil, nil, fmt.Errorf("shape %v is too large", f.Shape)
			}
			shape[i] = int(s)
		}
	case f.Codec == Raw && len(f.Bytes)%size == 0:
		shape = []int{len(f.Bytes) / size}
	default:
		return nil, nil, mismatch(f, "an array of "+want)
	}
	n, err := product(append(slices.Clip(shape), size))
	if err != nil {
		return nil, nil, err
	}
	if n != len(f.Bytes) {
		return nil, nil, fmt.Errorf("array of %s with shape %v takes %d bytes, there are %d", want, shape, n, len(f.Bytes))
	}
	b := f.Bytes
	if len(b) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(elem.Align()) != 0 {
		b = aligned(b)
	}
	return b, shape, nil
}

// aligned copies b to memory that is aligned for every number.
func aligned(b []byte) []byte {
	out := Room(len(b))
	copy(out, b)
	return out
}

func mismatch(f Flat, want string) error {
	have := f.Codec
	switch f.Codec {
	case Pickle:
		have = Pickled(f.DType)
	case Numbers:
		have = fmt.Sprintf("an array of %s with shape %v", f.DType, f.Shape)
	}
	return fmt.Errorf("%w: it is %s, the function takes %s", ErrType, have, want)
}

func shape64(shape []int) []uint64 {
	out := make([]uint64, len(shape))
	for i, s := range shape {
		out[i] = uint64(s)
	}
	return out
}

// Aliases is true for all codecs of numbers.
func (arrayCodec) Aliases() bool { return true }

// Aliases is true: see arrayCodec.
func (sliceCodec) Aliases() bool { return true }

// Aliases is true unless the matrix is a slice of a larger one.

// arrayCodec handles Array[T].
type arrayCodec struct{ t reflect.Type }

func (c arrayCodec) Text() string {
	return "array " + dtypeOf(reflect.New(c.t).Interface().(filler).elem().Kind())
}

func (c arrayCodec) Encode(v any) (Flat, error) {
	p := reflect.New(c.t)
	p.Elem().Set(reflect.ValueOf(v))
	a := p.Interface().(filler)
	b, shape, err := a.flat()
	if err != nil {
		return Flat{}, err
	}
	return Flat{Codec: Numbers, DType: dtypeOf(a.elem().Kind()), Shape: shape64(shape), Bytes: b}, nil
}

func (c arrayCodec) Decode(f Flat) (any, error) {
	p := reflect.New(c.t)
	a := p.Interface().(filler)
	b, shape, err := numbers(f, a.elem())
	if err != nil {
		return nil, err
	}
	a.fill(b, shape)
	return p.Elem().Interface(), nil
}

// sliceCodec handles slices of numbers, also of named types. Arrays of any
// shape can be read as a slice; the shape is then lost.
type sliceCodec struct{ t reflect.Type }

func (c sliceCodec) Text() string { return "array " + dtypeOf(c.t.Elem().Kind()) }

func (c sliceCodec) Encode(v any) (Flat, error) {
	s := reflect.ValueOf(v)
	n := s.Len()
	b := unsafe.Slice((*byte)(s.UnsafePointer()), n*int(c.t.Elem().Size()))
	return Flat{Codec: Numbers, DType: dtypeOf(c.t.Elem().Kind()), Shape: []uint64{uint64(n)}, Bytes: b}, nil
}

func (c sliceCodec) Decode(f Flat) (any, error) {
	b, _, err := numbers(f, c.t.Elem())
	if err != nil {
		return nil, err
	}
	s := reflect.SliceAt(c.t.Elem(), unsafe.Pointer(unsafe.SliceData(b)), len(b)/int(c.t.Elem().Size()))
	return s.Convert(c.t).Interface(), nil
}

// Room returns n bytes that are aligned for every number.
func Room(n int) []byte {
	words := make([]complex128, (n+15)/16)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}
