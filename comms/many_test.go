package comms

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// alikes makes messages of one type that may go together: what differs is drawn,
// what they share is the same memory.
func alikes(t *rapid.T, n int) []Message {
	number := rapid.Uint64()
	registry := []FuncSig{{Name: "f", Sig: "()"}}
	graph := []byte{1, 2}
	kind := rapid.IntRange(0, 4).Draw(t, "type")
	ms := make([]Message, n)
	for i := range ms {
		id := JobID{byte(number.Draw(t, "job")), 2}
		switch kind {
		case 0:
			ms[i] = &Submit{Req: number.Draw(t, "req"), Job: id, GraphHash: "h", Dir: "/d", Tenant: "o", Priority: -1, Weight: 2, Registry: registry, Watch: true, Every: -1}
		case 1:
			ms[i] = &Accepted{Req: number.Draw(t, "req"), Job: id, Again: true}
		case 2:
			ms[i] = &Progress{Req: number.Draw(t, "req"), Job: id, Name: "j", Phase: JobDone, Final: true, Groups: []GroupCounts{{Group: "g", Done: 1}},
				Started: int64(number.Draw(t, "started")), Ended: int64(number.Draw(t, "ended")), TaskTime: int64(number.Draw(t, "time"))}
		case 3:
			ms[i] = &Assign{Job: id, JobIncarnation: number.Draw(t, "life"), Epoch: 1, Graph: graph, Tenant: "o", Registry: registry, Ranks: []byte{7}, Seconds: []float64{1}}
		default:
			ms[i] = &Retain{Job: id, JobIncarnation: number.Draw(t, "life")}
		}
	}
	return ms
}

// Messages that were joined come out as they went in, and one alone goes as itself.
func TestManyKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := alikes(t, rapid.IntRange(1, 9).Draw(t, "n"))
		var b Bunch
		for _, m := range ms {
			if !b.Add(m) {
				t.Fatalf("%+v does not go with those before", m)
			}
		}
		m := b.Take()
		if _, many := m.(*Many); many != (len(ms) > 1) {
			t.Fatalf("%d messages became a %T", len(ms), m)
		}
		var got []Message
		if err := DecodeEach(Encode(m), func(m Message) { got = append(got, m) }); err != nil || !reflect.DeepEqual(got, ms) {
			t.Fatalf("%v\n%+v\nwant\n%+v", err, got, ms)
		}
		if m := b.Take(); m != nil {
			t.Fatalf("%+v was left", m)
		}
	})
}

// What differs in more than its numbers goes by itself, in order.
func TestManyAlone(t *testing.T) {
	graph := []byte{1}
	for what, pair := range map[string][2]Message{
		"other type":     {&Accepted{}, &Submit{}},
		"with a graph":   {&Submit{Graph: graph}, &Submit{}},
		"another graph":  {&Submit{GraphHash: "a"}, &Submit{GraphHash: "b"}},
		"labels":         {&Submit{}, &Submit{Labels: []string{"a=b"}}},
		"held":           {&Submit{}, &Submit{Hold: true}},
		"again":          {&Accepted{}, &Accepted{Again: true}},
		"not the end":    {&Progress{Final: true}, &Progress{}},
		"other counts":   {&Progress{Groups: []GroupCounts{{Done: 1}}}, &Progress{Groups: []GroupCounts{{Failed: 1}}}},
		"an error":       {&Progress{}, &Progress{Error: &TaskError{}}},
		"events":         {&Progress{}, &Progress{Events: make([]Event, 1)}},
		"epoch":          {&Assign{Epoch: 1}, &Assign{Epoch: 2}},
		"a fragment":     {&Assign{}, &Assign{Run: make([]Range, 1)}},
		"other bytes":    {&Assign{Graph: graph}, &Assign{Graph: []byte{1}}},
		"datasets":       {&Retain{}, &Retain{Keep: make([]DatasetRef, 1)}},
		"never together": {&Query{}, &Query{}},
	} {
		var b Bunch
		first := b.Add(pair[0])
		if first && b.Add(pair[1]) {
			t.Errorf("%s: they went together", what)
		}
		if m := b.Take(); first != (m == pair[0]) {
			t.Errorf("%s: %v was added, and %+v came out", what, first, m)
		}
	}
}

// Two messages that differ in any one field become themselves again, or do not go
// together: whoever adds a field to a message has to say which.
func TestManyLosesNoField(t *testing.T) {
	for _, m := range []alike{&Submit{}, &Accepted{}, &Progress{}, &Assign{}, &Retain{}} {
		typ := reflect.TypeOf(m).Elem()
		for i := range typ.NumField() {
			other, ok := reflect.New(typ).Interface().(alike)
			if !ok {
				t.Fatalf("%v is not alike", typ)
			}
			setOther(t, reflect.ValueOf(other).Elem().Field(i))
			for _, pair := range [][2]alike{{m, other}, {other, m}} {
				var b Bunch
				if !b.Add(pair[0]) || !b.Add(pair[1]) {
					continue
				}
				var got, want []byte
				err := DecodeEach(Encode(b.Take()), func(m Message) { got = append(got, Encode(m)...) })
				want = append(Encode(pair[0]), Encode(pair[1])...)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s.%s is lost: %v\n%x\nwant\n%x", typ.Name(), typ.Field(i).Name, err, got, want)
				}
			}
		}
	}
}

// setOther makes a field of a message another than in the zero message.
func setOther(t *testing.T, f reflect.Value) {
	t.Helper()
	switch {
	case f.Kind() == reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	case f.Kind() == reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
	case f.Kind() == reflect.String:
		f.SetString("x")
	case f.Kind() == reflect.Bool:
		f.SetBool(true)
	case f.CanInt():
		f.SetInt(1)
	case f.CanUint():
		f.SetUint(1)
	case f.CanFloat():
		f.SetFloat(1)
	case f.Kind() == reflect.Array && f.Type().Elem().Kind() == reflect.Uint8:
		f.Index(0).SetUint(1)
	case f.Kind() == reflect.Struct:
		setOther(t, f.Field(0))
	default:
		t.Fatalf("a field of kind %v: say how it differs", f.Kind())
	}
}

func TestManyIsBounded(t *testing.T) {
	var b Bunch
	n := 0
	for b.Add(&Retain{Job: JobID{1}, JobIncarnation: uint64(n)}) {
		n++
	}
	if n != MaxSteps {
		t.Errorf("%d messages went together, want %d", n, MaxSteps)
	}
}

func TestManyRefused(t *testing.T) {
	two := func() *Many {
		var b Bunch
		b.Add(&Accepted{Req: 1})
		b.Add(&Accepted{Req: 2})
		return b.Take().(*Many)
	}
	for what, change := range map[string]func(*Many){
		"no message":      func(m *Many) { m.Like = nil },
		"of many":         func(m *Many) { m.Like = Encode(two()) },
		"of a query":      func(m *Many) { m.Like = Encode(&Query{}) },
		"with a graph":    func(m *Many) { m.Like = Encode(&Submit{Graph: []byte{1}}) },
		"of none":         func(m *Many) { m.Jobs = nil },
		"half a job":      func(m *Many) { m.Jobs = m.Jobs[:20] },
		"more than told":  func(m *Many) { m.Numbers = append(m.Numbers, 0) },
		"fewer than told": func(m *Many) { m.Numbers = nil },
		"too many":        func(m *Many) { m.Jobs = make([]byte, 16*(MaxSteps+1)) },
	} {
		m := two()
		change(m)
		if err := DecodeEach(Encode(m), func(m Message) { t.Errorf("%s: %+v", what, m) }); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := DecodeEach([]byte{0x92, 9, 0x90}, nil); !errors.As(err, new(*UnknownTypeError)) {
		t.Errorf("an unknown message is %v", err)
	}
}

// FuzzMany: bytes of any kind are read without a panic, and no more messages come
// out than there are jobs.
func FuzzMany(f *testing.F) {
	var b Bunch
	for i := range uint64(3) {
		b.Add(&Progress{Req: i, Job: JobID{byte(i)}, Groups: []GroupCounts{{Group: "g"}}})
	}
	m := b.Take().(*Many)
	f.Add(m.Like, m.Jobs, m.Numbers)
	f.Fuzz(func(t *testing.T, like, jobs, numbers []byte) {
		all, err := (&Many{Like: like, Jobs: jobs, Numbers: numbers}).All()
		if err == nil && len(all) != len(jobs)/16 {
			t.Fatalf("%d messages of %d bytes of jobs", len(all), len(jobs))
		}
	})
}

func BenchmarkMany(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			registry := []FuncSig{{Name: "f", Sig: "()"}}
			var bunch Bunch
			for i := 0; i < b.N; i += n {
				for k := range n {
					bunch.Add(&Submit{Req: uint64(k), Job: JobID{byte(k)}, GraphHash: "h", Dir: "/d", Tenant: "o", Registry: registry})
				}
				if err := DecodeEach(Encode(bunch.Take()), func(Message) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
