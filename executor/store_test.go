package executor

import (
	"context"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
	"github.com/cascade-run/cascade/shm"
	"github.com/cascade-run/cascade/shm/ledger"
)

// fakeStore grants leases: one arena for all, and a file for each that asks for one.
type fakeStore struct {
	t     testing.TB
	store *shm.Store
	dir   string

	mu      sync.Mutex
	next    uint32
	arena   uint64 // bytes leased of segment 1
	open    map[string]comms.Lease
	refuse  string
	granted []comms.LeaseReq
}

const arenaBytes = 64 << 20

func newFakeStore(t testing.TB) *fakeStore {
	t.Helper()
	root, err := os.MkdirTemp(shm.DefaultRoot, "cascade-executor-test-")
	if err != nil {
		root = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	s, err := shm.OpenStore(shm.Options{Root: root, Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Create(1, ledger.Arena, arenaBytes); err != nil {
		t.Fatal(err)
	}
	return &fakeStore{t: t, store: s, dir: s.Dir(), next: 1, open: map[string]comms.Lease{}}
}

func leaseKey(segment uint32, end uint64) string { return fmt.Sprint(segment, ":", end) }

// lease answers a request.
func (s *fakeStore) lease(q *comms.LeaseReq) *comms.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted = append(s.granted, *q)
	if s.refuse != "" {
		return &comms.Lease{Token: q.Token, Error: s.refuse}
	}
	l := comms.Lease{Token: q.Token, Segment: 1, Path: s.store.Path(ledger.Arena, 1), Size: (q.Size + 4095) &^ 4095, Offset: s.arena}
	switch {
	case q.File && q.Size == 0:
		s.next++
		l = comms.Lease{Token: q.Token, Segment: s.next, Path: s.store.Path(ledger.Output, ledger.SegmentID(s.next))}
	case q.File:
		s.next++
		l.Segment, l.Offset, l.Path = s.next, 0, s.store.Path(ledger.File, ledger.SegmentID(s.next))
		if err := s.store.Create(ledger.SegmentID(s.next), ledger.File, int64(l.Size)); err != nil {
			s.t.Error(err)
		}
	default:
		s.arena += l.Size
	}
	s.open[leaseKey(l.Segment, l.Offset+l.Size)] = l
	return &l
}

// returned ends a lease: what is returned reaches to its end.
func (s *fakeStore) returned(l *comms.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := leaseKey(l.Segment, l.Offset+l.Size)
	if _, ok := s.open[k]; !ok {
		s.t.Errorf("lease %s returned, which is not open", k)
	}
	delete(s.open, k)
}

// bytes reads a published dataset.
func (s *fakeStore) bytes(d comms.Desc) []byte {
	s.t.Helper()
	if d.Place.Kind != comms.PlaceSegment {
		s.t.Fatalf("dataset is at a place of kind %d, want a segment", d.Place.Kind)
	}
	for _, kind := range []ledger.Kind{ledger.Arena, ledger.File, ledger.Output} {
		b, err := os.ReadFile(s.store.Path(kind, ledger.SegmentID(d.Place.Segment)))
		if err == nil {
			return b[d.Place.Offset : d.Place.Offset+d.Size]
		}
	}
	s.t.Fatalf("there is no segment %d", d.Place.Segment)
	return nil
}

// put makes a dataset in a segment of its own, a file or an arena, and returns its descriptor.
func (s *fakeStore) put(a *fakeAgent, kind ledger.Kind, d comms.Desc) comms.Desc {
	s.t.Helper()
	s.mu.Lock()
	s.next++
	id := s.next
	s.mu.Unlock()
	path := s.store.Path(kind, ledger.SegmentID(id))
	b := d.Place.Bytes
	mode := os.FileMode(0o444)
	if kind == ledger.Arena {
		b = append(slices.Clone(b), make([]byte, 4096)...)
		mode = 0o600
	}
	if err := os.WriteFile(path, b, mode); err != nil {
		s.t.Fatal(err)
	}
	a.tell(&comms.Segment{ID: id, Path: path, Size: uint64(len(b))})
	d.Place = comms.Place{Kind: comms.PlaceSegment, Segment: id}
	return d
}

// startWithStore starts an executor with shared memory. All leases must be back in the end.
func startWithStore(t testing.TB, reg *Registry) (*fakeAgent, *fakeStore) {
	t.Helper()
	s := newFakeStore(t)
	page, err := s.store.CreateControl(s.store.ControlPath(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { page.Close() })
	a := startExecutor(t, reg, comms.Welcome{ShmDir: s.dir, Scratch: filepath.Join(t.TempDir(), "scratch"), ControlPage: s.store.ControlPath(1)})
	a.store.Store(s)
	t.Cleanup(func() {
		a.tell(&comms.Stop{Now: true}) // a run lets go of its leases after its answer
		if err := a.wait(); err != nil {
			t.Error(err)
		}
		a.exec.mem.idle()
		a.exec.out.flush()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, l := range s.open {
			if l.Segment == 1 || !s.published(a, l.Segment) {
				t.Errorf("lease %+v was not returned", l)
			}
		}
	})
	return a, s
}

// published tells whether a dataset of a file segment was reported, which ends its lease.
func (s *fakeStore) published(a *fakeAgent, segment uint32) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sealed[segment]
}

const big = 100_000 // numbers

func ramp(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i)
	}
	return v
}

func makeRamp(_ context.Context, n int) ([]float64, error) { return ramp(n), nil }

func fillInPlace(ctx context.Context, n int) (value.Array[float64], error) {
	a, err := Alloc[float64](ctx, n/100, 100)
	if err != nil {
		return a, err
	}
	copy(a.Data, ramp(n))
	return a, nil
}

func fillTail(ctx context.Context, n int) ([]float64, error) {
	a, err := Alloc[float64](ctx, n)
	if err != nil {
		return nil, err
	}
	copy(a.Data, ramp(n))
	return a.Data[n/2:], nil
}

func fillMatrix(ctx context.Context, n int) (value.Array[float64], error) {
	a, err := Alloc[float64](ctx, n)
	if err != nil {
		return a, err
	}
	copy(a.Data, ramp(n))
	a.Shape = []int{n / 100, 100}
	return a, nil
}

func total(_ context.Context, v []float64) (float64, error) {
	var s float64
	for _, x := range v {
		s += x
	}
	return s, nil
}

func scribble(_ context.Context, v []float64) (int, error) {
	v[len(v)/2] = 1
	return 0, nil
}

func same(_ context.Context, v []float64) ([]float64, error) { return v, nil }

func ramps(ctx context.Context, n int) iter.Seq2[value.Array[float64], error] {
	return func(yield func(value.Array[float64], error) bool) {
		for k := range n {
			a, err := Alloc[float64](ctx, big)
			for i := range a.Data {
				a.Data[i] = float64(k)
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

func careless(ctx context.Context, n int) iter.Seq2[value.Array[float64], error] {
	return func(yield func(value.Array[float64], error) bool) {
		a, err := Alloc[float64](ctx, n)
		if !yield(a, err) {
			return
		}
		a.Data[0] = 2
		yield(a, nil)
	}
}

func leaveRoom(ctx context.Context, n int) (int, error) {
	_, err := Alloc[float64](ctx, n)
	if err != nil {
		return 0, err
	}
	panic("after Alloc")
}

func storeRegistry() *Registry {
	r := &Registry{}
	func1(r, "ramp", makeRamp, "n -> v")
	func1(r, "fill", fillInPlace, "n -> v")
	func1(r, "tail", fillTail, "n -> v")
	func1(r, "matrix", fillMatrix, "n -> v")
	func1(r, "total", total, "v -> sum")
	func1(r, "scribble", scribble, "v -> n")
	func1(r, "same", same, "v -> w")
	func1(r, "leave", leaveRoom, "n -> v")
	gen1(r, "ramps", ramps, "n -> v")
	gen1(r, "careless", careless, "n -> v")
	return r
}

func TestOutputsInSharedMemory(t *testing.T) {
	reg := storeRegistry()
	a, s := startWithStore(t, reg)
	for _, tt := range []struct {
		function string
		n        int
		file     bool
		copied   uint64
		from     int // first number of the output
		shape    []uint64
	}{
		{"ramp", 1000, false, 8000, 0, []uint64{1000}},
		{"ramp", big, false, 8 * big, 0, []uint64{big}},
		{"ramp", big, true, 8 * big, 0, []uint64{big}},
		{"fill", 1000, false, 0, 0, []uint64{10, 100}},
		{"fill", big, false, 0, 0, []uint64{big / 100, 100}},
		{"fill", big, true, 0, 0, []uint64{big / 100, 100}},
		{"matrix", big, false, 0, 0, []uint64{big / 100, 100}},
		{"tail", 2000, false, 0, 1000, []uint64{1000}},
		{"tail", big, true, 8 * big / 2, big / 2, []uint64{big / 2}}, // a file begins with its dataset
	} {
		t.Run(fmt.Sprintf("%s %d file=%t", tt.function, tt.n, tt.file), func(t *testing.T) {
			k := a.kind(tt.function, []string{"n"}, []string{"v"}, func(k *comms.Kind) { k.Outputs[0].File = tt.file })
			a.dispatch(a.run(k, inline(t, reg, tt.n)))
			it := a.items(1)[0]
			if it.Error != nil {
				t.Fatal(it.Error)
			}
			if it.Usage.Copied != tt.copied {
				t.Errorf("%d bytes were copied, want %d", it.Usage.Copied, tt.copied)
			}
			d := it.Outputs[0]
			if !slices.Equal(d.Shape, tt.shape) || d.Place.Offset%8 != 0 || tt.file && d.Place.Offset != 0 {
				t.Errorf("descriptor is %+v", d)
			}
			if tt.file {
				if fi, err := os.Stat(s.store.Path(ledger.File, ledger.SegmentID(d.Place.Segment))); err != nil || uint64(fi.Size()) != d.Size {
					t.Errorf("the file is %v, %v; a command wants %d bytes", fi, err, d.Size)
				}
			}
			v, err := Decode[[]float64](reg, d.Codec, d.DType, d.Shape, s.bytes(d))
			if err != nil {
				t.Fatal(err)
			}
			for i := range v {
				if v[i] != float64(tt.from+i) {
					t.Fatalf("number %d is %v", i, v[i])
				}
			}
		})
	}
}

func TestInputsAreViews(t *testing.T) {
	reg := storeRegistry()
	a, s := startWithStore(t, reg)
	d := s.put(a, ledger.Arena, inline(t, reg, ramp(big)))
	a.dispatch(a.run(a.kind("total", []string{"v"}, []string{"sum"}), d))
	it := a.items(1)[0]
	if it.Error != nil {
		t.Fatal(it.Error)
	}
	if sum := decoded[float64](t, reg, it.Outputs[0]); sum != big*(big-1)/2 {
		t.Errorf("sum is %v", sum)
	}
	if it.Usage.Copied != 0 || it.Usage.BytesIn != 8*big {
		t.Errorf("usage is %+v", it.Usage)
	}

	a.dispatch(a.run(a.kind("scribble", []string{"v"}, []string{"n"}), d))
	it = a.items(1)[0]
	if it.Error == nil || it.Error.Kind != comms.ErrorReadOnly || !strings.Contains(it.Error.Message, `input "v"`) {
		t.Errorf("reported %+v", it.Error)
	}
	a.tell(&comms.Segment{ID: d.Place.Segment, Close: true})
	a.dispatch(a.run(a.kind("total", []string{"v"}, []string{"sum"}), d))
	if it = a.items(1)[0]; it.Error == nil || it.Error.Kind != comms.ErrorInput || !strings.Contains(it.Error.Message, "not announced") {
		t.Errorf("reported %+v", it.Error)
	}
}

func TestGeneratorInSharedMemory(t *testing.T) {
	reg := storeRegistry()
	a, s := startWithStore(t, reg)
	a.dispatch(a.run(a.kind("ramps", []string{"n"}, []string{"v"}, fixed(5, 0)), inline(t, reg, 5)))
	items := a.gather(6)
	for i, it := range items[:5] {
		b := s.bytes(it.Outputs[0])
		if v := value.View[float64](b, big); v.Data[0] != float64(i) || v.Data[big-1] != float64(i) {
			t.Errorf("element %d holds %v", i, v.Data[0])
		}
	}
	if u := items[5].Usage; u.Copied != 0 {
		t.Errorf("%d bytes were copied", u.Copied)
	}
	for _, n := range []int{1000, big} { // in the standing lease, and in one of its own
		a.dispatch(a.run(a.kind("careless", []string{"n"}, []string{"v"}, fixed(2, 0)), inline(t, reg, n)))
		it := a.gather(2)[1]
		if it.Error == nil || it.Error.Kind != comms.ErrorReadOnly || !strings.Contains(it.Error.Message, "after publishing") {
			t.Errorf("%d: reported %+v", n, it.Error)
		}
	}
}

func TestLiveValuesInSharedMemory(t *testing.T) {
	reg := storeRegistry()
	a, s := startWithStore(t, reg)
	fill := a.kind("fill", []string{"n"}, []string{"v"})
	sum := a.kind("total", []string{"v"}, []string{"sum"})
	same := a.kind("same", []string{"v"}, []string{"w"})
	want := float64(big) * (big - 1) / 2
	for _, private := range [][]uint32{nil, {0}} {
		r1 := a.run(fill, inline(t, reg, big))
		r1.Live, r1.Private = []uint32{0}, private
		a.dispatch(r1, a.run(sum, live(r1.ID)))
		items := a.items(2)
		if got := decoded[float64](t, reg, items[1].Outputs[0]); got != want {
			t.Errorf("private %v: sum is %v", private, got)
		}
		if n := items[0].Usage.Copied; n != 0 { // published where it lies, though a later run has it too
			t.Errorf("private %v: %d bytes were copied", private, n)
		}
	}
	// Writing to a live value is noticed where it lies in the store, elsewhere in check builds.
	for _, producer := range []uint32{fill, a.kind("ramp", []string{"n"}, []string{"v"})} {
		rw := a.run(producer, inline(t, reg, big))
		rw.Live, rw.Private = []uint32{0}, []uint32{0}
		a.dispatch(rw, a.run(a.kind("scribble", []string{"v"}, []string{"n"}), live(rw.ID)))
		it := a.items(2)[1]
		noticed := it.Error != nil && it.Error.Kind == comms.ErrorReadOnly && strings.Contains(it.Error.Message, `input "v"`)
		if noticed != (checked || producer == fill) {
			t.Errorf("check %t: reported %+v", checked, it)
		}
	}
	// A value that is a part of an input outlives the input's view.
	r1 := a.run(same, s.put(a, ledger.Arena, inline(t, reg, ramp(big))))
	r1.Live, r1.Private = []uint32{0}, []uint32{0}
	a.dispatch(r1, a.run(sum, live(r1.ID)))
	items := a.items(2)
	if got := decoded[float64](t, reg, items[1].Outputs[0]); got != want {
		t.Errorf("sum is %v", got)
	}
	if items[0].Usage.Copied != 8*big {
		t.Errorf("%d bytes were copied", items[0].Usage.Copied)
	}
}

func TestNoRoom(t *testing.T) {
	reg := storeRegistry()
	a, s := startWithStore(t, reg)
	s.mu.Lock()
	s.refuse = "shared memory and disk are full"
	s.mu.Unlock()
	for _, function := range []string{"ramp", "fill"} {
		a.dispatch(a.run(a.kind(function, []string{"n"}, []string{"v"}), inline(t, reg, 2000)))
		it := a.items(1)[0]
		if it.Error == nil || it.Error.Kind != comms.ErrorStore || !strings.Contains(it.Error.Message, "are full") {
			t.Errorf("%s: reported %+v", function, it.Error)
		}
	}
}

func TestPanicReturnsWhatWasAllocated(t *testing.T) {
	reg := storeRegistry()
	a, _ := startWithStore(t, reg)
	a.dispatch(a.run(a.kind("leave", []string{"n"}, []string{"v"}), inline(t, reg, big)))
	if it := a.items(1)[0]; it.Error == nil || it.Error.Kind != comms.ErrorPanic {
		t.Errorf("reported %+v", it)
	}
}

var leaked = make(chan context.Context, 1)

func leakContext(ctx context.Context, n int) (value.Array[float64], error) {
	leaked <- ctx
	return Alloc[float64](ctx, n)
}

// What a goroutine that outlives its task allocates would never be given back.
func TestAllocAfterTheEnd(t *testing.T) {
	reg := storeRegistry()
	func1(reg, "leak", leakContext, "n -> v")
	a, _ := startWithStore(t, reg)
	a.dispatch(a.run(a.kind("leak", []string{"n"}, []string{"v"}), inline(t, reg, 1000)))
	if it := a.items(1)[0]; it.Error != nil {
		t.Fatal(it.Error)
	}
	a.tell(&comms.Stop{Now: true})
	if err := a.wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := Alloc[float64](<-leaked, 1000); err == nil || !strings.Contains(err.Error(), "the task has ended") {
		t.Errorf("error is %v", err)
	}
}

func TestStandingLeaseIsReplaced(t *testing.T) {
	reg := storeRegistry()
	a, s := startWithStore(t, reg)
	k := a.kind("ramp", []string{"n"}, []string{"v"})
	const n, count = standingMax / 8, 20 // more than two standing leases hold
	var runs []comms.Run
	for range count { // together: a lease goes back after a while without work
		runs = append(runs, a.run(k, inline(t, reg, n)))
	}
	a.dispatch(runs...)
	for _, it := range a.items(count) {
		if it.Error != nil {
			t.Fatal(it.Error)
		}
		if v := value.View[float64](s.bytes(it.Outputs[0]), n); v.Data[n-1] != n-1 || math.IsNaN(v.Data[0]) {
			t.Fatalf("last number is %v", v.Data[n-1])
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := len(s.granted); got >= count/2 {
		t.Errorf("%d leases for %d outputs", got, count)
	}
}

func TestControlPageNamesTheRun(t *testing.T) {
	reg := storeRegistry()
	a, s := startWithStore(t, reg)
	a.dispatch(a.run(a.kind("ramp", []string{"n"}, []string{"v"}), inline(t, reg, 1)))
	a.items(1)
	c, err := shm.OpenControl(s.store.ControlPath(1))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if step, n := c.Last(); n != 1 || step.Run != 1 || step.Attempt != 1 {
		t.Errorf("step %d is %+v", n, step)
	}
}
