package value

import (
	"encoding"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"
)

// bytesCodec handles []byte and types made from it.
type bytesCodec struct{ t reflect.Type }

func (bytesCodec) Aliases() bool { return true }

func (bytesCodec) Text() string { return "raw" }

func (bytesCodec) Encode(v any) (Flat, error) {
	return Flat{Codec: Raw, Bytes: reflect.ValueOf(v).Bytes()}, nil
}

// Decode accepts any dataset but msgpack: to look at bytes one need not know what they mean.
func (c bytesCodec) Decode(f Flat) (any, error) {
	if f.Codec == Msgpack {
		return nil, mismatch(f, "bytes")
	}
	if b := f.Bytes; c.t == reflect.TypeFor[[]byte]() {
		return b, nil
	}
	return reflect.ValueOf(f.Bytes).Convert(c.t).Interface(), nil
}

// stringCodec handles string and types made from it. Strings are read by copy,
// so that they stay valid after the task.
type stringCodec struct{ t reflect.Type }

// Aliases is false: strings are copied when they are read.
func (stringCodec) Aliases() bool { return false }

func (stringCodec) Text() string { return "raw text" }

func (stringCodec) Encode(v any) (Flat, error) {
	s := reflect.ValueOf(v).String()
	return Flat{Codec: Raw, Bytes: unsafe.Slice(unsafe.StringData(s), len(s))}, nil
}

func (c stringCodec) Decode(f Flat) (any, error) {
	if f.Codec != Raw {
		return nil, mismatch(f, "text")
	}
	return reflect.ValueOf(string(f.Bytes)).Convert(c.t).Interface(), nil
}

// msgpackCodec handles everything else.
type msgpackCodec struct{ t reflect.Type }

func (msgpackCodec) Aliases() bool { return false }

func (c msgpackCodec) Text() string { return "msgpack " + c.t.String() }

func (c msgpackCodec) Encode(v any) (Flat, error) {
	b, refs, err := marshal(v)
	if err != nil {
		return Flat{}, fmt.Errorf("encode %s as msgpack: %w", c.t, err)
	}
	return Flat{Codec: Msgpack, Bytes: b, References: refs}, nil
}

func (c msgpackCodec) Decode(f Flat) (any, error) {
	if f.Codec != Msgpack {
		return nil, mismatch(f, typeName(c.t))
	}
	if err := CheckMsgpack(f.Bytes); err != nil {
		return nil, fmt.Errorf("%w: decode %s: %w", ErrType, c.t, err)
	}
	p := reflect.New(c.t)
	if err := unmarshal(f.Bytes, p.Interface(), f.Refer); err != nil {
		return nil, fmt.Errorf("%w: the function takes %s: %w", ErrType, typeName(c.t), err)
	}
	return p.Elem().Interface(), nil
}

// marshals tells whether a type brings its own encoding that msgpack uses.
func marshals(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	for _, i := range []reflect.Type{
		reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.Marshaler](),
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler](),
	} {
		if p.Implements(i) {
			return true
		}
	}
	return false
}

// User is the codec that a user's pair of functions makes.
type User[T any] struct {
	Name string
	Enc  func(T) ([]byte, error)
	Dec  func([]byte) (T, error)
}

// Aliases is false; a codec that returns a part of its value must see to it that the value stays as it is.
func (User[T]) Aliases() bool { return false }

// Text names the codec.
func (u User[T]) Text() string { return "codec " + u.Name }

// Encode calls the user's function.
func (u User[T]) Encode(v any) (Flat, error) {
	b, err := u.Enc(v.(T))
	if err != nil {
		return Flat{}, fmt.Errorf("codec %s: encode: %w", u.Name, err)
	}
	return Flat{Codec: u.Name, Bytes: b}, nil
}

// Decode calls the user's function, also for bytes that a command wrote.
func (u User[T]) Decode(f Flat) (any, error) {
	if f.Codec != u.Name && f.Codec != Raw {
		return nil, mismatch(f, "codec "+u.Name)
	}
	v, err := u.Dec(f.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%w: codec %s: decode: %w", ErrType, u.Name, err)
	}
	return v, nil
}
