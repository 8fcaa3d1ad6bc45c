package arrowcodec

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/executor/value"
)

func stations(t *testing.T, n int) Table {
	schema := arrow.NewSchema([]arrow.Field{{Name: "name", Type: arrow.BinaryTypes.String}, {Name: "t", Type: arrow.PrimitiveTypes.Float64}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range n {
		b.Field(0).(*array.StringBuilder).Append("station")
		b.Field(1).(*array.Float64Builder).Append(float64(i))
	}
	r := b.NewRecordBatch()
	t.Cleanup(r.Release)
	return Table{schema, []arrow.RecordBatch{r}}
}

func TestTableTravels(t *testing.T) {
	c, err := executor.Default.Codecs.For(reflect.TypeFor[Table]())
	if err != nil {
		t.Fatal(err)
	}
	in := stations(t, 1000)
	f, err := c.Encode(in)
	if err != nil || f.Codec != Name {
		t.Fatalf("%s, %v", f.Codec, err)
	}
	for _, shift := range []int{0, 3} { // a view, and bytes within a message
		b := value.Room(len(f.Bytes) + shift)[shift:]
		copy(b, f.Bytes)
		v, err := c.Decode(value.Flat{Codec: Name, Bytes: b})
		if err != nil {
			t.Fatal(err)
		}
		out := v.(Table)
		if !out.Schema.Equal(in.Schema) || len(out.Batches) != 1 || !array.RecordEqual(out.Batches[0], in.Batches[0]) {
			t.Errorf("table became %v", out.Batches)
		}
		col := out.Batches[0].Column(1).(*array.Float64).Float64Values()
		at, from := uintptr(unsafe.Pointer(&col[0])), uintptr(unsafe.Pointer(&b[0]))
		if view := at >= from && at-from < uintptr(len(b)); view != (shift == 0) {
			t.Errorf("shift %d: column is a view: %t", shift, view)
		}
	}
}

func TestTablesThatAreWrong(t *testing.T) {
	if _, err := Codec.Encode(Table{}); err == nil {
		t.Error("a table without a schema was encoded")
	}
	good, err := Codec.Encode(stations(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{nil, []byte("ARROW1"), good[:len(good)/2]} {
		if _, err := Codec.Decode(b); err == nil {
			t.Errorf("%d damaged bytes were decoded", len(b))
		}
	}
}
