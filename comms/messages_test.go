package comms

import (
	"reflect"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// fill sets every field of a message to a value that is not zero, so that a
// field that code forgets shows as a difference.
func fill(v reflect.Value, n *uint64) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString("s" + string(rune('a'+*n%26)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(-int64(*n * 37))
	case reflect.Uint8:
		v.SetUint(*n%250 + 1)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(*n * 1009)
	default:
		panic("fill: " + v.Kind().String())
	}
}

func everyMessage() []Message {
	var ms []Message
	for t := range 256 {
		if m := newMessage(Type(t)); m != nil {
			ms = append(ms, m)
		}
	}
	return ms
}

func TestEveryFieldTravels(t *testing.T) {
	ms := everyMessage()
	if len(ms) < 30 {
		t.Fatalf("only %d messages are listed", len(ms))
	}
	for _, m := range ms {
		var n uint64
		fill(reflect.ValueOf(m).Elem(), &n)
		b := Encode(m)
		got, err := Decode(b)
		if err != nil {
			t.Errorf("%T: %v", m, err)
			continue
		}
		if !reflect.DeepEqual(m, got) {
			t.Errorf("%T\nsent %+v\ngot  %+v", m, m, got)
		}
		for i := range b {
			if _, err := Decode(b[:i]); err == nil {
				t.Errorf("%T: %d of %d bytes decode without error", m, i, len(b))
			}
		}
	}
}

func TestZeroMessagesTravel(t *testing.T) {
	for _, m := range everyMessage() {
		got, err := Decode(Encode(m))
		if err != nil {
			t.Errorf("%T: %v", m, err)
		} else if !reflect.DeepEqual(m, got) {
			t.Errorf("%T: sent %+v got %+v", m, m, got)
		}
	}
}

// An older sender has fewer fields, a newer one more.
func TestVersions(t *testing.T) {
	older := []byte{0x92, byte(TypeReply), 0x91, 7}
	newer := []byte{0x92, byte(TypeReply), 0x95, 7, 2, 0xa1, 'x', 0x92, 1, 0xa1, 'y', 0xc0}
	for _, c := range []struct {
		in   []byte
		want Reply
	}{
		{older, Reply{Req: 7}},
		{newer, Reply{Req: 7, Code: CodeNotFound, Message: "x"}},
	} {
		m, err := Decode(c.in)
		if err != nil {
			t.Fatalf("%x: %v", c.in, err)
		}
		if got := *m.(*Reply); got != c.want {
			t.Errorf("%x: got %+v, want %+v", c.in, got, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range everyMessage() {
		var n uint64
		f.Add(Encode(m))
		fill(reflect.ValueOf(m).Elem(), &n)
		f.Add(Encode(m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(Encode(m))
		if err != nil {
			t.Fatalf("%T decodes from %x and not from its own encoding: %v", m, b, err)
		}
		if string(Encode(again)) != string(Encode(m)) {
			t.Fatalf("%T: encoding is not stable", m)
		}
	})
}

// hotMessages are those that travel for every task.
func hotMessages() map[string]Message {
	d, r := &Dispatch{}, &Report{}
	for i := range 16 {
		data := Desc{Ref: DatasetRef{Task: 9, Output: 1}, Attempt: 1, Codec: "msgpack", Size: 8, Place: Place{Kind: PlaceInline, Bytes: make([]byte, 8)}}
		d.Runs = append(d.Runs, Run{ID: RunID(i), Kind: 1, Task: 70000, Attempt: 1, Inputs: []RunInput{{Data: []Desc{data}}}})
		r.Items = append(r.Items, ReportItem{Kind: ReportFinished, Run: RunID(i), At: 1 << 60, Outputs: []Desc{data},
			Usage: &Usage{Start: 1 << 60, Duration: 1000, CPU: 900, BytesIn: 8, BytesOut: 8}})
	}
	return map[string]Message{"Dispatch16": d, "Report16": r}
}

func BenchmarkEncode(b *testing.B) {
	for name, m := range hotMessages() {
		b.Run(name, func(b *testing.B) {
			buf := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				buf = Append(buf[:0], m)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, m := range hotMessages() {
		b.Run(name, func(b *testing.B) {
			buf := Encode(m)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A frame of empty records must not become a hundred times its size in memory.
func TestMemoryIsBounded(t *testing.T) {
	const n = 1 << 20
	b := []byte{0x92, byte(TypeReport), 0x91, 0xdd, 0, n >> 16, 0, 0} // Report{Items: n times nil}
	for range n {
		b = append(b, 0xc0)
	}
	if m, err := Decode(b); err == nil {
		t.Fatalf("%d empty items in %d bytes decode to %d records", n, len(b), len(m.(*Report).Items))
	}
	// Real batches, the leanest that agents send, pass.
	events := &Events{First: 1, Jobs: []JobEvents{{Job: JobID{1}}}}
	for i := range dag.TaskIndex(10_000) {
		events.Jobs[0].Events = append(events.Jobs[0].Events, Event{Kind: EventReady, Task: i, Attempt: 1})
	}
	if _, err := Decode(Encode(events)); err != nil {
		t.Error(err)
	}
}
