package value

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"slices"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Equal maps are equal bytes: a dataset that is made a second time has its hash. The package msgpack sorts maps of texts
// to texts, truth values and any when it is told to; maps of other types it writes as they come. These are registered
// with it, type by type: those that a type has in it when its codec is made, those of values within an any when such a value is
// encoded. Types that encode themselves are left alone.

// order registers the maps within values of a type. It tells whether there may be values of any type in them.
func order(t reflect.Type) (open bool) {
	if known, ok := ordered.Load(t); ok {
		return known.(bool)
	}
	open = orderWithin(t, map[reflect.Type]bool{})
	ordered.Store(t, open)
	return open
}

var ordered sync.Map // of reflect.Type, whether there may be values of any type in it

func orderWithin(t reflect.Type, seen map[reflect.Type]bool) (open bool) {
	if seen[t] || marshals(t) {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return orderWithin(t.Elem(), seen)
	case reflect.Map:
		register(t)
		key := orderWithin(t.Key(), seen)
		return orderWithin(t.Elem(), seen) || key
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); fieldTravels(&f) {
				open = orderWithin(f.Type, seen) || open
			}
		}
	}
	return open
}

var registering sync.Mutex

// register has maps of a type written in order, unless msgpack does it or the program has taught it to write them in a way of its own.
func register(t reflect.Type) {
	if t.Key() == reflect.TypeFor[string]() {
		switch t.Elem() {
		case reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[any]():
			return
		}
	}
	registering.Lock()
	defer registering.Unlock()
	one := reflect.MakeMap(t) // of one entry: its order says nothing
	one.SetMapIndex(reflect.Zero(t.Key()), reflect.Zero(t.Elem()))
	var plain bytes.Buffer
	by := encoder(&plain)
	err := errors.Join(by.EncodeMapLen(1), by.EncodeValue(reflect.Zero(t.Key())), by.EncodeValue(reflect.Zero(t.Elem())))
	var is bytes.Buffer
	if err == nil && encoder(&is).EncodeValue(one) == nil && bytes.Equal(is.Bytes(), plain.Bytes()) {
		msgpack.Register(reflect.Zero(t).Interface(), encodeMap, nil)
	}
}

// orderValue is order for a value, with what its interfaces hold.
func orderValue(v reflect.Value) {
	if !v.IsValid() || !order(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		orderValue(v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			orderValue(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			orderValue(it.Key())
			orderValue(it.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); fieldTravels(&f) { // others may be shared, or lead back here
				orderValue(v.Field(i))
			}
		}
	}
}

// marshal encodes a value as msgpack, its maps in the order of their keys.
func marshal(v any) ([]byte, []any, error) {
	orderValue(reflect.ValueOf(v))
	var b referring
	enc := msgpack.GetEncoder()
	err := setUp(enc, &b).Encode(v)
	msgpack.PutEncoder(enc)
	return b.Bytes(), b.found, err
}

func encoder(to *bytes.Buffer) *msgpack.Encoder { return setUp(msgpack.NewEncoder(to), to) }

func setUp(enc *msgpack.Encoder, to io.Writer) *msgpack.Encoder {
	enc.Reset(to)
	enc.SetSortMapKeys(true)
	enc.SetCustomStructTag(structTag)
	return enc
}

// structTag is a second tag of fields, which none has. msgpack caches the encoders of a struct's fields by type and
// tag: under this tag it has none from before the maps in them were registered.
const structTag = "cascade-ordered"

// entry is one of a map; it sorts by its key.
type entry struct {
	key, value reflect.Value
	by         []byte
}

// encodeMap writes a map in the order of its keys: numbers and texts in their own, all others in that of their encoding.
func encodeMap(enc *msgpack.Encoder, m reflect.Value) error {
	if m.IsNil() {
		return enc.EncodeNil()
	}
	all := make([]entry, 0, m.Len())
	for it := m.MapRange(); it.Next(); {
		e := entry{key: it.Key(), value: it.Value()}
		var err error
		if e.by, err = sortable(e.key); err != nil {
			return err
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int {
		if by := bytes.Compare(a.by, b.by); by != 0 {
			return by
		}
		return compareValues(a.value, b.value)
	})
	if err := enc.EncodeMapLen(len(all)); err != nil {
		return err
	}
	for _, e := range all {
		if err := enc.EncodeValue(e.key); err != nil {
			return err
		}
		if err := enc.EncodeValue(e.value); err != nil {
			return err
		}
	}
	return nil
}

func sortable(key reflect.Value) ([]byte, error) {
	switch {
	case marshals(key.Type()):
	case key.Kind() == reflect.String:
		return []byte(key.String()), nil
	case key.CanInt():
		return binary.BigEndian.AppendUint64(nil, uint64(key.Int())^1<<63), nil
	case key.CanUint():
		return binary.BigEndian.AppendUint64(nil, key.Uint()), nil
	}
	return encoded(key)
}

// compareValues is for keys that are equal when they are read, and not here: NaNs, and pointers to equal values.
func compareValues(a, b reflect.Value) int {
	x, err1 := encoded(a)
	y, err2 := encoded(b)
	if err1 != nil || err2 != nil {
		return 0 // the encoder says so
	}
	return bytes.Compare(x, y)
}

func encoded(v reflect.Value) ([]byte, error) {
	var b bytes.Buffer
	err := encoder(&b).EncodeValue(v)
	return b.Bytes(), err
}
