package comms

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
)

func someDescs(t *rapid.T, name string, most int) (out []Desc) {
	for range rapid.IntRange(0, most).Draw(t, name) {
		d := Desc{Ref: DatasetRef{Task: dag.TaskIndex(rapid.Uint32Range(0, 9).Draw(t, "task")), Output: rapid.Uint32Range(0, 2).Draw(t, "output"),
			Element: rapid.Uint64().Draw(t, "element")}, Attempt: rapid.Uint32Range(0, 2).Draw(t, "attempt"),
			Codec: rapid.SampledFrom([]string{"", "raw", "array"}).Draw(t, "codec"), DType: rapid.SampledFrom([]string{"", "f64"}).Draw(t, "dtype"),
			Shape: rapid.SampledFrom([][]uint64{nil, {1}, {2, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}).Draw(t, "shape"),
			Size:  rapid.Uint64().Draw(t, "size"), Hash: Hash(rapid.SampledFrom([]string{"", "\x01\xff"}).Draw(t, "hash"))}
		switch rapid.IntRange(0, 4).Draw(t, "place") {
		case 0:
			d.Place = Place{Kind: PlaceInline, Bytes: rapid.SampledFrom([][]byte{nil, {1}, {2, 3}}).Draw(t, "bytes")}
		case 1:
			d.Place = Place{Kind: PlaceSegment, Segment: rapid.Uint32().Draw(t, "segment"), Offset: rapid.Uint64().Draw(t, "offset")}
		case 2:
			d.Place = Place{Kind: PlaceLive, Run: RunID(rapid.Uint64().Draw(t, "run"))}
		case 3:
			d.Place = Place{Kind: PlaceDisk, Where: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "where")}
		}
		out = append(out, d)
	}
	return out
}

func someUsage(t *rapid.T) *Usage {
	if rapid.Bool().Draw(t, "no usage") {
		return nil
	}
	n := func(name string) uint64 { return rapid.Uint64Range(0, 1<<40).Draw(t, name) }
	u := &Usage{Start: int64(n("start")), Duration: int64(n("duration")), CPU: int64(n("cpu")), PeakRSS: n("rss"), BytesIn: n("in"), BytesOut: n("out"), Copied: n("copied")}
	if rapid.IntRange(0, 9).Draw(t, "device") == 0 { // what has this is in no block
		u.Device = &DeviceUse{Copies: n("copies"), Bytes: n("bytes"), Kept: n("kept")}
	}
	return u
}

// someReads draws inputs of a call, of which only references are told.
func someReads(t *rapid.T) (in []CallInput) {
	for range rapid.IntRange(0, 3).Draw(t, "reads") {
		in = append(in, CallInput{Port: rapid.Uint32Range(0, 2).Draw(t, "port"), From: CallSource(rapid.IntRange(0, 2).Draw(t, "from")), Ref: CallRef{Number: rapid.Uint64().Draw(t, "call")},
			Output: rapid.Uint32Range(0, 1).Draw(t, "output"), Element: rapid.Uint64().Draw(t, "element"), Input: 3, Item: 4})
	}
	return in
}

// TestEdges reads what AppendEdges writes.
func TestEdges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := someReads(t)
		var want []CallEdge
		for _, x := range in {
			switch x.From {
			case FromCall:
				want = append(want, CallEdge{x.Port, FromCall, x.Ref, x.Output, x.Element})
			case FromInput:
				want = append(want, CallEdge{x.Port, FromInput, CallRef{}, x.Input, uint64(x.Item)})
			}
		}
		if got, err := ReadEdges(AppendEdges(nil, in)); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	})
	for _, b := range [][]byte{{1}, {2, 0, 0, 0}, append(AppendEdges(nil, []CallInput{{From: FromCall}}), 1)} {
		if got, err := ReadEdges(b); err == nil {
			t.Errorf("%v is read as %v", b, got)
		}
	}
}

// someEvents draws events that can be in a block and, now and then, one that cannot.
func someEvents(t *rapid.T) (out []Event) {
	for range rapid.IntRange(0, 12).Draw(t, "events") {
		e := Event{Kind: rapid.SampledFrom([]EventKind{EventReady, EventStarted, EventFinished}).Draw(t, "kind"),
			Task: dag.TaskIndex(rapid.Uint32().Draw(t, "task")), Attempt: rapid.Uint32Range(1, 2).Draw(t, "attempt"), At: rapid.Int64().Draw(t, "at"),
			Executor: ExecutorID(rapid.Uint32Range(0, 3).Draw(t, "executor")), Usage: someUsage(t), Outputs: someDescs(t, "outputs", 3),
			Cause: Cause{Kind: CauseKind(rapid.Uint8Range(0, 8).Draw(t, "cause")), Number: rapid.Uint64().Draw(t, "number"),
				Ref: DatasetRef{Task: 3, Output: 1, Element: rapid.Uint64().Draw(t, "element")}}}
		switch rapid.IntRange(0, 9).Draw(t, "odd") {
		case 0:
			e.Cause.Text = "because"
		case 1:
			e.Error = &TaskError{Message: "no"}
		case 2:
			e.Kind, e.Count = EventStreamEnd, 3
		case 3:
			e.Kind, e.Steps = EventSteps, []byte{1}
		case 4, 5:
			e.Kind, e.Count, e.Parent = EventCall, 1, rapid.SampledFrom([][]byte{nil, []byte("root"), []byte("fit/2")}).Draw(t, "parent")
			e.Called = &Called{Ref: CallRef{Strand: rapid.Uint64().Draw(t, "strand"), Number: rapid.Uint64Range(0, 3).Draw(t, "number")}, Made: rapid.Int64().Draw(t, "made"),
				Name: rapid.SampledFrom([]string{"", "named"}).Draw(t, "name"), Function: rapid.SampledFrom([]string{"f", "g"}).Draw(t, "function"),
				Host: rapid.SampledFrom([]string{"", "b"}).Draw(t, "host"), Reads: AppendEdges(nil, someReads(t)),
				Kind: rapid.SampledFrom([][]byte{nil, []byte("kind"), []byte("other")}).Draw(t, "kind"), Record: rapid.SampledFrom([][]byte{nil, []byte("record")}).Draw(t, "record"),
				Order: rapid.Uint64Range(0, 9).Draw(t, "order"), Met: rapid.Uint64Range(0, 3).Draw(t, "met")}
		}
		out = append(out, e)
	}
	return out
}

func someItems(t *rapid.T) (out []ReportItem) {
	for range rapid.IntRange(0, 12).Draw(t, "items") {
		it := ReportItem{Kind: rapid.SampledFrom([]ReportKind{ReportPublished, ReportFinished}).Draw(t, "kind"), Run: RunID(rapid.Uint64().Draw(t, "run")),
			At: rapid.Int64().Draw(t, "at"), Usage: someUsage(t), Outputs: someDescs(t, "outputs", 2)}
		switch rapid.IntRange(0, 9).Draw(t, "odd") {
		case 0:
			it.Counts = []StreamEnd{{Count: 2}}
		case 1:
			it.Lease = &Lease{Segment: 1}
		}
		out = append(out, it)
	}
	return out
}

func someRuns(t *rapid.T) (out []Run) {
	outputs := rapid.SampledFrom([][]uint32{nil, {0}, {0, 7}})
	for range rapid.IntRange(0, 12).Draw(t, "runs") {
		r := Run{ID: RunID(rapid.Uint64Min(1).Draw(t, "id")), Kind: rapid.Uint32().Draw(t, "kind"), Task: dag.TaskIndex(rapid.Uint32().Draw(t, "task")),
			Attempt: 1, Name: rapid.SampledFrom([]string{"", "a[1]"}).Draw(t, "name"), With: rapid.SampledFrom([][]byte{nil, {0x80}}).Draw(t, "with"),
			Live: outputs.Draw(t, "live"), Private: outputs.Draw(t, "private")}
		for range rapid.IntRange(0, 2).Draw(t, "inputs") {
			r.Inputs = append(r.Inputs, RunInput{Data: someDescs(t, "data", 3)})
		}
		switch rapid.IntRange(0, 9).Draw(t, "odd") {
		case 0:
			r.Env = []string{"A=1"}
		case 1:
			r.Steps = []byte{0}
		}
		out = append(out, r)
	}
	return out
}

func TestBlocksKeepEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, m := range []Message{
			&Events{First: 1, Jobs: []JobEvents{{Events: someEvents(t)}, {Events: someEvents(t)}}},
			&Report{Items: someItems(t)},
			&Dispatch{Runs: someRuns(t)},
		} {
			got, err := Decode(Encode(m))
			if err != nil || !reflect.DeepEqual(got, m) {
				t.Fatalf("%+v\n%v; want\n%+v", got, err, m)
			}
		}
	})
}

// endsOf is the events of n tasks that each read three others and publish a number.
func endsOf(n int) *Events {
	e := make([]Event, n)
	for i := range e {
		task := dag.TaskIndex(1000 + i)
		u := &Usage{Start: 1_763_700_000_000_000_000 + int64(i)*20_000, Duration: 12_000 + int64(i%7), CPU: 12_000, PeakRSS: 1 << 24, BytesIn: 24, BytesOut: 8}
		e[i] = Event{Kind: EventFinished, Task: task, Attempt: 1, At: u.Start + 50_000, Executor: 1, Usage: u,
			Cause:   Cause{Kind: CauseDataset, Ref: DatasetRef{Task: task - 32}},
			Outputs: []Desc{{Ref: DatasetRef{Task: task}, Attempt: 1, Codec: "msgpack", Size: 9, Place: Place{Kind: PlaceInline, Bytes: []byte("\xcb12345678")}}}}
	}
	return &Events{First: 1, Jobs: []JobEvents{{Events: e}}}
}

func TestBlocksAreSmall(t *testing.T) {
	if n := len(Encode(endsOf(100))); n > 100*45 {
		t.Errorf("100 events take %d bytes", n)
	}
}

func TestBlocksAreBounded(t *testing.T) {
	k := &block{}
	k.count(MaxSteps)
	k.events(make([]Event, MaxSteps))
	one := Event{Kind: EventBlock, Steps: k.b}
	send := func(n int) error {
		m := &Events{Jobs: []JobEvents{{}}}
		for range n {
			m.Jobs[0].Events = append(m.Jobs[0].Events, one)
		}
		_, err := Decode(Encode(m))
		return err
	}
	if err := send(1); err != nil {
		t.Errorf("one block: %v", err)
	}
	if err := send(blockMost/MaxSteps + 1); !errors.Is(err, ErrMalformed) {
		t.Errorf("blocks that stand for more than %d entries: %v", blockMost, err)
	}
	k = &block{}
	k.count(1)
	k.events([]Event{{Kind: EventBlock}})
	one.Steps = k.b
	if err := send(1); !errors.Is(err, ErrMalformed) {
		t.Errorf("a block in a block: %v", err)
	}
	one.Steps = append(k.b, 0)
	if err := send(1); !errors.Is(err, ErrMalformed) {
		t.Errorf("bytes behind a block: %v", err)
	}
	if got, err := Decode(Encode(endsOf(3 * blockMost))); err != nil || !reflect.DeepEqual(got, endsOf(3*blockMost)) {
		t.Errorf("more than blocks may hold: %v", err)
	}
}

func BenchmarkEvents(b *testing.B) {
	m := endsOf(100)
	for b.Loop() {
		if _, err := Decode(Encode(m)); err != nil {
			b.Fatal(err)
		}
	}
}
