package comms

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// describe writes a record for people.
func (r *Record) describe() string {
	if r.Gap != RecordWhole {
		return "nothing: " + r.Gap.String()
	}
	data := func(d *RecordData) string {
		if d.Recorded() {
			return fmt.Sprintf("%s%s%v %d bytes", d.Codec, d.DType, d.Shape, len(d.Place.Bytes))
		}
		return fmt.Sprintf("%s%s%v of %d bytes, hash %t", d.Codec, d.DType, d.Shape, d.Size, d.Hash != "")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "with %d/%d", len(r.With), r.NoWith)
	for i := range r.Args {
		switch a := &r.Args[i]; {
		case a.Read && !a.Put:
			fmt.Fprintf(&b, "; %d read", a.Port)
		case a.Put:
			fmt.Fprintf(&b, "; %d put %s", a.Port, data(&a.Data))
		default:
			fmt.Fprintf(&b, "; %d %s", a.Port, data(&a.Data))
		}
	}
	for i := range r.Results {
		fmt.Fprintf(&b, "; result %d %s", r.Results[i].Ref.Output, data(&r.Results[i]))
	}
	return b.String()
}

// A record has small values with their bytes, up to what one call may have, and says of others what they are.
func TestRecords(t *testing.T) {
	value := func(n int) *Desc {
		return &Desc{Codec: "raw", Size: uint64(n), Place: Place{Kind: PlaceInline, Bytes: bytes.Repeat([]byte{7}, n)}}
	}
	array := func(shape ...uint64) *Desc {
		d := &Desc{Codec: "array", DType: "f64", Shape: shape, Size: 8, Hash: HashOf([]byte("x")), Place: Place{Kind: PlaceSegment, Segment: 3}}
		for _, n := range shape {
			d.Size *= n
		}
		return d
	}
	for _, tt := range []struct {
		name  string
		write func(w *RecordWriter)
		want  string
	}{
		{"nothing", func(w *RecordWriter) { w.Begin(nil, 0); w.Results(0) }, "with 0/0"},
		{"small values", func(w *RecordWriter) {
			w.Begin([]byte("parameters"), 3)
			w.Arg(0, false, value(RecordValue))
			w.Read(1)
			w.Arg(2, true, value(0))
			w.Results(1)
			w.Result(value(3))
		}, "with 10/0; 0 raw[] 256 bytes; 1 read; 2 put raw[] 0 bytes; result 0 raw[] 3 bytes"},
		{"large values", func(w *RecordWriter) {
			w.Begin(make([]byte, RecordMost+1), 3)
			w.Arg(0, false, value(RecordValue+1))
			w.Arg(0, false, array(10, 20))
			w.Arg(1, true, array(1, 1, 1, 1, 1, 1, 1, 1, 1, 9))
			w.Results(1)
			w.Result(array(3))
		}, "with 0/1025; 0 raw[] of 257 bytes, hash true; 0 arrayf64[10 20] of 1600 bytes, hash true; 1 put arrayf64[1 1 1 1 1 1 1 1 1 9] of 72 bytes, hash true; result 0 arrayf64[3] of 24 bytes, hash true"},
		{"many values", func(w *RecordWriter) {
			w.Begin(nil, 5)
			for i := range uint32(5) {
				w.Arg(i, false, value(RecordValue))
			}
			w.Results(0)
		}, "with 0/0; 0 raw[] 256 bytes; 1 raw[] 256 bytes; 2 raw[] 256 bytes; 3 raw[] 256 bytes; 4 raw[] of 256 bytes, hash true"},
		{"a full backlog", func(w *RecordWriter) { w.B = RecordWithout(RecordBacklog) }, "nothing: its agent kept as many records as it may that the controller had not stored"},
		{"too many", func(w *RecordWriter) { w.B = RecordWithout(RecordMany) }, "nothing: it has more than 1000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w RecordWriter
			tt.write(&w)
			r, err := ReadRecord(w.B)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.describe(); got != tt.want {
				t.Errorf("recorded\n%s\nwant\n%s", got, tt.want)
			}
			for n := 1; n < len(w.B); n++ {
				if _, err := ReadRecord(w.B[:n]); err == nil {
					t.Errorf("the first %d of %d bytes are a record, too", n, len(w.B))
				}
			}
		})
	}
	if _, err := ReadRecord(nil); err == nil || !strings.Contains(err.Error(), "older version") {
		t.Errorf("no record: %v", err)
	}
}

func FuzzRecord(f *testing.F) {
	var w RecordWriter
	w.Begin([]byte("p"), 2)
	w.Arg(0, true, &Desc{Codec: "raw", Place: Place{Kind: PlaceInline, Bytes: []byte("v")}})
	w.Read(1)
	w.Results(1)
	w.Result(&Desc{Codec: "array", DType: "f64", Shape: []uint64{3}, Size: 24})
	f.Add(w.B)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := ReadRecord(b); err == nil && r == nil {
			t.Error("neither a record nor an error")
		}
	})
}

// The kinds of calls in one message are told once each.
func TestCallKinds(t *testing.T) {
	kind := func(f string) []byte {
		return AppendCallKind(CallKind{ID: 7, Function: f, Inputs: []KindIn{{Name: "x", List: true}}, Outputs: []KindOut{{Name: "y"}}}, "env")
	}
	events := func(kinds ...string) []byte {
		m := &Events{Jobs: []JobEvents{{}}}
		for i, f := range kinds {
			m.Jobs[0].Events = append(m.Jobs[0].Events, Event{Kind: EventCall, Parent: []byte("p"), Called: &Called{Ref: CallRef{Number: uint64(i)}, Function: "f", Kind: kind(f), Order: uint64(i), Met: 2}})
		}
		return Encode(m)
	}
	same, mixed := events("a", "a", "a", "a", "a", "a"), events("a", "b", "a", "b", "b", "a")
	if more := len(mixed) - len(same); more > len(kind("b"))+12 {
		t.Errorf("a second kind takes %d bytes, itself %d", more, len(kind("b")))
	}
	m, err := Decode(mixed)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range m.(*Events).Jobs[0].Events {
		k, err := ReadCallKind(e.Called.Kind)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, k.Function+" in "+k.Environment)
	}
	if want := []string{"a in env", "b in env", "a in env", "b in env", "b in env", "a in env"}; !reflect.DeepEqual(got, want) {
		t.Errorf("kinds %q, want %q", got, want)
	}
	if _, err := ReadCallKind([]byte{0xc1}); err == nil {
		t.Error("a malformed kind is read")
	}
}
