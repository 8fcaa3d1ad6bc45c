package arrowfile

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/cascade-run/cascade/shm"
	"github.com/cascade-run/cascade/shm/ledger"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T) (*shm.Store, *shm.Mapper) {
	s, err := shm.OpenStore(shm.Options{Root: t.TempDir(), Name: "t"})
	must(t, err)
	m := shm.NewMapper(s.Dir(), 0)
	t.Cleanup(func() {
		if err := errors.Join(m.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	return s, m
}

func stations(t testing.TB) (*arrow.Schema, arrow.RecordBatch) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "station", Type: arrow.BinaryTypes.String},
		{Name: "temperature", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	b.Field(0).(*array.StringBuilder).AppendValues([]string{"Reading", "Bologna", "Bonn"}, nil)
	b.Field(1).(*array.Float64Builder).AppendValues([]float64{281.5, 0, 279.25}, []bool{true, false, true})
	r := b.NewRecordBatch()
	t.Cleanup(r.Release)
	return schema, r
}

func TestWriteRead(t *testing.T) {
	s, m := open(t)
	must(t, s.Create(1, ledger.Arena, 1<<20))
	schema, batch := stations(t)
	l, err := m.Lease("a1", 4096, 64<<10)
	must(t, err)
	_, _, err = l.Alloc(3, 1) // the next one has to be aligned
	must(t, err)
	b, off, err := Write(l, schema, batch, batch.NewSlice(1, 3))
	must(t, err)
	n := int64(len(b))
	if size, err := Size(schema, batch, batch.NewSlice(1, 3)); err != nil || size != n || off != 4096+64 {
		t.Fatalf("%d bytes at %d, announced %d, %v", n, off, size, err)
	}
	must(t, l.Close())
	v, err := m.View("a1", off, n)
	must(t, err)
	defer v.Release()
	got, batches, err := Read(v.Bytes)
	must(t, err)
	if !got.Equal(schema) || len(batches) != 2 || !array.RecordEqual(batches[0], batch) || batches[1].NumRows() != 2 {
		t.Fatalf("read %v, %v", got, batches)
	}
	floats := batches[0].Column(1).(*array.Float64).Float64Values()
	at := uintptr(unsafe.Pointer(&floats[0])) - uintptr(unsafe.Pointer(&v.Bytes[0]))
	if at >= uintptr(n) {
		t.Error("the column is a copy")
	}
	if at%8 != 0 || floats[2] != 279.25 {
		t.Errorf("column at %d: %v", at, floats)
	}
}

func TestErrors(t *testing.T) {
	s, m := open(t)
	must(t, s.Create(1, ledger.Arena, 1<<16))
	schema, batch := stations(t)
	l, err := m.Lease("a1", 0, 1<<16)
	must(t, err)
	defer l.Close()
	b, _, err := Write(l, schema, batch)
	must(t, err)
	_, _, err = l.Alloc(l.Free()-100, 1)
	must(t, err)
	if _, _, err := Write(l, schema, batch); err == nil {
		t.Error("written into a full lease")
	}
	other := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int8}}, nil)
	if _, err := Size(other, batch); err == nil {
		t.Error("a batch of another schema was accepted")
	}
	for n := range b {
		if _, _, err := Read(b[:n]); err == nil {
			t.Fatalf("%d of %d bytes were accepted", n, len(b))
		}
	}
}

func FuzzRead(f *testing.F) {
	schema, batch := stations(f)
	n, err := Size(schema, batch)
	if err != nil {
		f.Fatal(err)
	}
	sound := sliceWriter{b: make([]byte, n)}
	if err := write(&sound, schema, []arrow.RecordBatch{batch}); err != nil {
		f.Fatal(err)
	}
	f.Add(sound.b)
	f.Fuzz(func(t *testing.T, b []byte) {
		_, batches, err := Read(b)
		if err != nil && batches != nil {
			t.Fatal("batches with an error")
		}
	})
}

func TestNestedTypes(t *testing.T) {
	inner := arrow.StructOf(arrow.Field{Name: "level", Type: arrow.PrimitiveTypes.Int32}, arrow.Field{Name: "values", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32)})
	meta := arrow.NewMetadata([]string{"units"}, []string{"K"})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "profiles", Type: arrow.ListOf(inner), Metadata: meta},
		{Name: "model", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}},
	}, &meta)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	must(t, b.UnmarshalJSON([]byte(`{"profiles":[{"level":500,"values":[1.5,2]},{"level":850,"values":[]}],"model":"ifs"}
{"profiles":[],"model":"aifs"}
{"profiles":null,"model":"ifs"}`)))
	batch := b.NewRecordBatch()
	defer batch.Release()
	n, err := Size(schema, batch)
	must(t, err)
	w := sliceWriter{b: make([]byte, n)}
	must(t, write(&w, schema, []arrow.RecordBatch{batch}))
	_, got, err := Read(w.b)
	must(t, err)
	if len(got) != 1 || !array.RecordEqual(got[0], batch) {
		t.Errorf("read %v", got)
	}
}

func TestBatchOfMoreThan256MiB(t *testing.T) {
	if testing.Short() {
		t.Skip("uses 512 MiB")
	}
	const n = 257 << 20
	data := array.NewData(arrow.PrimitiveTypes.Uint8, n, []*memory.Buffer{nil, memory.NewBufferBytes(make([]byte, n))}, nil, 0, 0)
	column := array.NewUint8Data(data)
	schema := arrow.NewSchema([]arrow.Field{{Name: "bytes", Type: arrow.PrimitiveTypes.Uint8}}, nil)
	batch := array.NewRecordBatch(schema, []arrow.Array{column}, n)
	size, err := Size(schema, batch)
	must(t, err)
	w := sliceWriter{b: make([]byte, size)}
	must(t, write(&w, schema, []arrow.RecordBatch{batch}))
	_, got, err := Read(w.b)
	if err != nil || got[0].NumRows() != n {
		t.Errorf("%v, %v", got, err)
	}
}
