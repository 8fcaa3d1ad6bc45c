package session

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func greetings() *rapid.Generator[*Greeting] {
	return rapid.Custom(func(t *rapid.T) *Greeting {
		number := rapid.Uint64()
		text := rapid.StringN(0, 60, 255)
		return &Greeting{
			ProtocolMin: rapid.Uint64Range(0, 5).Draw(t, "min"), ProtocolMax: rapid.Uint64Range(5, math.MaxUint64).Draw(t, "max"),
			Role: rapid.StringN(1, 60, 255).Draw(t, "role"), Name: rapid.StringN(1, 60, 255).Draw(t, "name"),
			Incarnation: number.Draw(t, "incarnation"), PID: rapid.Int64Range(0, math.MaxInt64).Draw(t, "pid"), Build: text.Draw(t, "build"),
			Features: rapid.SliceOfN(text, 0, 8).Draw(t, "features"), Replay: rapid.Bool().Draw(t, "replay"),
			Session: number.Draw(t, "session"), Resume: number.Draw(t, "resume"),
			MaxHead: number.Draw(t, "head"), MaxBody: number.Draw(t, "body"),
		}
	})
}

func TestEnvelopesTravel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Envelope{Kind: Kind(rapid.IntRange(1, 6).Draw(t, "kind")), Seq: rapid.Uint64().Draw(t, "seq"), Ack: rapid.Uint64().Draw(t, "ack")}
		switch e.Kind {
		case Hello, Welcome:
			e.Greeting = greetings().Draw(t, "greeting")
			if len(e.Greeting.Features) == 0 {
				e.Greeting.Features = nil
			}
		case Data:
			e.WantAck = rapid.Bool().Draw(t, "want ack")
		case Close, Refuse:
			e.Text = rapid.String().Draw(t, "text")
		}
		got, err := Decode(e.Append(nil))
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Fatalf("%+v became %+v, %v", e, got, err)
		}
	})
}

func TestUnknownTrailingFieldsAreIgnored(t *testing.T) {
	extra := []byte("\x9f" + // 15 fields: kind, seq, ack, want ack, and eleven strangers
		"\x03\x05\x04\x01" + "\xc0\xc3\xff\xd1\x00\x01\xcb01234567\xa2hi\xc4\x02ab\x92\x01\x91\xc2\x81\x01\xa1x\xd4\x07z\xdd\x00\x00\x00\x00")
	e, err := Decode(extra)
	if err != nil || e.Kind != Data || e.Seq != 5 || e.Ack != 4 || !e.WantAck {
		t.Errorf("%+v, %v", e, err)
	}
	later := []byte{0x94, 99, 1, 2, 0xc0} // a kind of a later protocol
	if e, err = Decode(later); err != nil || e.Kind != 99 {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestMalformedEnvelopes(t *testing.T) {
	hello := Envelope{Kind: Hello, Greeting: &Greeting{Role: "r", Name: "n"}}
	long := Envelope{Kind: Hello, Greeting: &Greeting{Role: "r", Name: strings.Repeat("n", 256)}}
	empty := Envelope{Kind: Hello, Greeting: &Greeting{Role: "", Name: "n"}}
	inverted := Envelope{Kind: Hello, Greeting: &Greeting{Role: "r", Name: "n", ProtocolMin: 2, ProtocolMax: 1}}
	many := Envelope{Kind: Hello, Greeting: &Greeting{Role: "r", Name: "n", Features: make([]string, 65)}}
	for name, p := range map[string][]byte{
		"empty":             nil,
		"not an array":      {0x01},
		"two fields":        {0x92, 3, 1},
		"short":             {0x93, 3, 0xcf, 1},
		"negative":          {0x93, 3, 0xff, 1},
		"kind 256":          {0x93, 0xcd, 1, 0, 1, 1},
		"trailing bytes":    {0x93, 3, 1, 0, 0},
		"huge array":        {0xdd, 0xff, 0xff, 0xff, 0xff},
		"huge string":       {0x94, 6, 1, 1, 0xdb, 0xff, 0xff, 0xff, 0xff},
		"huge map":          {0x95, 3, 1, 1, 0, 0xdf, 0xff, 0xff, 0xff, 0xff},
		"reserved byte":     {0x95, 3, 1, 1, 0, 0xc1},
		"nested":            append([]byte{0x95, 3, 1, 1, 0}, bytes.Repeat([]byte{0x91}, 1000)...),
		"above the limit":   append([]byte{0x95, 3, 1, 1, 0, 0xc5, 0xff, 0xff}, make([]byte, 0xffff)...),
		"short greeting":    {0x93, 1, 0, 0},
		"truncated hello":   hello.Append(nil)[:20],
		"long name":         long.Append(nil),
		"empty role":        empty.Append(nil),
		"inverted protocol": inverted.Append(nil),
		"too many features": many.Append(nil),
	} {
		if e, err := Decode(p); !errors.Is(err, ErrEnvelope) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(AppendData(nil, 1<<40, 7, true))
	hello := Envelope{Kind: Hello, Greeting: &Greeting{Role: "agent", Name: "a", Features: []string{"x"}, ProtocolMax: 1}}
	f.Add(hello.Append(nil))
	f.Add([]byte{0x95, 3, 1, 1, 0, 0xdf, 0, 0, 0, 1, 0xc0, 0x91, 0xc0})
	f.Fuzz(func(t *testing.T, p []byte) {
		e, err := Decode(p)
		if err != nil {
			return
		}
		again, err := Decode(e.Append(nil))
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Errorf("%+v became %+v, %v", e, again, err)
		}
	})
}

// Two ends with a lossy wire between them, against a plain list: what is
// accepted arrives in order, each once, whatever is cut and replayed.
func TestSequencesDeliverInOrderOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		out := NewOutbox(true, 2000, 12)
		var in Inbox
		var wire []Entry
		accepted, delivered := byte(0), byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				err := out.Push([]byte{accepted + 1}, make([]byte, rapid.IntRange(0, 300).Draw(t, "body")))
				if err == nil {
					accepted++
				} else if out.Len() == 0 || !errors.Is(err, ErrFull) {
					t.Fatalf("refused with %d held: %v", out.Len(), err)
				}
			},
			"send": func(*rapid.T) {
				if e, ok := out.Take(); ok {
					wire = append(wire, e)
				}
			},
			"receive": func(t *rapid.T) {
				if len(wire) == 0 {
					return
				}
				e := wire[0]
				wire = wire[1:]
				fresh, err := in.Check(e.Seq)
				if err != nil || !fresh {
					t.Fatalf("message %d after %d: fresh %t, %v", e.Seq, in.Last(), fresh, err)
				}
				in.Commit(e.Seq)
				if e.Head[0] != delivered+1 {
					t.Fatalf("message %d after %d", e.Head[0], delivered)
				}
				delivered++
			},
			"duplicate": func(t *rapid.T) {
				if in.Last() > 0 {
					if fresh, err := in.Check(rapid.Uint64Range(1, in.Last()).Draw(t, "old")); fresh || err != nil {
						t.Fatalf("an old message: fresh %t, %v", fresh, err)
					}
				}
			},
			"acknowledge": func(t *rapid.T) {
				if err := out.Ack(rapid.Uint64Range(0, in.Last()).Draw(t, "ack")); err != nil {
					t.Fatal(err)
				}
			},
			"break": func(t *rapid.T) {
				wire = nil
				if err := out.Rewind(in.Last()); err != nil {
					t.Fatal(err)
				}
			},
			"credit": func(t *rapid.T) {
				if out.Credit() && out.Len() > 6 {
					t.Fatalf("credit with %d of 12 held", out.Len())
				}
			},
			"": func(t *rapid.T) {
				if n := out.Len(); n > 12 || n < int(accepted-delivered) || (out.Bytes() > 2000 && n > 1) || (n == 0) != (out.Bytes() == 0) {
					t.Fatalf("holds %d messages of %d bytes, %d accepted, %d delivered", n, out.Bytes(), accepted, delivered)
				}
				if accepted > 200 {
					t.Skip("numbers end")
				}
			},
		})
	})
}

func TestOutboxRefusesWrongAcknowledgements(t *testing.T) {
	o := NewOutbox(true, 1000, 10)
	for range 3 {
		if err := o.Push(nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	o.Take()
	o.Take()
	if err := o.Ack(3); !errors.Is(err, ErrSequence) {
		t.Errorf("ack of what was not sent: %v", err)
	}
	if err := o.Ack(2); err != nil || o.Len() != 1 {
		t.Errorf("%v, %d left", err, o.Len())
	}
	if err := o.Ack(1); err != nil {
		t.Errorf("old ack: %v", err)
	}
	if err := o.Rewind(1); !errors.Is(err, ErrSequence) {
		t.Errorf("rewind before what was acknowledged: %v", err)
	}
}

func TestOversizedMessageGoesAlone(t *testing.T) {
	o := NewOutbox(false, 1000, 10)
	if err := o.Push(make([]byte, 5000), nil); err != nil {
		t.Errorf("into an empty outbox: %v", err)
	}
	if err := o.Push(nil, nil); !errors.Is(err, ErrFull) {
		t.Errorf("behind it: %v", err)
	}
	o.Take()
	if o.Len() != 0 || !o.Credit() || o.Credit() {
		t.Error("credit must be reported once, when it is gone")
	}
}
