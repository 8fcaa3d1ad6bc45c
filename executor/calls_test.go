package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// A caller is a run whose function is a part of a test.

var (
	bodies   sync.Map // func(context.Context) error, by number
	lastBody atomic.Int64
)

func callsBody(ctx context.Context, n int) (int, error) {
	body, _ := bodies.LoadAndDelete(n)
	return n, body.(func(context.Context) error)(ctx)
}

func sumOfList(_ context.Context, l List[int]) (int, error) {
	n := 0
	for _, v := range l.Values() {
		n += v
	}
	return n, nil
}

func quarters(_ context.Context, n int) (int, int, error) { return n / 4, n % 4, nil }

func countTo(_ context.Context, n int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
		yield(0, errOdd)
	}
}

type callScript struct {
	*fakeAgent
	t    testing.TB
	reg  *Registry
	run  comms.RunID
	n    int             // its input
	held []comms.Message // that came, and nobody has asked for
	over chan struct{}   // closed when the function has returned
}

func callRegistry() *Registry {
	reg := &Registry{}
	reg.RegisterError("odd", errOdd)
	func1(reg, "caller", callsBody, "n -> m")
	func1(reg, "double", double, "n -> n2")
	func1(reg, "total", sumOfList, "l -> sum")
	func1(reg, "ramp", makeRamp, "n -> v")
	func2(reg, "scaled", func2scaled, "v, with -> w")
	gen1(reg, "countTo", countTo, "n -> i")
	reg.Register(&Func{Name: "quarters", Call: func(ctx context.Context, in, out []any) error {
		q, r, err := quarters(ctx, As[int](in[0]))
		out[0], out[1] = q, r
		return err
	}}, quarters, "n -> q, r")
	return reg
}

func func2scaled(_ context.Context, v []float64, with scale) ([]float64, error) {
	out := slices.Clone(v)
	for i := range out {
		out[i] *= with.Factor
	}
	return out, nil
}

// startCaller runs a function that calls. Its error fails the test, in finish.
func startCaller(t testing.TB, body func(ctx context.Context, s *callScript) error) *callScript {
	s := &callScript{t: t, reg: callRegistry(), over: make(chan struct{})}
	s.fakeAgent = startExecutor(t, s.reg, comms.Welcome{Calls: true})
	s.start(body)
	return s
}

// startCallerWithStore is startCaller with shared memory.
func startCallerWithStore(t testing.TB, body func(ctx context.Context, s *callScript) error) (*callScript, *fakeStore) {
	s := &callScript{t: t, reg: callRegistry(), over: make(chan struct{})}
	var store *fakeStore
	s.fakeAgent, store = startWithStore(t, s.reg)
	s.exec.mu.Lock()
	s.exec.welcome.Calls = true
	s.exec.mu.Unlock()
	s.start(body)
	return s, store
}

func (s *callScript) start(body func(ctx context.Context, s *callScript) error, change ...func(*comms.Kind)) {
	n := int(lastBody.Add(1))
	bodies.Store(n, func(ctx context.Context) error {
		defer close(s.over)
		return body(ctx, s)
	})
	r := s.fakeAgent.run(s.kind("caller", []string{"n"}, []string{"m"}, change...), inline(s.t, s.reg, n))
	s.run, s.n = r.ID, n
	s.dispatch(r)
}

// goes calls a function in the body.
func (s *callScript) goes(ctx context.Context, function string, args ...any) *Call {
	return s.with(ctx, function, CallOptions{}, args...)
}

func (s *callScript) with(ctx context.Context, function string, o CallOptions, args ...any) *Call {
	fn, ok := s.reg.Lookup(function)
	if !ok {
		panic("no function " + function)
	}
	return fn.Go(ctx, o, args...)
}

// next returns the next message of a kind. Others wait until they are asked for.
func next[M comms.Message](s *callScript) M {
	s.t.Helper()
	for i, m := range s.held {
		if want, ok := m.(M); ok {
			s.held = slices.Delete(s.held, i, i+1)
			return want
		}
	}
	for {
		select {
		case m := <-s.inbox:
			if want, ok := m.(M); ok {
				return want
			}
			s.held = append(s.held, m)
			if rep, ok := m.(*comms.Report); ok && rep.Items[len(rep.Items)-1].Kind == comms.ReportFailed {
				s.t.Fatalf("the run failed: %+v", rep.Items[len(rep.Items)-1].Error)
			}
		case <-time.After(patience):
			s.t.Fatalf("executor sends no %T", *new(M))
		}
	}
}

// items returns the next n calls, and in how many messages they came.
func (s *callScript) items(n int) (items []comms.CallItem, messages int) {
	s.t.Helper()
	for len(items) < n {
		m := next[*comms.Calls](s)
		if m.Run != s.run {
			s.t.Errorf("a call of run %d, want %d", m.Run, s.run)
		}
		items, messages = append(items, m.Items...), messages+1
	}
	if len(items) != n {
		s.t.Fatalf("%d calls, want %d: %+v", len(items), n, items)
	}
	return items, messages
}

// waits returns the next wait, which must have this number.
func (s *callScript) waits(number uint64) *comms.CallWait {
	s.t.Helper()
	w := next[*comms.CallWait](s)
	if w.Run != s.run || w.Wait != number {
		s.t.Fatalf("%+v, want wait %d of run %d", w, number, s.run)
	}
	return w
}

// returns makes the end of a call.
func (s *callScript) returns(ref comms.CallRef, values ...any) comms.CallEnd {
	e := comms.CallEnd{Ref: ref}
	for i, v := range values {
		e.Outputs = append(e.Outputs, s.desc(v, uint32(i), 0))
	}
	return e
}

func (s *callScript) desc(v any, output uint32, element uint64) comms.Desc {
	c, err := s.reg.Codecs.For(reflect.TypeOf(v))
	if err != nil {
		s.t.Fatal(err)
	}
	f, err := c.Encode(v)
	if err != nil {
		s.t.Fatal(err)
	}
	return comms.Desc{Ref: comms.DatasetRef{Task: 1, Output: output, Element: element}, Attempt: 1, Codec: f.Codec, DType: f.DType, Shape: f.Shape, Size: uint64(len(f.Bytes)),
		Place: comms.Place{Kind: comms.PlaceInline, Bytes: f.Bytes}}
}

func (s *callScript) element(ref comms.CallRef, n uint64, v any) comms.CallEnd {
	return comms.CallEnd{Ref: ref, Element: true, Outputs: []comms.Desc{s.desc(v, 0, n)}}
}

func failure(ref comms.CallRef, text string, codes ...string) comms.CallEnd {
	return comms.CallEnd{Ref: ref, Error: &comms.TaskError{Kind: comms.ErrorTask, Message: text, Codes: codes, Task: "task1/0"}}
}

func (s *callScript) ends(ends ...comms.CallEnd) { s.tell(&comms.CallEnds{Run: s.run, Ends: ends}) }

func (s *callScript) goOn(wait uint64) { s.tell(&comms.CallGo{Run: s.run, Wait: wait}) }

// finish takes the end of the run, which must be a good one.
func (s *callScript) finish() {
	s.t.Helper()
	for {
		for _, it := range next[*comms.Report](s).Items {
			switch it.Kind {
			case comms.ReportFailed:
				s.t.Fatalf("the run failed: %+v", it.Error)
			case comms.ReportFinished:
				return
			}
		}
	}
}

func at(n uint64) comms.CallRef { return comms.CallRef{Number: n} }

func wantError(err error, text string) error {
	if err == nil || !strings.Contains(err.Error(), text) {
		return fmt.Errorf("error %w, want one that says %q", errors.Join(err), text)
	}
	return nil
}

func wantValue(ctx context.Context, f *Future, want any) error {
	if got, err := f.Get(ctx); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("it returned %v, %w; want %v", got, errors.Join(err), want)
	}
	return nil
}

// TestCallsInBatches makes many calls: they go in few messages, all of them before the
// wait, and the kind in the first.
func TestCallsInBatches(t *testing.T) {
	const n = 2500
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		fs := make([]*Future, n)
		for i := range fs {
			fs[i] = s.goes(ctx, "double", i).Output(0)
		}
		got, err := GetAll(ctx, fs)
		for i := range got {
			if got[i] != 2*i {
				return fmt.Errorf("call %d returned %v", i, got[i])
			}
		}
		return err
	})
	first := next[*comms.Calls](s)
	s.held = append(s.held, first)
	if k := first.Kinds; len(k) != 1 || k[0].ID != 1 || k[0].Function != "double" || k[0].Inputs[0].Name != "n" || k[0].Outputs[0].Name != "n2" {
		t.Errorf("the first message has kinds %+v", k)
	}
	items, messages := s.items(n)
	w := s.waits(1)
	if w.N != n || w.Seen != 0 || len(w.Refs) != 0 {
		t.Errorf("it waits by %+v", w)
	}
	if messages > n/10 {
		t.Errorf("%d calls in %d messages", n, messages)
	}
	var ends []comms.CallEnd
	for i, it := range items {
		if it.Ref != at(uint64(i)) || it.Kind != 1 || len(it.Inputs) != 1 {
			t.Fatalf("call %d is %+v", i, it)
		}
		ends = append(ends, s.returns(it.Ref, 2*i))
	}
	slices.Reverse(ends)
	s.ends(ends...)
	s.goOn(1)
	s.finish()
}

// TestOnlyCall makes calls one after another: each is sent before Go returns, as no call of the
// task that is made soon would have it wait longer.
func TestOnlyCall(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		for i := range 3 {
			for len(s.inbox) > 0 {
				<-s.inbox
			}
			f := s.goes(ctx, "double", i).Output(0)
			select {
			case m := <-s.inbox:
				c, ok := m.(*comms.Calls)
				if !ok || len(c.Items) != 1 {
					return fmt.Errorf("call %d sent %+v", i, m)
				}
				if i == 1 { // the third is the only one, too
					Release(f)
					continue
				}
				s.ends(s.returns(c.Items[0].Ref, 2*i))
			default:
				return fmt.Errorf("call %d was not sent", i)
			}
			if err := wantValue(ctx, f, 2*i); err != nil {
				return err
			}
		}
		return nil
	})
	<-s.over // until then the function takes the messages
	s.finish()
}

// TestTimedWait waits for many with a deadline, which passes: the run wants its cpu, and a wait that
// follows takes the place of the one that was given up.
func TestTimedWait(t *testing.T) {
	late := make(chan struct{})
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		futures := s.doubles(ctx, 100)
		timed, cancel := context.WithCancel(ctx)
		go func() {
			<-late
			cancel()
		}()
		if _, err := GetAll(timed, futures); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the wait that was given up: %w", err)
		}
		_, err := GetAll(ctx, futures)
		return err
	})
	items, _ := s.items(100)
	if w := s.waits(1); w.N != 100 {
		t.Errorf("%+v, want 100 items", w)
	}
	close(late)
	if w := s.waits(2); w.N != 0 {
		t.Errorf("%+v, want its cpu alone", w)
	}
	if w := s.waits(3); w.N != 100 {
		t.Errorf("%+v, want 100 items", w)
	}
	s.goOn(2) // it was on its way
	var ends []comms.CallEnd
	for _, it := range items {
		ends = append(ends, s.returns(it.Ref, 0))
	}
	s.ends(ends...)
	s.goOn(3)
	s.finish()
}

// TestSessionSaysThatItWaits has the program of a session wait: its agent learns of it, and its answer is not waited for.
func TestSessionSaysThatItWaits(t *testing.T) {
	s := &callScript{t: t, reg: callRegistry(), over: make(chan struct{})}
	s.fakeAgent = startExecutor(t, s.reg, comms.Welcome{Calls: true})
	s.exec.mu.Lock()
	s.exec.session = &Session{exec: s.exec, out: newPrinter(nil, nil)}
	s.exec.mu.Unlock()
	s.start(func(ctx context.Context, s *callScript) error {
		_, err := GetAll(ctx, s.doubles(ctx, 2))
		return err
	})
	items, _ := s.items(2)
	if w := s.waits(1); w.N != 2 {
		t.Errorf("%+v, want 2 items", w)
	}
	s.ends(s.returns(items[0].Ref, 0), s.returns(items[1].Ref, 0))
	<-s.over
	if w := s.waits(2); w.N != 0 {
		t.Errorf("%+v, want that it waits no more", w)
	}
}

// TestKindOutlivesBadCall makes a call that cannot be, of a kind that is new: the next
// of the kind still announces it.
func TestKindOutlivesBadCall(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		bad := &Future{typ: typeOf[int](), input: &inputRef{run: &run{}}}
		_, err := s.goes(ctx, "double", bad).Output(0).Get(ctx)
		return errors.Join(wantError(err, "of another task"), wantValue(ctx, s.goes(ctx, "double", 4).Output(0), 8))
	})
	m := next[*comms.Calls](s)
	if len(m.Kinds) != 1 || len(m.Items) != 1 || m.Items[0].Kind != m.Kinds[0].ID || m.Items[0].Ref != at(0) {
		t.Fatalf("%+v", m)
	}
	s.waits(1)
	s.ends(s.returns(at(0), 8))
	s.goOn(1)
	s.finish()
}

// TestKindsOfCalls makes calls with options: each set of them is a kind of its own.
func TestKindsOfCalls(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		o := CallOptions{Retries: 2, RetryOn: []error{errOdd}, Timeout: time.Minute, Priority: 3, Here: true, Name: "x"}
		o.Resources.CPU = 2000
		s.with(ctx, "double", o, 1)
		s.with(ctx, "double", o, 2)
		s.goes(ctx, "double", 3)
		s.with(NotRepeatable(ctx), "double", CallOptions{Name: "y"}, 4)
		_, err := s.with(ctx, "double", CallOptions{RetryOn: []error{errors.New("unknown")}}, 1).Output(0).Get(ctx)
		_, err2 := s.with(ctx, "double", CallOptions{Err: errOdd}, 1).Output(0).Get(ctx)
		_, err3 := s.goes(ctx, "double", "text").Output(0).Get(ctx)
		_, err4 := s.goes(ctx, "double").Output(0).Get(ctx)
		return errors.Join(wantError(err, "not registered"), wantError(err2, "odd number"), wantError(err3, "argument n is of type string"),
			wantError(err4, "takes 1 arguments, and got 0"), wantValue(ctx, s.goes(ctx, "double", 5).Output(0), 10))
	})
	var kinds []comms.CallKind
	var items []comms.CallItem
	once := false
	for len(items) < 5 {
		m := next[*comms.Calls](s)
		kinds, items, once = append(kinds, m.Kinds...), append(items, m.Items...), m.Once
	}
	if len(kinds) != 2 || !once {
		t.Errorf("kinds %+v, not repeatable: %v", kinds, once)
	}
	if k := kinds[0]; k.Retries != 2 || !slices.Equal(k.RetryOn, []string{"odd"}) || k.Timeout != int64(time.Minute) || k.Priority != 3 || !k.Here || k.Resources.CPU != 2000 {
		t.Errorf("kind %+v", k)
	}
	for i, want := range []uint32{1, 1, 2, 2, 2} {
		if items[i].Kind != want || items[i].Ref != at(uint64(i)) {
			t.Errorf("call %d is %+v", i, items[i])
		}
	}
	if items[0].Name != "x" || items[3].Name != "y" {
		t.Errorf("names %q, %q", items[0].Name, items[3].Name)
	}
	s.waits(1)
	s.ends(s.returns(at(4), 10))
	s.goOn(1)
	s.finish()
}

// TestStrandsCountAlone numbers the calls of each strand on their own.
func TestStrandsCountAlone(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		a, b := Strand(ctx, "a"), Strand(ctx, "b")
		if _, err := Put(Strand(a, "b"), 7); err != nil {
			return err
		}
		for _, c := range []context.Context{ctx, a, b, a, ctx, Strand(ctx, "a")} {
			s.goes(c, "double", 1)
		}
		return wantValue(ctx, s.goes(b, "double", 1).Output(0), 2)
	})
	items, _ := s.items(8)
	a, b := strandID(0, "a"), strandID(0, "b")
	want := []comms.CallRef{{Strand: strandID(a, "b")}, {}, {Strand: a}, {Strand: b}, {Strand: a, Number: 1}, {Number: 1}, {Strand: a, Number: 2}, {Strand: b, Number: 1}}
	for i := range want {
		if items[i].Ref != want[i] {
			t.Errorf("call %d is %v, want %v", i, items[i].Ref, want[i])
		}
	}
	s.waits(1)
	s.ends(s.returns(want[7], 2))
	s.goOn(1)
	s.finish()
}

// TestArgumentsOfCalls passes values, futures and lists of both.
func TestArgumentsOfCalls(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		one := s.goes(ctx, "double", 1).Output(0)
		put, err := Put(ctx, 5)
		if err != nil {
			return err
		}
		in, err := InputFuture(ctx, "n")
		if err != nil {
			return err
		}
		rest := s.goes(ctx, "quarters", 7).Output(1)
		s.goes(ctx, "total", ListOf(3, 4))
		s.goes(ctx, "total", Items{one, 6, put, rest, in})
		s.goes(ctx, "total", Items{})
		last := s.goes(ctx, "scaled", []float64{1}, scale{Factor: 2}).Output(0)
		_, err4 := s.goes(ctx, "total", ListOf("a")).Output(0).Get(ctx)
		_, err = s.goes(ctx, "total", Items{1, "two"}).Output(0).Get(ctx)
		_, err2 := s.goes(ctx, "scaled", []float64{1}, one).Output(0).Get(ctx)
		_, err3 := s.goes(ctx, "double", FailedFuture(errOdd)).Output(0).Get(ctx)
		return errors.Join(wantError(err, "argument l[1] is of type string"), wantError(err2, "parameters are given"), wantError(err4, "executor.List[string]"), wantError(err3, "odd number"), wantValue(ctx, last, []float64{2}))
	})
	items, _ := s.items(7)
	type src struct {
		from   comms.CallSource
		number uint64
		output uint32
		value  int
	}
	want := [][]src{
		{{value: 1}},
		{{value: 5}},
		{{value: 7}},
		{{value: 3}, {value: 4}},
		{{from: comms.FromCall}, {value: 6}, {from: comms.FromCall, number: 1}, {from: comms.FromCall, number: 2, output: 1}, {value: s.n}},
		{},
	}
	for i, w := range want {
		var got []src
		for _, in := range items[i].Inputs {
			g := src{from: in.From, number: in.Ref.Number, output: in.Output}
			if in.From == comms.FromValue {
				g.value = decoded[int](t, s.reg, in.Data)
			}
			got = append(got, g)
		}
		if !slices.Equal(got, w) {
			t.Errorf("call %d reads %+v, want %+v", i, got, w)
		}
	}
	if it := items[6]; len(it.Inputs) != 1 || !bytes.Contains(it.With, with(t, map[string]any{"factor": 2.0})[1:]) {
		t.Errorf("parameters are %x", it.With)
	}
	s.waits(1)
	s.ends(s.returns(at(6), []float64{2}))
	s.goOn(1)
	s.finish()
}

// TestSeveralResults gives each result of a call a future.
func TestSeveralResults(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		c := s.goes(ctx, "quarters", 7)
		return errors.Join(wantValue(ctx, c.Output(1), 3), wantValue(ctx, c.Output(0), 1))
	})
	s.items(1)
	if w := s.waits(1); len(w.Refs) != 1 || w.Refs[0] != at(0) || w.N != 1 {
		t.Errorf("%+v", w)
	}
	s.ends(s.returns(at(0), 1, 3))
	s.goOn(1)
	s.finish()
}

// TestCallsAfterTheTask calls from a goroutine that outlives its function.
func TestCallsAfterTheTask(t *testing.T) {
	late := make(chan context.Context, 1)
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		s.goes(ctx, "double", 1)
		late <- ctx
		return nil
	})
	s.finish()
	ctx := <-late
	_, err := s.goes(ctx, "double", 2).Output(0).Get(context.Background())
	_, err2 := Put(ctx, 2)
	if e := errors.Join(wantError(err, "has returned"), wantError(err2, "has returned")); e != nil {
		t.Error(e)
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not of a context that ended", err)
	}
	if Strand(ctx, "x") == nil {
		t.Error("no context")
	}
}

// TestPutLate puts a large value when the function has returned: no memory is taken for it.
func TestPutLate(t *testing.T) {
	late := make(chan context.Context, 1)
	s, store := startCallerWithStore(t, func(ctx context.Context, s *callScript) error {
		late <- ctx
		_, err := Put(ctx, ramp(big))
		return err
	})
	items, _ := s.items(1)
	if d := items[0].Inputs[0].Data; items[0].Kind != 0 || d.Place.Kind != comms.PlaceSegment || d.Hash != comms.HashOf(store.bytes(d)) {
		t.Errorf("the value is %+v", items[0])
	}
	s.finish()
	if _, err := Put(<-late, ramp(big)); err == nil {
		t.Error("a value was put after the end of the task")
	}
}

// TestPut keeps small values in the message, and knows them without the agent.
func TestPut(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		f, err := Put(ctx, 21)
		if err != nil {
			return err
		}
		_, none := Put(ctx, nil)
		ready, err := Wait(ctx, []*Future{f}, 1)
		if !f.Done() || len(ready) != 1 || err != nil {
			return fmt.Errorf("a value waits: %v, %w", ready, errors.Join(err))
		}
		Cancel("why not", f)
		return errors.Join(wantError(none, "no type"), wantValue(ctx, f, 21), wantValue(ctx, s.goes(ctx, "double", f).Output(0), 42))
	})
	items, _ := s.items(2)
	if in := items[0].Inputs; items[0].Kind != 0 || len(in) != 1 || in[0].From != comms.FromValue || decoded[int](t, s.reg, in[0].Data) != 21 {
		t.Errorf("the value is %+v", items[0])
	}
	if in := items[1].Inputs[0]; in.From != comms.FromCall || in.Ref != at(0) {
		t.Errorf("the call reads %+v", in)
	}
	s.waits(1)
	s.ends(s.returns(at(1), 42))
	s.goOn(1)
	s.finish()
}

// TestMalformedAnswers ends the executor when the agent says what makes no sense.
func TestMalformedAnswers(t *testing.T) {
	for name, m := range map[string]func(s *callScript) comms.Message{
		"two ends": func(s *callScript) comms.Message {
			return &comms.CallEnds{Run: s.run, Ends: []comms.CallEnd{s.returns(at(0), 1), s.returns(at(0), 1)}}
		},
		"another wait": func(s *callScript) comms.Message { return &comms.CallGo{Run: s.run, Wait: 2} },
		"elements skipped": func(s *callScript) comms.Message {
			return &comms.CallEnds{Run: s.run, Ends: []comms.CallEnd{s.element(at(0), 1, 1)}}
		},
		"empty element": func(s *callScript) comms.Message {
			return &comms.CallEnds{Run: s.run, Ends: []comms.CallEnd{{Ref: at(0), Element: true}}}
		},
		"empty answer": func(s *callScript) comms.Message {
			return &comms.CallEnds{Run: s.run, Ends: []comms.CallEnd{{Ref: at(0), Read: true}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &callScript{t: t, reg: callRegistry(), over: make(chan struct{})}
			s.fakeAgent = &fakeAgent{t: t, sealed: map[uint32]bool{}, ended: make(chan error, 1), inbox: make(chan comms.Message, 100)}
			s.exec = New(Config{Conn: s.fakeAgent, Registry: s.reg, Token: "t"})
			go func() { s.ended <- s.exec.Run() }()
			s.tell(&comms.Welcome{Calls: true, InlineMax: 4096})
			s.start(func(ctx context.Context, s *callScript) error {
				_, err := s.goes(ctx, "double", 1).Output(0).Get(ctx)
				return err
			})
			s.waits(1)
			s.tell(m(s))
			if err := s.wait(); !errors.Is(err, ErrProtocol) {
				t.Errorf("the executor ended with %v", err)
			}
			<-s.over
		})
	}
}

// TestNoOutput is told an end without the result.
func TestNoOutput(t *testing.T) {
	s := startCaller(t, func(ctx context.Context, s *callScript) error {
		_, err := s.goes(ctx, "double", 1).Output(0).Get(ctx)
		_, err2 := s.goes(ctx, "double", 1).Output(0).Get(ctx)
		return errors.Join(wantError(err, "no output 0"), wantError(err2, "read what a call returned"))
	})
	s.waits(1)
	s.ends(comms.CallEnd{Ref: at(0)})
	s.goOn(1)
	s.waits(2)
	e := s.returns(at(1), 2)
	e.Outputs[0].Size++
	s.ends(e)
	s.goOn(2)
	s.finish()
}

// A run forgets kinds of calls beyond a number, and says so with the first that is new.
func TestKindsOfCallsAreForgotten(t *testing.T) {
	c := &calls{kinds: map[string]uint32{}}
	for i := range 2*mostKinds + 1 {
		if id := c.newKind(fmt.Sprint(i), comms.CallKind{}); id != uint32(i)+1 {
			t.Fatalf("kind %d has the number %d", i, id)
		}
	}
	if len(c.kinds) != 1 || c.batch.Forget != 2*mostKinds {
		t.Errorf("it has %d kinds, and the agent forgets those up to %d", len(c.kinds), c.batch.Forget)
	}
}
