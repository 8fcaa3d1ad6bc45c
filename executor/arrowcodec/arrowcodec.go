// Package arrowcodec lets Arrow record batches travel between tasks. A program
// that imports it can use Table as the type of inputs and outputs; the package
// registers the codec by itself. It is a package of its own because Arrow is
// large and most programs do without.
//
//	Table ──IPC file──▶ dataset (codec "arrow") ──view──▶ Table whose columns are the dataset's bytes
//
// A command that gets such a dataset as a file opens an uncompressed Arrow IPC
// file, and a file of this form that a command wrote is read as a Table too.
package arrowcodec

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/executor/value"
	"github.com/cascade-run/cascade/shm/arrowfile"
)

// Name is the codec's name in descriptors.
const Name = "arrow"

// Table is record batches of one schema. As an input it is read-only and valid
// until the task ends.
type Table struct {
	Schema  *arrow.Schema
	Batches []arrow.RecordBatch
}

// Codec is how a Table travels; it is registered in the program's registry.
var Codec = register(executor.Default)

func register(r *executor.Registry) executor.Codec[Table] {
	c := executor.Codec[Table]{Name: Name, Encode: encode, Decode: decode}
	executor.RegisterCodec(r, c)
	return c
}

func encode(t Table) ([]byte, error) {
	if t.Schema == nil {
		return nil, errors.New("the table has no schema")
	}
	size, err := arrowfile.Size(t.Schema, t.Batches...)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(make([]byte, 0, size))
	w, err := ipc.NewFileWriter(out, ipc.WithSchema(t.Schema), ipc.WithAllocator(memory.DefaultAllocator))
	if err != nil {
		return nil, fmt.Errorf("write arrow file: %w", err)
	}
	for i, b := range t.Batches {
		if err := w.Write(b); err != nil {
			return nil, fmt.Errorf("write arrow batch %d: %w", i, errors.Join(err, w.Close()))
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("write arrow file: %w", err)
	}
	return out.Bytes(), nil
}

// arrowAlign is the alignment that Arrow's columns have within a file.
const arrowAlign = 8

func decode(b []byte) (Table, error) {
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%arrowAlign != 0 { // came in a message
		own := value.Room(len(b))
		copy(own, b)
		b = own
	}
	schema, batches, err := arrowfile.Read(b)
	if err != nil {
		return Table{}, err
	}
	return Table{schema, batches}, nil
}
