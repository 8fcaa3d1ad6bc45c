package executor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
)

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// The constructors of package cascade in small, for these tests.

func func1[A, X any](r *Registry, name string, fn func(context.Context, A) (X, error), names string) {
	r.Register(&Func{Name: name, Call: func(ctx context.Context, in, out []any) error {
		x, err := fn(ctx, As[A](in[0]))
		out[0] = x
		return err
	}}, fn, names)
}

func func2[A, B, X any](r *Registry, name string, fn func(context.Context, A, B) (X, error), names string) {
	r.Register(&Func{Name: name, Call: func(ctx context.Context, in, out []any) error {
		x, err := fn(ctx, As[A](in[0]), As[B](in[1]))
		out[0] = x
		return err
	}}, fn, names)
}

func gen1[A, X any](r *Registry, name string, fn func(context.Context, A) iter.Seq2[X, error], names string) {
	r.Register(&Func{Name: name, Seq: func(ctx context.Context, in []any) iter.Seq2[any, error] {
		return func(yield func(any, error) bool) {
			for v, err := range fn(ctx, As[A](in[0])) {
				if !yield(v, err) {
					return
				}
			}
		}
	}}, fn, names)
}

var errOdd = errors.New("odd number")

type scale struct {
	Factor float64
	Offset float64 `with:"offset,optional"`
}

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

func half(_ context.Context, n int) (int, error) {
	if n%2 != 0 {
		return 0, fmt.Errorf("halve %d: %w", n, errOdd)
	}
	return n / 2, nil
}

func scaled(_ context.Context, p scale, v []float64) ([]float64, error) {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = v[i]*p.Factor + p.Offset
	}
	return out, nil
}

func sum(_ context.Context, l List[int]) (string, error) {
	n := 0
	for _, v := range l.All() {
		n += v
	}
	return fmt.Sprintf("%d of %d, missing %v", n, l.Total(), l.Missing()), nil
}

func explode(_ context.Context, s string) (int, error) {
	switch s {
	case "panic":
		panic("boom")
	case "goexit":
		runtime.Goexit()
	case "index":
		return []int{1}[len(s)], nil
	}
	return 1, nil
}

func untilCancelled(ctx context.Context, s string) (int, error) {
	<-ctx.Done()
	if s == "late" {
		return 1, nil
	}
	return 0, ctx.Err()
}

func count(_ context.Context, n int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i*i, nil) {
				return
			}
		}
	}
}

func testRegistry() *Registry {
	r := &Registry{}
	func1(r, "double", double, "n -> n2")
	func1(r, "half", half, "n -> h")
	func2(r, "scaled", scaled, "with, v -> w")
	func1(r, "sum", sum, "all -> text")
	func1(r, "explode", explode, "how -> n")
	func1(r, "wait", untilCancelled, "how -> n")
	gen1(r, "count", count, "n -> square")
	r.RegisterError("odd", errOdd)
	return r
}

func TestFunctionRuns(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("double", []string{"n"}, []string{"n2"})
	a.dispatch(a.run(k, inline(t, reg, 21)))
	it := a.items(1)[0]
	if it.Kind != comms.ReportFinished || it.Run != 1 || len(it.Outputs) != 1 {
		t.Fatalf("reported %+v", it)
	}
	if n := decoded[int](t, reg, it.Outputs[0]); n != 42 {
		t.Errorf("double(21) is %d", n)
	}
	if d := it.Outputs[0]; d.Ref.Task != 1 || d.Attempt != 1 || d.Codec != "msgpack" {
		t.Errorf("descriptor is %+v", d)
	}
	if u := it.Usage; u == nil || u.Duration <= 0 || u.Start <= 0 || u.BytesIn == 0 || u.BytesOut == 0 {
		t.Errorf("usage is %+v", u)
	}
}

func TestParametersArraysAndLists(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("scaled", []string{"v"}, []string{"w"})
	r := a.run(k, inline(t, reg, []float64{1, 2, 3}))
	r.With = with(t, map[string]any{"factor": 2, "offset": 0.5})
	a.dispatch(r)
	it := a.items(1)[0]
	if it.Error != nil {
		t.Fatal(it.Error)
	}
	if got := decoded[[]float64](t, reg, it.Outputs[0]); !slices.Equal(got, []float64{2.5, 4.5, 6.5}) {
		t.Errorf("scaled is %v", got)
	}
	if d := it.Outputs[0]; d.DType != "f64" || !slices.Equal(d.Shape, []uint64{3}) {
		t.Errorf("descriptor is %+v", d)
	}

	k = a.kind("sum", []string{"all*"}, []string{"text"})
	r = a.run(k)
	r.Inputs = []comms.RunInput{{Data: []comms.Desc{inline(t, reg, 1), {}, inline(t, reg, 4)}}}
	a.dispatch(r)
	if got := decoded[string](t, reg, a.items(1)[0].Outputs[0]); got != "5 of 3, missing [1]" {
		t.Errorf("sum is %q", got)
	}
}

func TestFailures(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	half := a.kind("half", []string{"n"}, []string{"h"})
	explode := a.kind("explode", []string{"how"}, []string{"n"})
	scaled := a.kind("scaled", []string{"v"}, []string{"w"})
	tests := []struct {
		name string
		run  comms.Run
		kind comms.ErrorKind
		want []string
	}{
		{"error with a code", a.run(half, inline(t, reg, 3)), comms.ErrorTask, []string{"halve 3: odd number"}},
		{"panic", a.run(explode, inline(t, reg, "panic")), comms.ErrorPanic, []string{"panic: boom"}},
		{"runtime panic", a.run(explode, inline(t, reg, "index")), comms.ErrorPanic, []string{"index out of range"}},
		{"goexit", a.run(explode, inline(t, reg, "goexit")), comms.ErrorTask, []string{"runtime.Goexit"}},
		{"wrong type", a.run(half, inline(t, reg, "text")), comms.ErrorInput, []string{`input "n"`, "it is raw", "takes int"}},
		{"missing parameter", a.run(scaled, inline(t, reg, []float64{1})), comms.ErrorTask, []string{"with.factor is missing"}},
		{"lost input", a.run(half, comms.Desc{}), comms.ErrorInput, []string{"nowhere"}},
		{"unknown function", a.run(a.kind("nope", nil, []string{"x"})), comms.ErrorSetup, []string{`"nope" is not registered`, "double"}},
		{"names differ", a.run(a.kind("double", []string{"m"}, []string{"n3"})), comms.ErrorSetup,
			[]string{`no input "m"`, `input "n" is missing`, `no output "n3"`, "double(n msgpack int) -> (n2 msgpack int)"}},
		{"a list is wanted", a.run(a.kind("sum", []string{"all"}, []string{"text"})), comms.ErrorSetup, []string{"one dataset in the job and a list in the function"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a.dispatch(tt.run)
			it := a.items(1)[0]
			if it.Kind != comms.ReportFailed || it.Run != tt.run.ID {
				t.Fatalf("reported %+v", it)
			}
			if it.Error.Kind != tt.kind || it.Error.Task != tt.run.Name || it.Error.Agent != "host" || it.Error.Executor != 7 {
				t.Errorf("error is %+v", it.Error)
			}
			for _, w := range tt.want {
				if !strings.Contains(it.Error.Message, w) {
					t.Errorf("message lacks %q: %s", w, it.Error.Message)
				}
			}
			if tt.kind == comms.ErrorPanic && !strings.Contains(it.Error.Stack, "loop_test.go") {
				t.Errorf("stack does not show the place:\n%s", it.Error.Stack)
			}
		})
	}
}

func TestErrorsKeepTheirIdentity(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	a.dispatch(a.run(a.kind("half", []string{"n"}, []string{"h"}), inline(t, reg, 3)))
	err := reg.Wrap(a.items(1)[0].Error)
	if !errors.Is(err, errOdd) {
		t.Errorf("errors.Is does not find the registered error in %v", err)
	}
	var te *Error
	if !errors.As(err, &te) || te.Attempt != 1 {
		t.Errorf("task error is %+v", te)
	}
	if reg.Wrap(nil) != nil {
		t.Error("no error became one")
	}
}

func TestFusedPath(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	double := a.kind("double", []string{"n"}, []string{"n2"})
	half := a.kind("half", []string{"n"}, []string{"h"})

	t.Run("values are handed over", func(t *testing.T) {
		r1 := a.run(double, inline(t, reg, 8))
		r1.Live, r1.Private = []uint32{0}, []uint32{0}
		r2 := a.run(half, live(r1.ID))
		r2.Live = []uint32{0}
		r3 := a.run(double, live(r2.ID))
		a.dispatch(r1, r2, r3)
		items := a.items(3)
		if n := len(items[0].Outputs); n != 0 {
			t.Errorf("a private output was published: %+v", items[0])
		}
		if n := decoded[int](t, reg, items[1].Outputs[0]); n != 8 {
			t.Errorf("second task gave %d", n)
		}
		if n := decoded[int](t, reg, items[2].Outputs[0]); n != 16 {
			t.Errorf("third task gave %d", n)
		}
	})
	t.Run("failure gives the rest back", func(t *testing.T) {
		r1 := a.run(half, inline(t, reg, 7))
		r1.Live = []uint32{0}
		r2 := a.run(double, live(r1.ID))
		r2.Live = []uint32{0}
		r3 := a.run(double, live(r2.ID))
		a.dispatch(r1, r2, r3)
		if it := a.items(1)[0]; it.Kind != comms.ReportFailed {
			t.Errorf("reported %+v", it)
		}
		for _, want := range []comms.RunID{r2.ID, r3.ID} {
			if got := a.reclaimed(); !slices.Equal(got, []comms.RunID{want}) {
				t.Errorf("taken back %v, want %d", got, want)
			}
		}
	})
	t.Run("nothing is kept", func(t *testing.T) {
		a.exec.mu.Lock()
		defer a.exec.mu.Unlock()
		if n := len(a.exec.live.entries); n != 0 {
			t.Errorf("%d live values are left", n)
		}
	})
}

func TestCancelTimeoutAndReclaim(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	wait := a.kind("wait", []string{"how"}, []string{"n"})
	hurried := a.kind("wait", []string{"how"}, []string{"n"}, func(k *comms.Kind) { k.Timeout = int64(5 * time.Millisecond) })

	first, second, third := a.run(wait, inline(t, reg, "")), a.run(wait, inline(t, reg, "")), a.run(wait, inline(t, reg, ""))
	a.dispatch(first, second, third)
	a.tell(&comms.Reclaim{Runs: []comms.RunID{first.ID, third.ID, 99}})
	got := a.reclaimed()
	// The first may be taken back as well, when the runner did not get to it yet.
	if slices.Contains(got, 99) || !slices.Contains(got, third.ID) {
		t.Errorf("taken back %v", got)
	}
	for _, id := range []comms.RunID{first.ID, second.ID} {
		if slices.Contains(got, id) {
			continue
		}
		a.tell(&comms.Cancel{Run: id, Why: comms.ErrorCancelled, Text: "enough"})
		it := a.items(1)[0]
		if it.Run != id || it.Error == nil || it.Error.Kind != comms.ErrorCancelled || !strings.Contains(it.Error.Message, "enough") {
			t.Errorf("reported %+v", it)
		}
	}
	a.dispatch(a.run(hurried, inline(t, reg, "")), a.run(hurried, inline(t, reg, "late")))
	for _, it := range a.items(2) {
		if it.Error == nil || it.Error.Kind != comms.ErrorTimeout || !strings.Contains(it.Error.Message, "5ms") {
			t.Errorf("reported %+v", it)
		}
	}
}

func TestGenerator(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	dispatch := func(kind uint32, n int, skip ...uint64) comms.RunID {
		r := a.run(kind, inline(t, reg, n))
		r.Skip = skip
		a.dispatch(r)
		return r.ID
	}
	published := func(it comms.ReportItem, element uint64) {
		t.Helper()
		if it.Kind != comms.ReportPublished || it.Outputs[0].Ref.Element != element {
			t.Fatalf("reported %+v, want element %d", it, element)
		}
		if n := decoded[int](t, reg, it.Outputs[0]); n != int(element*element) {
			t.Errorf("element %d is %d", element, n)
		}
	}
	gather := a.gather
	out := []string{"square"}
	t.Run("fixed", func(t *testing.T) {
		dispatch(a.kind("count", []string{"n"}, out, fixed(3, 0)), 3)
		items := gather(4)
		for i := range 3 {
			published(items[i], uint64(i))
		}
		if it := items[3]; it.Kind != comms.ReportFinished || len(it.Outputs) != 0 || len(it.Counts) != 0 {
			t.Errorf("reported %+v", it)
		}
	})
	t.Run("open tells its count", func(t *testing.T) {
		dispatch(a.kind("count", []string{"n"}, out, open(0)), 2)
		if it := gather(3)[2]; it.Kind != comms.ReportFinished || len(it.Counts) != 1 || it.Counts[0].Count != 2 {
			t.Errorf("reported %+v", it)
		}
	})
	t.Run("what is final is not published again", func(t *testing.T) {
		dispatch(a.kind("count", []string{"n"}, out, fixed(3, 0)), 3, 2)
		items := gather(2)
		published(items[0], 2)
	})
	t.Run("too many", func(t *testing.T) {
		dispatch(a.kind("count", []string{"n"}, out, fixed(2, 0)), 3)
		if it := gather(3)[2]; it.Error == nil || !strings.Contains(it.Error.Message, "more than the 2 elements") {
			t.Errorf("reported %+v", it)
		}
	})
	t.Run("too few", func(t *testing.T) {
		dispatch(a.kind("count", []string{"n"}, out, fixed(4, 0)), 1)
		if it := gather(2)[1]; it.Error == nil || !strings.Contains(it.Error.Message, "generated 1 elements") {
			t.Errorf("reported %+v", it)
		}
	})
	t.Run("fewer than before", func(t *testing.T) {
		dispatch(a.kind("count", []string{"n"}, out, open(0)), 1, 3)
		if it := gather(1)[0]; it.Error == nil || !strings.Contains(it.Error.Message, "must repeat itself") {
			t.Errorf("reported %+v", it)
		}
	})
	t.Run("a slow consumer holds it back", func(t *testing.T) {
		id := dispatch(a.kind("count", []string{"n"}, out, fixed(4, 2)), 4)
		items := gather(3)
		published(items[0], 0)
		published(items[1], 1)
		if items[2].Kind != comms.ReportThrottled {
			t.Fatalf("reported %+v, want held", items[2])
		}
		for len(a.inbox) > 0 { // that it started may be told late
			r, ok := (<-a.inbox).(*comms.Report)
			if ok && slices.ContainsFunc(r.Items, func(it comms.ReportItem) bool { return it.Kind == comms.ReportPublished }) {
				t.Error("it published without credit")
			}
		}
		a.tell(&comms.Credit{Run: id, N: 1})
		items = gather(3)
		if items[0].Kind != comms.ReportResumed || items[2].Kind != comms.ReportThrottled {
			t.Errorf("reported %+v", items)
		}
		published(items[1], 2)
		a.tell(&comms.Cancel{Run: id, Why: comms.ErrorCancelled, Text: "stop"})
		if it := gather(1)[0]; it.Error == nil || it.Error.Kind != comms.ErrorCancelled {
			t.Errorf("reported %+v", it)
		}
	})
}

func TestOrderOfManyRuns(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("double", []string{"n"}, []string{"n2"})
	const n = 2000
	runs := make([]comms.Run, n)
	for i := range runs {
		runs[i] = a.run(k, inline(t, reg, i))
	}
	a.dispatch(runs...)
	next, reports := 0, 0
	for next < n {
		reports++
		for _, it := range receive[*comms.Report](a).Items {
			if it.Kind == comms.ReportStarted {
				continue
			}
			if it.Run != runs[next].ID || it.Error != nil {
				t.Fatalf("item %d is %+v", next, it)
			}
			next++
		}
	}
	if reports >= n {
		t.Errorf("%d runs took %d reports: none was joined", n, reports)
	}
}

// What others print while quick runs end makes logs of them: the race detector sees
// whether all that is known of a log is read under the lock.
func TestPrintWhileRunsEnd(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("double", []string{"n"}, []string{"n2"})
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		s := &captured{stream: 1, old: null}
		for {
			select {
			case <-stop:
				return
			default:
				a.exec.print(s, []byte("x"))
			}
		}
	}()
	for range 20 {
		runs := make([]comms.Run, 0, 100)
		for i := range cap(runs) {
			runs = append(runs, a.run(k, inline(t, reg, i)))
		}
		a.dispatch(runs...)
		for _, it := range a.items(len(runs)) {
			if it.Error != nil {
				t.Error(it.Error)
			}
		}
	}
	close(stop)
	<-done
	if err := null.Close(); err != nil {
		t.Error(err)
	}
}

func TestBrokenLinkEndsTheExecutor(t *testing.T) {
	a := startExecutor(t, testRegistry(), comms.Welcome{})
	a.exec.Broken(errors.New("connection reset"))
	err := <-a.ended
	a.ended <- nil
	if !errors.Is(err, ErrLinkBroken) {
		t.Errorf("executor ended with %v", err)
	}
}

func TestProtocolErrorsEndTheExecutor(t *testing.T) {
	for name, m := range map[string]comms.Message{
		"run of an unknown kind": &comms.Dispatch{Runs: []comms.Run{{ID: 1, Kind: 9}}},
		"message of others":      &comms.Submit{},
	} {
		t.Run(name, func(t *testing.T) {
			a := startExecutor(t, testRegistry(), comms.Welcome{})
			a.tell(m)
			err := <-a.ended
			a.ended <- nil
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("executor ended with %v", err)
			}
		})
	}
}

func TestKindsAreForgotten(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("double", []string{"n"}, []string{"n2"})
	r := a.run(k, inline(t, reg, 1))
	a.dispatch(r)
	a.tell(&comms.Kind{ID: k, Close: true})
	if it := a.items(1)[0]; it.Error != nil {
		t.Errorf("a queued run lost its kind: %v", it.Error)
	}
	a.tell(&comms.Dispatch{Runs: []comms.Run{a.run(k)}})
	if err := <-a.ended; !errors.Is(err, ErrProtocol) {
		t.Errorf("a run of a forgotten kind ended with %v", err)
	}
	a.ended <- nil
}

func TestStopLetsTheQueueEnd(t *testing.T) {
	reg := testRegistry()
	a := startExecutor(t, reg, comms.Welcome{})
	k := a.kind("double", []string{"n"}, []string{"n2"})
	a.dispatch(a.run(k, inline(t, reg, 1)), a.run(k, inline(t, reg, 2)))
	a.tell(&comms.Stop{})
	a.items(2)
	if err := a.wait(); err != nil {
		t.Error(err)
	}
}

// BenchmarkNoop measures what a run costs in the executor, codec of both directions included.
func BenchmarkNoop(b *testing.B) {
	reg := testRegistry()
	a := startExecutor(b, reg, comms.Welcome{})
	k := a.kind("double", []string{"n"}, []string{"n2"})
	in := inline(b, reg, 21)
	const batch = 64
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		runs := make([]comms.Run, batch)
		for i := range runs {
			runs[i] = a.run(k, in)
		}
		a.dispatch(runs...)
		a.items(batch)
	}
}

// BenchmarkFused measures a path of 64 functions that hand their values over.
func BenchmarkFused(b *testing.B) {
	reg := testRegistry()
	a := startExecutor(b, reg, comms.Welcome{})
	k := a.kind("double", []string{"n"}, []string{"n2"})
	in := inline(b, reg, 0)
	const length = 64
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += length {
		r := a.pathOf(a.run(k, in), slices.Repeat([]uint32{k}, length-1)...)
		a.dispatch(r)
		for last := r.ID + length - 1; ; {
			items := a.gather(1)
			if items[len(items)-1].Run == last {
				break
			}
		}
	}
}
