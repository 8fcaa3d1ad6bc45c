package densecodec

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/executor/value"
)

func TestMatricesTravel(t *testing.T) {
	c, err := executor.Default.Codecs.For(reflect.TypeFor[*mat.Dense]())
	if err != nil || c.Text() != "array f64 2-D" || !c.Aliases() {
		t.Fatalf("%v, %v", c, err)
	}
	whole := mat.NewDense(3, 3, []float64{1, 2, 3, 4, 5, 6, 7, 8, 9})
	for name, m := range map[string]*mat.Dense{
		"a matrix": whole, "its first rows": whole.Slice(0, 2, 0, 3).(*mat.Dense), "a part": whole.Slice(1, 3, 1, 3).(*mat.Dense), "none": {},
	} {
		f, err := c.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		rows, cols := m.Dims()
		if f.Codec != value.Numbers || f.DType != "f64" || !slices.Equal(f.Shape, []uint64{uint64(rows), uint64(cols)}) {
			t.Errorf("%s is %s %s %v", name, f.Codec, f.DType, f.Shape)
		}
		v, err := c.Decode(f)
		if err != nil {
			t.Fatal(err)
		}
		back := v.(*mat.Dense)
		if back.IsEmpty() != m.IsEmpty() || !m.IsEmpty() && !mat.Equal(back, m) {
			t.Errorf("%s became %v", name, mat.Formatted(back))
		}
		if raw := m.RawMatrix(); !m.IsEmpty() && raw.Stride == raw.Cols && &back.RawMatrix().Data[0] != &raw.Data[0] {
			t.Errorf("%s was copied", name)
		}
	}
}

func TestMatricesThatAreWrong(t *testing.T) {
	if _, err := Codec.Encode((*mat.Dense)(nil)); err == nil {
		t.Error("nil was encoded")
	}
	for name, tt := range map[string]struct {
		f    value.Flat
		want string
	}{
		"one axis":   {value.Flat{Codec: value.Numbers, DType: "f64", Shape: []uint64{1}, Bytes: make([]byte, 8)}, "two axes"},
		"raw":        {value.Flat{Codec: value.Raw, Bytes: make([]byte, 8)}, "two axes"},
		"f32":        {value.Flat{Codec: value.Numbers, DType: "f32", Shape: []uint64{1, 2}, Bytes: make([]byte, 8)}, "an array of f64"},
		"other size": {value.Flat{Codec: value.Numbers, DType: "f64", Shape: []uint64{2, 2}, Bytes: make([]byte, 8)}, "takes 32 bytes"},
		"overflow":   {value.Flat{Codec: value.Numbers, DType: "f64", Shape: []uint64{1 << 40, 1 << 40}, Bytes: make([]byte, 8)}, "too many numbers"},
	} {
		if v, err := Codec.Decode(tt.f); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: decoded %v, error %v, want %q", name, v, err, tt.want)
		}
	}
}
