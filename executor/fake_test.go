package executor

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// patience is how long an event is waited for that comes at once on an idle machine.
const patience = 5 * time.Minute

// fakeAgent is the other end of an executor's connection. It encodes and decodes
// every message in both directions.
type fakeAgent struct {
	t     testing.TB
	exec  *Executor
	ended chan error

	mu     sync.Mutex
	closed error
	inbox  chan comms.Message
	kinds  uint32
	runs   comms.RunID
	store  atomic.Pointer[fakeStore]
	sealed map[uint32]bool // file segments that hold a dataset
}

// Queue takes a message of the executor.
func (a *fakeAgent) Queue(m comms.Message) error { return a.Send(m) }

// Send takes a message of the executor.
func (a *fakeAgent) Send(m comms.Message) error {
	a.mu.Lock()
	err := a.closed
	a.mu.Unlock()
	if err != nil {
		return err
	}
	d, err := comms.Decode(comms.Encode(m))
	if err != nil {
		a.t.Errorf("executor sent %T that cannot be decoded: %v", m, err)
		return err
	}
	switch d := d.(type) {
	case *comms.LeaseReq:
		a.exec.Handle(a.store.Load().lease(d))
		return nil
	case *comms.Report:
		a.account(d)
	case *comms.Calls:
		for i := range d.Items {
			a.seal(d.Items[i].Values())
		}
	}
	a.inbox <- d
	return nil
}

// account follows leases: datasets end those of files, returns end all.
func (a *fakeAgent) account(m *comms.Report) {
	for _, it := range m.Items {
		a.seal(it.Outputs)
		if it.Kind == comms.ReportLeaseReturn && it.Lease != nil {
			a.store.Load().returned(it.Lease)
		}
	}
}

// seal notes which file segments datasets lie in.
func (a *fakeAgent) seal(data []comms.Desc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range data {
		if d.Place.Kind == comms.PlaceSegment && d.Place.Segment != 1 {
			a.sealed[d.Place.Segment] = true
		}
	}
}

// startExecutor starts an executor with a registry of its own.
func startExecutor(t testing.TB, reg *Registry, welcome comms.Welcome) *fakeAgent {
	t.Helper()
	a := &fakeAgent{t: t, sealed: map[uint32]bool{}, ended: make(chan error, 1), inbox: make(chan comms.Message, 1<<16)}
	a.exec = New(Config{Conn: a, Registry: reg, Token: "t", PID: 42})
	go func() { a.ended <- a.exec.Run() }()
	if h := receive[*comms.Hello](a); h.Token != "t" || h.Language != "go" || h.PID != 42 {
		t.Errorf("hello is %+v", h)
	}
	welcome.Executor, welcome.Agent = 7, "host"
	if welcome.InlineMax == 0 {
		welcome.InlineMax = 4096
	}
	a.tell(&welcome)
	t.Cleanup(func() {
		a.tell(&comms.Stop{Now: true})
		if err := a.wait(); err != nil {
			t.Errorf("executor ended with %v", err)
		}
	})
	return a
}

func (a *fakeAgent) wait() error {
	select {
	case err := <-a.ended:
		a.ended <- err
		return err
	case <-time.After(patience):
		a.t.Fatal("executor does not end")
		return nil
	}
}

// tell sends a message to the executor.
func (a *fakeAgent) tell(m comms.Message) {
	a.t.Helper()
	d, err := comms.Decode(comms.Encode(m))
	if err != nil {
		a.t.Fatalf("encode %T: %v", m, err)
	}
	a.exec.Handle(d)
}

// receive returns the next message, which must be an M. Log messages are for those who ask for them.
func receive[M comms.Message](a *fakeAgent) M {
	a.t.Helper()
	for {
		select {
		case m := <-a.inbox:
			if want, ok := m.(M); ok {
				return want
			}
			if _, ok := m.(*comms.Log); ok {
				continue
			}
			a.t.Fatalf("executor sent %T %+v, want %T", m, m, *new(M))
		case <-time.After(patience):
			a.t.Fatalf("executor sends no %T", *new(M))
		}
	}
}

// gather returns the next n report items or more, Started left out.
func (a *fakeAgent) gather(n int) []comms.ReportItem {
	a.t.Helper()
	var out []comms.ReportItem
	for len(out) < n {
		for _, it := range receive[*comms.Report](a).Items {
			if it.Kind != comms.ReportStarted && it.Kind != comms.ReportLeaseReturn {
				out = append(out, it)
			}
		}
	}
	return out
}

// items returns the next n report items, Started left out.
func (a *fakeAgent) items(n int) []comms.ReportItem {
	a.t.Helper()
	out := a.gather(n)
	if len(out) > n {
		a.t.Fatalf("executor reported %d items, want %d: %+v", len(out), n, out)
	}
	return out
}

// kind announces a kind for a function; inputs that end in * are lists,
// outputs may say field*3 or field*.
func (a *fakeAgent) kind(function string, inputs, outputs []string, change ...func(*comms.Kind)) uint32 {
	a.kinds++
	k := &comms.Kind{ID: a.kinds, Group: function, Function: function, Resources: comms.Resources{CPU: 1000}}
	for _, in := range inputs {
		n := len(in)
		list := in[n-1] == '*'
		if list {
			in = in[:n-1]
		}
		k.Inputs = append(k.Inputs, comms.KindIn{Name: in, List: list})
	}
	for _, o := range outputs {
		k.Outputs = append(k.Outputs, comms.KindOut{Name: o})
	}
	for _, c := range change {
		c(k)
	}
	a.tell(k)
	return k.ID
}

func fixed(count, buffer uint64) func(*comms.Kind) {
	return func(k *comms.Kind) {
		k.Outputs[0].Generate, k.Outputs[0].Count, k.Outputs[0].Buffer = dag.GenerateFixed, count, buffer
	}
}

func open(buffer uint64) func(*comms.Kind) {
	return func(k *comms.Kind) { k.Outputs[0].Generate, k.Outputs[0].Buffer = dag.GenerateOpen, buffer }
}

// run makes a run of a kind.
func (a *fakeAgent) run(kind uint32, inputs ...comms.Desc) comms.Run {
	a.runs++
	r := comms.Run{ID: a.runs, Kind: kind, Task: dag.TaskIndex(a.runs), Attempt: 1, Name: fmt.Sprintf("task%d", a.runs)}
	for _, d := range inputs {
		r.Inputs = append(r.Inputs, comms.RunInput{Data: []comms.Desc{d}})
	}
	return r
}

func (a *fakeAgent) dispatch(runs ...comms.Run) { a.tell(&comms.Dispatch{Runs: runs}) }

// inline encodes a value as an input that travels in the message.
func inline[T any](t testing.TB, reg *Registry, v T) comms.Desc {
	t.Helper()
	c, err := reg.Codecs.For(typeOf[T]())
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return comms.Desc{Codec: f.Codec, DType: f.DType, Shape: f.Shape, Size: uint64(len(f.Bytes)),
		Place: comms.Place{Kind: comms.PlaceInline, Bytes: f.Bytes}}
}

// live refers to an output of an earlier run.
func live(run comms.RunID) comms.Desc {
	return comms.Desc{Place: comms.Place{Kind: comms.PlaceLive, Run: run}}
}

// decoded reads an inline output.
func decoded[T any](t testing.TB, reg *Registry, d comms.Desc) T {
	t.Helper()
	if d.Place.Kind != comms.PlaceInline {
		t.Fatalf("output is at a place of kind %d", d.Place.Kind)
	}
	v, err := Decode[T](reg, d.Codec, d.DType, d.Shape, d.Place.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func with(t testing.TB, m map[string]any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
