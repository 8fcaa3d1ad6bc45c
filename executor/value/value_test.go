package value

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

type (
	kelvin  float64
	field   []float64
	label   string
	payload []byte
	station struct {
		Name string
		Lat  float64
		Tags map[string]int
	}
)

func roundTrip[T any](t interface {
	Helper()
	Fatal(...any)
}, v T,
) (T, Flat) {
	t.Helper()
	var cs Codecs
	c, err := cs.For(reflect.TypeFor[T]())
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	back, err := c.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return back.(T), f
}

func check[T any](t *testing.T, v T, codec, dtype string, shape ...uint64) {
	t.Helper()
	back, f := roundTrip(t, v)
	if !reflect.DeepEqual(back, v) {
		t.Errorf("%T became %#v, was %#v", v, back, v)
	}
	if f.Codec != codec || f.DType != dtype || !slices.Equal(f.Shape, shape) {
		t.Errorf("%T is %s %s %v", v, f.Codec, f.DType, f.Shape)
	}
}

func TestRoundTrips(t *testing.T) {
	check(t, []byte("bytes"), Raw, "")
	check(t, payload("bytes"), Raw, "")
	check(t, "text", Raw, "")
	check(t, label("text"), Raw, "")
	check(t, []float64{1, math.Inf(1), -0.5}, Numbers, "f64", 3)
	check(t, []float32{1}, Numbers, "f32", 1)
	check(t, []int16{-1, 2}, Numbers, "i16", 2)
	check(t, []uint32{1 << 31}, Numbers, "u32", 1)
	check(t, []int{-5}, Numbers, "i64", 1)
	check(t, field{1, 2}, Numbers, "f64", 2)
	check(t, []kelvin{273.15}, Numbers, "f64", 1)
	check(t, []complex128{complex(1, -1)}, Numbers, "c128", 1)
	check(t, Array[float32]{Data: []float32{1, 2, 3, 4, 5, 6}, Shape: []int{2, 3}}, Numbers, "f32", 2, 3)
	check(t, 42, Msgpack, "")
	check(t, 2.5, Msgpack, "")
	check(t, true, Msgpack, "")
	check(t, station{"x", 1.5, map[string]int{"a": 1}}, Msgpack, "")
	check(t, []station{{Name: "x"}}, Msgpack, "")
	check(t, map[string]float64{"t": 1}, Msgpack, "")
	check(t, []string{"a", ""}, Msgpack, "")
}

func TestEmptyValues(t *testing.T) {
	if back, _ := roundTrip(t, []float64{}); len(back) != 0 {
		t.Errorf("an empty slice became %v", back)
	}
	if back, _ := roundTrip(t, []byte(nil)); len(back) != 0 {
		t.Errorf("no bytes became %v", back)
	}
	if back, _ := roundTrip(t, Array[int32]{Shape: []int{0, 3}}); len(back.Data) != 0 || !slices.Equal(back.Shape, []int{0, 3}) {
		t.Errorf("an empty array became %+v", back)
	}
	if back, _ := roundTrip(t, ""); back != "" {
		t.Errorf("no text became %q", back)
	}
}

// A type that a package of ours has a codec for is refused without that package, by its name.
func TestOptionalCodecs(t *testing.T) {
	var cs Codecs
	dense := reflect.TypeFor[*mat.Dense]()
	if _, err := cs.For(dense); err == nil || !strings.HasSuffix(err.Error(), `values of type *mat.Dense travel in programs that import "github.com/cascade-run/cascade/executor/densecodec"`) {
		t.Errorf("without it: %v", err)
	}
	form := sliceCodec{reflect.TypeFor[[]float64]()}
	if err := cs.AddForm(dense, form); err != nil {
		t.Fatal(err)
	}
	if c, err := cs.For(dense); err != nil || c != form {
		t.Errorf("with it: %v, %v", c, err)
	}
	if err := cs.AddForm(dense, form); err == nil {
		t.Error("a second codec of one type was taken")
	}
}

func TestFlatValuesAreNotCopied(t *testing.T) {
	v := []float64{1, 2, 3}
	back, f := roundTrip(t, v)
	if &back[0] != &v[0] || unsafe.Pointer(&f.Bytes[0]) != unsafe.Pointer(&v[0]) {
		t.Error("a slice was copied")
	}
}

func TestUnalignedBytes(t *testing.T) {
	var cs Codecs
	c, err := cs.For(reflect.TypeFor[[]float64]())
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Encode([]float64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	shifted := Room(len(f.Bytes) + 3)[3:]
	copy(shifted, f.Bytes)
	f.Bytes = shifted
	v, err := c.Decode(f)
	if err != nil || !slices.Equal(v.([]float64), []float64{1, 2}) {
		t.Errorf("decoded %v, %v", v, err)
	}
}

func TestMismatches(t *testing.T) {
	array := Flat{Codec: Numbers, DType: "f32", Shape: []uint64{2}, Bytes: make([]byte, 8)}
	tests := []struct {
		name string
		t    reflect.Type
		f    Flat
		want string
	}{
		{"dtype", reflect.TypeFor[[]float64](), array, "it is an array of f32 with shape [2], the function takes an array of f64"},
		{"size", reflect.TypeFor[[]float32](), Flat{Codec: Numbers, DType: "f32", Shape: []uint64{3}, Bytes: make([]byte, 8)}, "takes 12 bytes, there are 8"},
		{"overflow", reflect.TypeFor[[]float32](), Flat{Codec: Numbers, DType: "f32", Shape: []uint64{1 << 40, 1 << 40}, Bytes: make([]byte, 8)}, "too many numbers"},
		{"huge extent", reflect.TypeFor[[]float32](), Flat{Codec: Numbers, DType: "f32", Shape: []uint64{1 << 63}}, "too large"},
		{"text", reflect.TypeFor[string](), array, "the function takes text"},
		{"bytes", reflect.TypeFor[[]byte](), Flat{Codec: Msgpack}, "takes bytes"},
		{"struct", reflect.TypeFor[station](), Flat{Codec: Raw}, "it is raw"},
		{"damaged", reflect.TypeFor[station](), Flat{Codec: Msgpack, Bytes: []byte{0xc1}}, "damaged msgpack"},
		{"whole numbers", reflect.TypeFor[[]float64](), Flat{Codec: Raw, Bytes: make([]byte, 7)}, "an array of f64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var cs Codecs
			c, err := cs.For(tt.t)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := c.Decode(tt.f); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("decoded %v, error %v, want %q", v, err, tt.want)
			}
		})
	}
	// What a command wrote is read as numbers.
	var cs Codecs
	c, err := cs.For(reflect.TypeFor[[]int32]())
	if err != nil {
		t.Fatal(err)
	}
	if v, err := c.Decode(Flat{Codec: Raw, Bytes: []byte{1, 0, 0, 0, 2, 0, 0, 0}}); err != nil || !slices.Equal(v.([]int32), []int32{1, 2}) {
		t.Errorf("decoded %v, %v", v, err)
	}
}

func TestTypesThatCannotTravel(t *testing.T) {
	type hidden struct{ x int }
	for _, typ := range []reflect.Type{
		reflect.TypeFor[chan int](), reflect.TypeFor[func()](), reflect.TypeFor[struct{ F func() }](),
		reflect.TypeFor[context.Context](), reflect.TypeOf(hidden{x: 1}), reflect.TypeFor[map[string]chan int](), reflect.TypeFor[[]hidden](),
	} {
		var cs Codecs
		if _, err := cs.For(typ); err == nil {
			t.Errorf("%s is said to travel", typ)
		}
	}
}

func TestShapesThatDoNotFit(t *testing.T) {
	var cs Codecs
	c, err := cs.For(reflect.TypeFor[Array[float64]]())
	if err != nil {
		t.Fatal(err)
	}
	for _, shape := range [][]int{{3}, {-1, -2}, {1 << 40, 1 << 40}, {}} {
		if _, err := c.Encode(Array[float64]{Data: make([]float64, 2), Shape: shape}); err == nil {
			t.Errorf("2 numbers with shape %v were encoded", shape)
		}
	}
}

func TestUserCodecs(t *testing.T) {
	var cs Codecs
	typ := reflect.TypeFor[station]()
	u := User[station]{Name: "station",
		Enc: func(s station) ([]byte, error) {
			if s.Name == "" {
				return nil, errors.New("no name")
			}
			return []byte(s.Name), nil
		},
		Dec: func(b []byte) (station, error) { return station{Name: string(b)}, nil },
	}
	if err := cs.Add(typ, "station", u); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"station", "raw", ""} {
		if err := cs.Add(reflect.TypeFor[int](), name, u); err == nil {
			t.Errorf("name %q was accepted", name)
		}
	}
	if err := cs.Add(typ, "other", u); err == nil {
		t.Error("a second codec was accepted")
	}
	c, err := cs.For(typ)
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Encode(station{Name: "x"})
	if err != nil || f.Codec != "station" {
		t.Fatalf("%+v, %v", f, err)
	}
	if v, err := c.Decode(f); err != nil || v.(station).Name != "x" {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := c.Encode(station{}); err == nil || !strings.Contains(err.Error(), "codec station: encode: no name") {
		t.Errorf("error is %v", err)
	}
	if _, err := c.Decode(Flat{Codec: Msgpack}); !errors.Is(err, ErrType) {
		t.Errorf("error is %v", err)
	}
}

func TestArrayIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(t, "shape")
		n := 1
		for _, s := range shape {
			n *= s
		}
		a := Array[int]{Data: make([]int, n), Shape: shape}
		for i := range a.Data {
			a.Data[i] = i
		}
		index := make([]int, len(shape))
		for k, s := range shape {
			index[k] = rapid.IntRange(0, s-1).Draw(t, "index")
		}
		got := a.At(index...)
		if len(shape) > 1 {
			if in := a.Row(index[0]).At(index[1:]...); in != got {
				t.Fatalf("row gives %d, array %d", in, got)
			}
		}
		a.Set(-1, index...)
		if a.Data[got] != -1 {
			t.Fatalf("At and Set of %v differ", index)
		}
	})
}

func TestCheckMsgpack(t *testing.T) {
	deep := append(bytes.Repeat([]byte{0x91}, maxNesting+1), 1)
	for name, tt := range map[string]struct {
		b  []byte
		ok bool
	}{
		"number":           {[]byte{5}, true},
		"map":              {[]byte{0x81, 0xa1, 'a', 0x92, 1, 0xc0}, true},
		"long array":       {[]byte{0xdc, 0, 2, 1, 2}, true},
		"long map":         {[]byte{0xdf, 0, 0, 0, 1, 1, 2}, true},
		"ext":              {[]byte{0xc7, 2, 9, 1, 2}, true},
		"fixext":           {[]byte{0xd4, 9, 1}, true},
		"float":            {[]byte{0xcb, 0, 0, 0, 0, 0, 0, 0, 0}, true},
		"nothing":          {nil, false},
		"two values":       {[]byte{1, 2}, false},
		"short string":     {[]byte{0xa2, 'a'}, false},
		"short length":     {[]byte{0xda, 1}, false},
		"short float":      {[]byte{0xcb, 0}, false},
		"huge array":       {[]byte{0xdd, 255, 255, 255, 255}, false},
		"huge map":         {[]byte{0xdf, 255, 255, 255, 255, 1}, false},
		"huge string":      {[]byte{0xdb, 255, 255, 255, 255, 1}, false},
		"too deep":         {deep, false},
		"a code of no use": {[]byte{0xc1}, false},
	} {
		if err := CheckMsgpack(tt.b); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCheckMsgpackAcceptsWhatIsEncoded compares with the library that encodes.
func TestCheckMsgpackAcceptsWhatIsEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := map[string]any{
			"s": rapid.String().Draw(t, "s"), "b": rapid.SliceOfN(rapid.Byte(), 0, 70000).Draw(t, "b"),
			"i": rapid.Int64().Draw(t, "i"), "u": rapid.Uint64().Draw(t, "u"), "f": rapid.Float64().Draw(t, "f"), "g": rapid.Float32().Draw(t, "g"),
			"l": rapid.SliceOfN(rapid.Int32(), 0, 40).Draw(t, "l"), "t": time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "t"), 5),
		}
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckMsgpack(b); err != nil {
			t.Fatal(err)
		}
		if CheckMsgpack(b[:len(b)-1]) == nil {
			t.Fatal("a cut value was accepted")
		}
	})
}

// FuzzDecode feeds descriptors and bytes that nobody wrote to every codec.
func FuzzDecode(f *testing.F) {
	f.Add("array", "f64", uint64(1), uint64(1), []byte{0, 0, 0, 0, 0, 0, 0, 0})
	f.Add("msgpack", "", uint64(0), uint64(0), []byte{0x82, 0xa4, 'N', 'a', 'm', 'e', 0xa1, 'x', 0xa3, 'L', 'a', 't', 1})
	types := []reflect.Type{reflect.TypeFor[[]float64](), reflect.TypeFor[Array[int16]](), reflect.TypeFor[station](),
		reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[map[string][]int](), reflect.TypeFor[any]()}
	var cs Codecs
	f.Fuzz(func(t *testing.T, codec, dtype string, a, b uint64, data []byte) {
		if text, err := JSON(Flat{Codec: codec, DType: dtype, Shape: []uint64{a, b}, Bytes: data}, 1<<16); err == nil && !json.Valid(text) {
			t.Errorf("%q is no JSON", text)
		}
		for _, typ := range types {
			c, err := cs.For(typ)
			if err != nil {
				t.Fatal(err)
			}
			v, err := c.Decode(Flat{Codec: codec, DType: dtype, Shape: []uint64{a, b}, Bytes: data})
			if err != nil || v == nil {
				continue
			}
			if _, err := c.Encode(v); err != nil {
				t.Errorf("%s decoded to %v, which cannot be encoded: %v", typ, v, err)
			}
		}
	})
}
