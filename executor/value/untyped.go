package value

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// Unmarshal reads one msgpack value, which is well formed. Where v leaves the type open a
// mapping is a map[string]any, or a map[any]any when not all of its keys are text.
func Unmarshal(b []byte, v any) (err error) { return unmarshal(b, v, nil) }

// unmarshal is Unmarshal with references.
func unmarshal(b []byte, v any, refer func(Ref) any) (err error) {
	defer func() { // a map[any]T takes no key that is a list or a mapping
		if r := recover(); r != nil {
			if _, runs := r.(interface{ RuntimeError() }); !runs || !strings.Contains(fmt.Sprint(r), "unhashable") {
				panic(r)
			}
			err = fmt.Errorf("a key of a mapping is a list or a mapping, which %s does not take", typeName(reflect.TypeOf(v).Elem()))
		}
	}()
	d := msgpack.GetDecoder()
	plain := refer == nil || bytes.IndexByte(b, RefExtension) < 0
	if plain {
		d.Reset(bytes.NewReader(b))
	} else {
		d.Reset(&referred{bytes.NewReader(b), refer})
	}
	d.SetMapDecoder(decodeMap)
	err = d.Decode(v)
	if !plain {
		d.Reset(bytes.NewReader(nil)) // the decoder is kept
	}
	msgpack.PutDecoder(d)
	if err != nil {
		return fmt.Errorf("it is %s: %w", msgpackKind(b), err)
	}
	return nil
}

// decodeMap reads a mapping of which the type is open.
func decodeMap(d *msgpack.Decoder) (any, error) {
	n, err := d.DecodeMapLen()
	if err != nil || n < 0 {
		return nil, err
	}
	texts := make(map[string]any, n)
	var others map[any]any
	for range n {
		key, err := d.DecodeInterface()
		if err != nil {
			return nil, err
		}
		value, err := d.DecodeInterface()
		if err != nil {
			return nil, err
		}
		text, isText := key.(string)
		if isText && others == nil {
			texts[text] = value
			continue
		}
		if others == nil {
			others = make(map[any]any, n)
			for k, v := range texts {
				others[k] = v
			}
		}
		if key != nil && !reflect.TypeOf(key).Comparable() {
			return nil, fmt.Errorf("a key of a mapping in it is %s, which no map of an open type takes: name the type, such as map[[2]int]string", kindText(key))
		}
		others[key] = value
	}
	if others != nil {
		return others, nil
	}
	return texts, nil
}

// kindText names the kind of a decoded value.
func kindText(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a truth value"
	case string:
		return "a text"
	case []byte:
		return "bytes"
	case []any:
		return "a list"
	case map[string]any, map[any]any:
		return "a mapping"
	}
	return "a number"
}

// msgpackKind names the kind of a msgpack value.
func msgpackKind(b []byte) string {
	switch code := b[0]; {
	case code == 0xc0:
		return "null"
	case code == 0xc2, code == 0xc3:
		return "a truth value"
	case code >= 0xa0 && code < 0xc0, code >= 0xd9 && code <= 0xdb:
		return "a text"
	case code >= 0xc4 && code <= 0xc6:
		return "bytes"
	case code >= 0x90 && code < 0xa0, code == 0xdc, code == 0xdd:
		return "a list"
	case code >= 0x80 && code < 0x90, code == 0xde, code == 0xdf:
		return "a mapping"
	case code >= 0xc7 && code <= 0xc9, code >= 0xd4 && code <= 0xd8:
		return "a time, or an extension"
	case code == 0xca, code == 0xcb:
		return "a number with decimals"
	}
	return "a whole number"
}

// typeName is a type for messages.
func typeName(t reflect.Type) string { return strings.ReplaceAll(t.String(), "interface {}", "any") }
