package value

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
)

// Names of the built-in codecs, as they stand in descriptors.
const (
	Raw     = "raw"     // bytes without structure: []byte, string, files of commands
	Numbers = "array"   // numbers of one dtype in row-major order
	Msgpack = "msgpack" // any value
	Pickle  = "pickle5" // objects of Python, which only its tasks read
	XArray  = "xarray"  // objects of Python's xarray: their labels and arrays, which only its tasks read
)

// Flat is an encoded value: what a descriptor says about it, and its bytes.
type Flat struct {
	Codec string
	DType string   // of an array
	Shape []uint64 // of an array, row-major
	Bytes []byte

	References []any         // that Encode found in the value, as Bytes number them
	Refer      func(Ref) any // for Decode: what stands for such a reference; nil: the value may have none
}

// Codec translates values of one Go type.
type Codec interface {
	// Encode returns v's bytes; they may alias v.
	Encode(v any) (Flat, error)
	// Decode returns a value of the codec's type; it may alias f.Bytes, which are read-only.
	Decode(f Flat) (any, error)
	// Aliases tells whether Encode returns the value's own memory.
	Aliases() bool
	// Text names the encoding in signatures, for example "array f64".
	Text() string
}

// ErrType says that a dataset does not hold what the function takes.
var ErrType = errors.New("dataset is of another type")

// Codecs resolves types to codecs. The zero value knows the built-in ones.
type Codecs struct {
	mu    sync.Mutex
	users map[reflect.Type]Codec
	names map[string]reflect.Type
	cache map[reflect.Type]Codec
}

// Add registers a codec for one type under a name. Names and types are unique.
func (c *Codecs) Add(t reflect.Type, name string, codec Codec) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch name {
	case "", Raw, Numbers, Msgpack, Pickle, XArray:
		return fmt.Errorf("codec %q for %s: the name is empty or built in; choose another", name, t)
	}
	if other, ok := c.names[name]; ok {
		return fmt.Errorf("codec %q for %s: the name is taken by the codec of %s", name, t, other)
	}
	if _, ok := c.users[t]; ok {
		return fmt.Errorf("codec %q for %s: the type has a codec already", name, t)
	}
	if c.users == nil {
		c.users, c.names = map[reflect.Type]Codec{}, map[string]reflect.Type{}
	}
	c.users[t], c.names[name] = codec, t
	delete(c.cache, t)
	return nil
}

// AddForm registers a codec for one type whose values have the form of a built-in codec, such
// as an array of numbers.
func (c *Codecs) AddForm(t reflect.Type, codec Codec) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.users[t]; ok {
		return fmt.Errorf("codec for %s: the type has a codec already", t)
	}
	if c.users == nil {
		c.users, c.names = map[reflect.Type]Codec{}, map[string]reflect.Type{}
	}
	c.users[t] = codec
	delete(c.cache, t)
	return nil
}

// optional are types of other libraries that a package of ours has a codec for. Without it
// msgpack would carry some of them, as bytes that nothing else reads.
var optional = map[string]struct{ of, codec string }{
	"*mat.Dense": {"gonum.org/v1/gonum/mat", "github.com/cascade-run/cascade/executor/densecodec"},
}

// For returns the codec of a type: the user's, a flat one, or msgpack. Types
// that cannot travel (functions, channels, interfaces other than any) are refused.
func (c *Codecs) For(t reflect.Type) (Codec, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.cache[t]; ok {
		return k, nil
	}
	k, err := c.find(t)
	if err != nil {
		return nil, err
	}
	if c.cache == nil {
		c.cache = map[reflect.Type]Codec{}
	}
	c.cache[t] = k
	return k, nil
}

func (c *Codecs) find(t reflect.Type) (Codec, error) {
	if k, ok := c.users[t]; ok {
		return k, nil
	}
	if p, ok := optional[t.String()]; ok && t.Kind() == reflect.Pointer && t.Elem().PkgPath() == p.of {
		return nil, fmt.Errorf("values of type %s travel in programs that import %q", t, p.codec)
	}
	if _, ok := reflect.New(t).Interface().(filler); ok {
		return arrayCodec{t}, nil
	}
	switch t.Kind() {
	case reflect.String:
		return stringCodec{t}, nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesCodec{t}, nil
		}
		if dtypeOf(t.Elem().Kind()) != "" {
			return sliceCodec{t}, nil
		}
	}
	if err := travels(t, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	order(t)
	return msgpackCodec{t}, nil
}

// fieldTravels tells whether msgpack carries a field of a struct.
func fieldTravels(f *reflect.StructField) bool {
	return f.Tag.Get("msgpack") != "-" && (f.IsExported() || f.Anonymous)
}

// travels tells why msgpack cannot carry a type between processes.
func travels(t reflect.Type, seen map[reflect.Type]bool) error {
	if seen[t] {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Uintptr, reflect.Complex64, reflect.Complex128:
		return fmt.Errorf("values of type %s cannot travel between processes", t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("values of interface type %s cannot travel between processes: register a codec for it", t)
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return travels(t.Elem(), seen)
	case reflect.Map:
		if err := travels(t.Key(), seen); err != nil {
			return err
		}
		return travels(t.Elem(), seen)
	case reflect.Struct:
		if marshals(t) {
			return nil
		}
		visible := 0
		for i := range t.NumField() {
			f := t.Field(i)
			if !fieldTravels(&f) {
				continue
			}
			visible++
			if err := travels(f.Type, seen); err != nil {
				return fmt.Errorf("field %s of %s: %w", f.Name, t, err)
			}
		}
		if visible == 0 && t.NumField() > 0 {
			return fmt.Errorf("struct %s has no exported field, so nothing of it would travel: export fields or register a codec", t)
		}
	}
	return nil
}
