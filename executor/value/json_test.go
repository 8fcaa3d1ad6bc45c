package value

import (
	"math"
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	array := func(dtype string, b []byte, shape ...uint64) Flat {
		return Flat{Codec: Numbers, DType: dtype, Shape: shape, Bytes: b}
	}
	for _, tt := range []struct {
		flat Flat
		want string // or the error
	}{
		{Flat{Codec: Msgpack, Bytes: packed(t, 1.5)}, "1.5"},
		{Flat{Codec: Msgpack, Bytes: packed(t, math.NaN())}, "null"},
		{Flat{Codec: Msgpack, Bytes: packed(t, map[string]any{"b": []int{1}, "a": nil})}, `{"a":null,"b":[1]}`},
		{Flat{Codec: Msgpack, Bytes: packed(t, map[int]float32{2: 0.1})}, `{"2":0.1}`},
		{Flat{Codec: Msgpack, Bytes: []byte{0xc1}}, "error"},
		{Flat{Codec: Raw, Bytes: []byte("two\nlines")}, `"two\nlines"`},
		{Flat{Codec: Raw, Bytes: []byte{0xff}}, "error: its bytes are no text"},
		{array("i16", []byte{1, 0, 255, 255, 3, 0, 4, 0}, 2, 2), "[[1,-1],[3,4]]"},
		{array("f64", make([]byte, 8)), "0"},
		{array("f32", []byte{0xcd, 0xcc, 0xcc, 0x3d}, 1), "[0.1]"},
		{array("c64", make([]byte, 8), 1), "[[0,0]]"},
		{array("u8", nil, 0, 5), "[]"},
		{array("u8", []byte{1, 2}, 3), "error: an array"},
		{array("u8", nil, 1<<32, 1<<32), "error: an array"},
		{array("f16", []byte{1, 2}, 1), "error: an array"},
		{Flat{Codec: "mine"}, "error: only its own functions"},
		{Flat{Codec: Raw, Bytes: make([]byte, 101)}, "error: a value of 101 bytes is too long"},
	} {
		got, err := JSON(tt.flat, 100)
		if want, bad := strings.CutPrefix(tt.want, "error"); bad {
			if err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(want, ": ")) {
				t.Errorf("%+v gives %s, %v; want an error with %q", tt.flat, got, err, want)
			}
		} else if err != nil || string(got) != tt.want {
			t.Errorf("%+v gives %s, %v; want %s", tt.flat, got, err, tt.want)
		}
	}
}
