package value

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"unicode/utf8"
)

// JSON returns a dataset's value for people: numbers as nested lists, msgpack as
// what it says, text as a string. JSON has no NaN and no infinity: they become null,
// and complex numbers pairs. It fails for datasets of more than most bytes, for
// bytes that are no text, and for the codecs of users.
func JSON(f Flat, most int) ([]byte, error) {
	if len(f.Bytes) > most {
		return nil, fmt.Errorf("a value of %d bytes is too long to print: at most %d", len(f.Bytes), most)
	}
	var v any
	switch f.Codec {
	case Raw:
		if !utf8.Valid(f.Bytes) {
			return nil, fmt.Errorf("its bytes are no text")
		}
		v = string(f.Bytes)
	case Msgpack:
		return msgpackJSON(f.Bytes)
	case Numbers:
		size := dtypeSizes[f.DType]
		n := uint64(1)
		for _, extent := range f.Shape {
			if extent > uint64(most) || n > uint64(most) {
				n = math.MaxUint32 // no product of them is in range
				break
			}
			n *= extent
		}
		if size == 0 || len(f.Shape) > maxAxes || n*uint64(size) != uint64(len(f.Bytes)) {
			return nil, fmt.Errorf("an array of %q and shape %v does not fit its %d bytes", f.DType, f.Shape, len(f.Bytes))
		}
		v, _ = nested(f.Bytes, f.DType, size, f.Shape)
	default:
		return nil, fmt.Errorf("only its own functions read codec %q", f.Codec)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("print as JSON: %w", err)
	}
	return b, nil
}

// maxAxes is the most axes of an array that is printed, which is what NumPy has.
const maxAxes = 64

// dtypeSizes are the bytes of an element.
var dtypeSizes = map[string]int{"i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "f32": 4, "f64": 8, "c64": 8, "c128": 16}

// nested takes an array of a shape from the beginning of b, and returns the rest.
func nested(b []byte, dtype string, size int, shape []uint64) (any, []byte) {
	if len(shape) == 0 {
		return element(b, dtype), b[size:]
	}
	list := make([]any, shape[0])
	for i := range list {
		list[i], b = nested(b, dtype, size, shape[1:])
	}
	return list, b
}

func element(b []byte, dtype string) any {
	le := binary.LittleEndian
	switch dtype {
	case "i8":
		return int8(b[0])
	case "i16":
		return int16(le.Uint16(b))
	case "i32":
		return int32(le.Uint32(b))
	case "i64":
		return int64(le.Uint64(b))
	case "u8":
		return b[0]
	case "u16":
		return le.Uint16(b)
	case "u32":
		return le.Uint32(b)
	case "u64":
		return le.Uint64(b)
	case "f32":
		return finite(float64(math.Float32frombits(le.Uint32(b))), 32)
	case "f64":
		return finite(math.Float64frombits(le.Uint64(b)), 64)
	case "c64":
		return []any{element(b, "f32"), element(b[4:], "f32")}
	}
	return []any{element(b, "f64"), element(b[8:], "f64")}
}

// finite is a number that JSON has, as short as its bits permit, or nil.
func finite(x float64, bits int) any {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return nil
	case bits == 32:
		return float32(x)
	}
	return x
}
