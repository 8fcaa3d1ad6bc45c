// Package arrowfile keeps Arrow record batches in shared memory: written into a lease, read without a copy
// from a view.
//
//	batches ── Write(lease) ──> bytes, offset ── sealed ──> shm.Span ── Read ──> batches whose columns are the bytes
//
// Datasets are Arrow IPC files, uncompressed. The schema is in the bytes, so that every Arrow library reads
// them from the region, and from the file when a command gets it. It is a package of its own because Arrow
// is large and most executors do without.
package arrowfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/cascade-run/cascade/shm"
)

// align is where files begin, so that their buffers lie at multiples of 64 bytes too.
const align = 64

// Write writes record batches of one schema into a new allocation of the lease and returns the bytes
// and their offset in the segment. Buffers are copied once, from where the batches were built; Write
// builds the file twice, first without storing it, to learn its size.
func Write(l *shm.Lease, schema *arrow.Schema, batches ...arrow.RecordBatch) ([]byte, int64, error) {
	var size sizeWriter
	if err := write(&size, schema, batches); err != nil {
		return nil, 0, err
	}
	b, off, err := l.Alloc(int64(size), align)
	if err != nil {
		return nil, 0, fmt.Errorf("write arrow batches: %w", err)
	}
	w := sliceWriter{b: b}
	if err := write(&w, schema, batches); err != nil {
		return nil, 0, err
	}
	if w.at != len(b) {
		return nil, 0, fmt.Errorf("write arrow batches: %d bytes written, %d announced", w.at, len(b))
	}
	return b, off, nil
}

// Size is the number of bytes that Write will allocate, for a lease of the right size.
func Size(schema *arrow.Schema, batches ...arrow.RecordBatch) (int64, error) {
	var size sizeWriter
	err := write(&size, schema, batches)
	return int64(size), err
}

func write(w io.Writer, schema *arrow.Schema, batches []arrow.RecordBatch) error {
	f, err := ipc.NewFileWriter(w, ipc.WithSchema(schema), ipc.WithAllocator(memory.DefaultAllocator))
	if err != nil {
		return fmt.Errorf("write arrow batches: %w", err)
	}
	for i, b := range batches {
		if err := f.Write(b); err != nil {
			return fmt.Errorf("write arrow batch %d: %w", i, errors.Join(err, f.Close()))
		}
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write arrow batches: %w", err)
	}
	return nil
}

// Read gives the record batches in bytes that Write or another Arrow library wrote. Their columns
// point into the bytes and are valid as long as the view is; files that are compressed or have dictionaries are
// copied.
func Read(b []byte) (schema *arrow.Schema, batches []arrow.RecordBatch, err error) {
	defer func() { // the reader indexes damaged files without a check in places
		if r := recover(); r != nil {
			schema, batches, err = nil, nil, fmt.Errorf("read arrow batches: %w: %v", errDamaged, r)
		}
	}()
	dictionaries, err := checkFooter(b)
	if err != nil {
		return nil, nil, fmt.Errorf("read arrow batches: %w", err)
	}
	// The reader's own limit of 256 MiB for a batch is for streams; here all bytes are there already.
	opts := []ipc.Option{ipc.WithAllocator(memory.DefaultAllocator), ipc.WithBodySizeLimit(int64(len(b)))}
	var f *ipc.FileReader
	if dictionaries > 0 { // arrow-go 18.8 panics on them when it reads in place
		f, err = ipc.NewFileReader(bytes.NewReader(b), opts...)
	} else {
		f, err = ipc.NewMappedFileReader(b, opts...)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read arrow batches: %w", err)
	}
	for i := range f.NumRecords() {
		r, err := f.RecordBatchAt(i)
		if err != nil {
			return nil, nil, fmt.Errorf("read arrow batch %d: %w", i, err)
		}
		batches = append(batches, r)
	}
	return f.Schema(), batches, nil
}

type sizeWriter int64

func (w *sizeWriter) Write(b []byte) (int, error) {
	*w += sizeWriter(len(b))
	return len(b), nil
}

type sliceWriter struct {
	b  []byte
	at int
}

func (w *sliceWriter) Write(b []byte) (int, error) {
	n := copy(w.b[w.at:], b)
	w.at += n
	if n < len(b) {
		return n, io.ErrShortWrite
	}
	return n, nil
}
