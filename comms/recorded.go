package comms

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// A called task is recorded with what it takes to run it again: its kind, its parameters, the
// arguments that came with the call, and its results. Large values are described by size
// and hash, without their bytes.

// Bounds of what is recorded of one call.
const (
	RecordValue = 256     // bytes of one value: larger ones are described
	RecordMost  = 1 << 10 // bytes of all parameters, arguments and results of a call together: further ones are described
	RecordItems = 1000    // arguments and results: of a call with more nothing is recorded
)

// Record is what is recorded of a called task besides the names in Called.
type Record struct {
	Gap     RecordGap    // nothing follows, and why
	With    []byte       // msgpack map of parameters
	NoWith  uint64       // bytes of parameters that are not recorded
	Args    []RecordArg  // in the order of CallItem.Inputs
	Results []RecordData // of a task that ended well, in the order of its outputs
}

// RecordGap says why the arguments and results of a called task are not recorded.
type RecordGap uint8

// The reasons.
const (
	RecordWhole   RecordGap = iota
	RecordBacklog           // the agent kept as much as it may that the controller had not committed
	RecordMany              // more than RecordItems
)

func (g RecordGap) String() string {
	switch g {
	case RecordWhole:
		return ""
	case RecordBacklog:
		return "its agent kept as many records as it may that the controller had not stored"
	case RecordMany:
		return fmt.Sprintf("it has more than %d", RecordItems)
	}
	return "its agent is of another version"
}

// RecordArg is an argument of a called task. One that is Read is the next of Called.Reads; with
// Put that is a value that the parent put, and Data describes it as it does one that came with the call.
type RecordArg struct {
	Port      uint32
	Read, Put bool
	Data      RecordData
}

// RecordData is a dataset. Its place is PlaceInline when its bytes are recorded, and
// PlaceNone when they are not.
type RecordData struct{ Desc }

// Recorded tells whether the bytes are there.
func (d *RecordData) Recorded() bool { return d.Place.Kind == PlaceInline }

const (
	recordWith   = 1 << iota // parameters follow
	recordNoWith             // parameters are not recorded
)

const (
	argRead  = 1 << iota // the next of Called.Reads
	argData              // a descriptor follows
	argBytes             // and bytes
)

// RecordWriter writes a Record, piece by piece: the parameters, arguments and results in this order.
type RecordWriter struct {
	B    []byte
	left int
}

// Begin begins a record behind what is there, with the parameters.
func (w *RecordWriter) Begin(with []byte, args int) {
	w.B, w.left = append(w.B, byte(RecordWhole)), RecordMost
	switch {
	case len(with) == 0:
		w.B = append(w.B, 0)
	case len(with) > w.left:
		w.B = binary.AppendUvarint(append(w.B, recordNoWith), uint64(len(with)))
	default:
		w.left -= len(with)
		w.B = appendText(append(w.B, recordWith), with)
	}
	w.B = binary.AppendUvarint(w.B, uint64(args))
}

// Read adds an argument that is the next of Called.Reads.
func (w *RecordWriter) Read(port uint32) {
	w.B = binary.AppendUvarint(append(w.B, argRead), uint64(port))
}

// Arg adds an argument that came with the call or (put) that its parent had put.
func (w *RecordWriter) Arg(port uint32, put bool, d *Desc) {
	form := byte(argData)
	if put {
		form |= argRead
	}
	w.data(form, port, d)
}

// Results says how many results follow.
func (w *RecordWriter) Results(n int) { w.B = binary.AppendUvarint(w.B, uint64(n)) }

// Result adds a result: an output, as d.Ref names it.
func (w *RecordWriter) Result(d *Desc) { w.data(argData, d.Ref.Output, d) }

func (w *RecordWriter) data(form byte, number uint32, d *Desc) {
	bytes := d.Place.Bytes
	if d.Place.Kind == PlaceInline && len(bytes) <= min(RecordValue, w.left) {
		form |= argBytes
	}
	b := binary.AppendUvarint(append(w.B, form), uint64(number))
	b = appendText(appendText(b, d.Codec), d.DType)
	b = binary.AppendUvarint(b, uint64(len(d.Shape)))
	for _, n := range d.Shape {
		b = binary.AppendUvarint(b, n)
	}
	if form&argBytes != 0 {
		w.left -= len(bytes)
		w.B = appendText(b, bytes)
		return
	}
	hash := d.Hash
	if hash == "" && d.Place.Kind == PlaceInline {
		hash = HashOf(bytes)
	}
	w.B = appendText(binary.AppendUvarint(b, d.Size), hash)
}

// RecordWithout is the record of a call of which nothing is recorded.
func RecordWithout(why RecordGap) []byte { return []byte{byte(why)} }

func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// ReadRecord decodes a record, which aliases b.
func ReadRecord(b []byte) (*Record, error) {
	if len(b) == 0 {
		return nil, errors.New("no arguments were recorded: its agent is of an older version")
	}
	r := columnReader{b: b[1:]}
	rec := &Record{Gap: RecordGap(b[0])}
	if rec.Gap != RecordWhole {
		return rec, nil
	}
	switch r.number(recordNoWith) {
	case recordWith:
		rec.With = r.text()
	case recordNoWith:
		rec.NoWith = r.uvarint()
	}
	for range r.count() {
		if r.bad {
			break
		}
		rec.Args = append(rec.Args, RecordArg{})
		a := &rec.Args[len(rec.Args)-1]
		form := r.number(argRead | argData | argBytes)
		a.Read, a.Put = form&argRead != 0, form&(argRead|argData) == argRead|argData
		a.Port = uint32(r.number(1<<32 - 1))
		if form&argData != 0 {
			r.recorded(&a.Data, form)
		}
	}
	for range r.count() {
		if r.bad {
			break
		}
		var d RecordData
		form := r.number(argData | argBytes)
		d.Ref.Output = uint32(r.number(1<<32 - 1))
		r.recorded(&d, form)
		rec.Results = append(rec.Results, d)
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("what is recorded of a called task: %w", err)
	}
	return rec, nil
}

// recorded reads a descriptor.
func (r *columnReader) recorded(d *RecordData, form uint64) {
	d.Codec, d.DType = string(r.text()), string(r.text())
	for range r.count() {
		if d.Shape = append(d.Shape, r.uvarint()); r.bad {
			return
		}
	}
	if form&argBytes != 0 {
		b := r.text()
		d.Size, d.Place = uint64(len(b)), Place{Kind: PlaceInline, Bytes: b}
		return
	}
	d.Size = r.uvarint()
	d.Hash = Hash(r.text())
}

// number reads one that is no greater than most.
func (r *columnReader) number(most uint64) uint64 {
	n := r.uvarint()
	if n > most {
		r.fail()
		return 0
	}
	return n
}

func (r *columnReader) text() []byte {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	t := r.b[:n:n]
	r.b = r.b[n:]
	return t
}

// AppendCallKind writes what calls of one kind share, for Called.Kind. Its environment is that in
// which they run.
func AppendCallKind(k CallKind, environment string) []byte {
	k.ID, k.Environment, k.Graph = 0, environment, nil // the graph is in the store of its own job
	return Encode(&Calls{Kinds: []CallKind{k}})
}

// ReadCallKind decodes what AppendCallKind writes.
func ReadCallKind(b []byte) (*CallKind, error) {
	if len(b) == 0 {
		return nil, errors.New("its kind was not recorded: its agent is of an older version")
	}
	m, err := Decode(slices.Clone(b))
	if err != nil {
		return nil, fmt.Errorf("the kind of a called task: %w", err)
	}
	calls, ok := m.(*Calls)
	if !ok || len(calls.Kinds) != 1 {
		return nil, fmt.Errorf("the kind of a called task: %w", ErrMalformed)
	}
	return &calls.Kinds[0], nil
}
