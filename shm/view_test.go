package shm

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestView(t *testing.T) {
	want := []float64{1, -2.5, math.Inf(1), math.Pi}
	b := Bytes(want)
	got, err := View[float64](b)
	if err != nil || !slices.Equal(got, want) || &got[0] != &want[0] {
		t.Fatalf("%v, %v", got, err)
	}
	if b[8*3+7] != 0x40 {
		t.Fatal("not little-endian")
	}
	if _, err := View[float64](b[:31]); !errors.Is(err, ErrBounds) {
		t.Errorf("odd length: %v", err)
	}
	if _, err := View[float32](b[2:10]); !errors.Is(err, ErrBounds) {
		t.Errorf("odd address: %v", err)
	}
	if v, err := View[int16](b[2:10]); err != nil || len(v) != 4 {
		t.Errorf("aligned to its size: %v, %v", v, err)
	}
	if v, err := View[int64](nil); err != nil || len(v) != 0 || len(Bytes(v)) != 0 {
		t.Errorf("nothing: %v, %v", v, err)
	}
}

func TestDense(t *testing.T) {
	b := Bytes([]float64{1, 2, 3, 4, 5, 6})
	m, err := Dense(b, 2, 3)
	must(t, err)
	if m.At(1, 0) != 4 {
		t.Errorf("row by row: %v", m.At(1, 0))
	}
	m.Set(0, 1, 9)
	if v, _ := View[float64](b); v[1] != 9 {
		t.Error("the matrix is a copy")
	}
	for _, d := range [][2]int{{0, 6}, {6, 0}, {2, 2}, {-2, -3}, {1 << 62, 4}} {
		if _, err := Dense(b, d[0], d[1]); !errors.Is(err, ErrBounds) {
			t.Errorf("%v: %v", d, err)
		}
	}
}

type celsius float32

func TestArray(t *testing.T) {
	if got := []DType{DTypeOf[float64](), DTypeOf[float32](), DTypeOf[celsius](), DTypeOf[int64](), DTypeOf[int8](), DTypeOf[uint16](), DTypeOf[uint8]()}; !slices.Equal(got, []DType{F64, F32, F32, I64, I8, U16, U8}) {
		t.Errorf("types %v", got)
	}
	for text, size := range map[string]int64{"f64[]": 8, "f64[3 4]": 96, "u8[0 99999999999]": 0, "i16[1 1 7]": 14, "f32[3000000000]": 12e9} {
		a, err := ParseArray(text)
		if err != nil || a.String() != text {
			t.Errorf("%s parses as %v, %v", text, a, err)
		}
		if n, err := a.Bytes(); n != size || err != nil {
			t.Errorf("%s has %d bytes, %v", text, n, err)
		}
	}
	for _, text := range []string{"", "f64", "f64[", "f65[1]", "f64[x]", "f64[-1]", "[1]", "f64[9223372036854775807 2]", "u8[" + strings.Repeat("1 ", 33) + "]"} {
		if a, err := ParseArray(text); err == nil {
			t.Errorf("%q parses as %v", text, a)
		}
	}
	b := Bytes([]float32{1, 2})
	if v, err := ViewArray[float32](Array{F32, []int64{2, 1}}, b); err != nil || v[1] != 2 {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := ViewArray[int32](Array{F32, []int64{2}}, b); err == nil {
		t.Error("floats were read as integers")
	}
	if _, err := ViewArray[float32](Array{F32, []int64{3}}, b); !errors.Is(err, ErrBounds) {
		t.Errorf("wrong size: %v", err)
	}
}

func FuzzParseArray(f *testing.F) {
	f.Add("f64[3 4]")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseArray(s)
		if err != nil {
			return
		}
		if again, err := ParseArray(a.String()); err != nil || again.String() != a.String() {
			t.Fatalf("%q: %v, then %v, %v", s, a, again, err)
		}
	})
}

func TestAllocArray(t *testing.T) {
	s := openStore(t, t.TempDir(), System{})
	m := newMapper(t, s, 0)
	must(t, s.Create(1, 0, 1<<16))
	l, err := m.Lease("a1", 1<<12, 1<<12)
	must(t, err)
	defer l.Close()
	_, _, err = l.Alloc(1, 1)
	must(t, err)
	v, a, off, err := AllocArray[float32](l, 3, 4)
	if err != nil || len(v) != 12 || a.String() != "f32[3 4]" || off != 1<<12+64 {
		t.Fatalf("%v %v %d %v", v, a, off, err)
	}
	v[11] = 2.5
	r, err := m.View("a1", off, 48)
	must(t, err)
	defer r.Release()
	if got, err := ViewArray[float32](a, r.Bytes); err != nil || got[11] != 2.5 {
		t.Errorf("%v, %v", got, err)
	}
	if _, _, _, err := AllocArray[int8](l, 1<<12); !errors.Is(err, ErrLeaseFull) {
		t.Errorf("too large: %v", err)
	}
	if _, _, _, err := AllocArray[int8](l, -1); err == nil {
		t.Error("a negative dimension was accepted")
	}
}
