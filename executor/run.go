package executor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor/value"
)

// run is one attempt at one task, from Dispatch to its answer.
type run struct {
	comms.Run
	exec      *Executor
	kind      *kind
	ctx       *runContext // from the start of the run, or from when it was stopped
	began     time.Time
	usage     comms.Usage
	log       *logWriter
	mute      bool // the run has ended: a log that is made now is closed
	spend     credits
	mem       holdings
	calls     atomic.Pointer[calls]
	actorHost atomic.Pointer[actorHost] // it is a process of actors
	referring []int                     // inputs with references in them
	making    sync.Mutex                // held while a call is made, or an element published; both may wait for memory

	// Of a path. The head has its outputs in Run.
	path  *path     // what follows; nil nothing
	reads uint32    // as in comms.Step
	keeps uint64    // as in comms.Step
	only  uint64    // as in comms.Step
	input liveValue // what a step reads

	commandCPU int64         // of a command; this process's own does not count then
	took       time.Duration // of a function that returned: its call and what came before it
	told       bool          // the agent knows that it started; guarded by Executor.mu
	peak       atomic.Uint64
	slots      [4]any // for the arguments and results of most functions
}

// values returns room for the arguments of a function, or behind them for its results.
func (r *run) values(from, n int) []any {
	if to := from + n; to <= len(r.slots) {
		return r.slots[from:to:to]
	}
	return make([]any, n)
}

// stopped is why a run's context ended: it was cancelled, or its time is up.
type stopped struct {
	kind  comms.ErrorKind
	text  string
	grace time.Duration
}

func (s *stopped) Error() string { return s.text }

// Is makes a stopped run look like a cancelled or expired context to its function.
func (s *stopped) Is(target error) bool {
	return target == context.Canceled && s.kind != comms.ErrorTimeout ||
		target == context.DeadlineExceeded && s.kind == comms.ErrorTimeout
}

// context makes the run's context. Executor.mu is held.
func (r *run) context() *runContext {
	if r.ctx == nil {
		r.ctx = &runContext{exec: r.exec, kind: r.kind, run: r, of: taskID{r.ID, r.Task, r.Attempt, r.Name}}
	}
	return r.ctx
}

// stop ends the run's context. Executor.mu is held.
func (r *run) stop(why *stopped) { r.context().stop(why) }

func (r *run) name() string { return r.kind.NameOf(r.Task, r.Name) }

func (r *run) describe() *Task {
	w := r.exec.welcome
	name := r.name()
	return &Task{Job: r.kind.Job, Name: name, Group: r.kind.GroupOf(name), Attempt: comms.Try(r.Attempt), Agent: w.Agent,
		Resources: r.kind.Resources, Dir: r.kind.Dir, Scratch: w.Scratch, Log: r.logger()}
}

// runner starts queued runs until the executor ends. It tells whether a
// function ended the goroutine with runtime.Goexit.
func (e *Executor) runner(ended chan<- bool) {
	goexit := true
	defer func() { ended <- goexit }()
	debug.SetPanicOnFault(true) // a write to a read-only view becomes a panic of this goroutine
	for {
		r := e.next()
		if r == nil {
			goexit = false
			return
		}
		e.execute(r)
	}
}

// execute performs one run and answers for it.
func (e *Executor) execute(r *run) {
	if !e.claim(r) {
		return
	}
	if !e.state.begins(r) {
		e.left.leaving = true // after this run, which is in hand
	}
	var item comms.ReportItem
	defer func() {
		if !e.state.ended(r) {
			e.left.leaving = true
		}
		e.mu.Lock()
		e.current = nil
		done := e.live.forget(r)
		e.mu.Unlock()
		e.over(r)
		r.endCalls()
		r.endActors()
		e.out.join(item, e.ended)
		r.settle(true)
		e.drop(done)
		if r.input.hold != nil {
			e.mem.drop(r.input.hold)
		}
		if r.leaves(&item) {
			e.spent = r
		}
		e.left.look(e.sampled, e.withoutGarbage)
	}()
	returned := false
	defer func() {
		if returned {
			return
		}
		// The function panicked, or left with Goexit: then recover returns nil and
		// the goroutine goes on ending after this.
		p, stack := recover(), debug.Stack()
		e.capture.drain()
		item = r.failed(r.recovered(p, stack))
	}()
	outputs, counts, err := r.perform()
	returned = true
	e.capture.drainAfter(r.took)
	if item = r.finished(outputs, counts); err != nil {
		item = r.failed(r.classify(err))
	}
}

// leaves tells whether only the caller refers to a run that has ended: another
// step can be made of its memory. It is not the current run any more, so that
// nothing printed makes it a log.
func (r *run) leaves(item *comms.ReportItem) bool {
	return r.exec.session == nil && item.Kind == comms.ReportFinished && len(item.Outputs)+len(item.Counts) == 0 && // a report of others points to its usage
		r.kind.fn != nil && r.kind.fn.Seq == nil && r.log == nil && time.Duration(r.usage.Duration) < startedAfter/2 && // or look may have it
		r.mem.idle() && r.ctx.release()
}

// claim prepares a run that is about to start. A run without its live inputs is
// returned: the agent knows where else they are, or has them recomputed.
func (e *Executor) claim(r *run) bool {
	e.mu.Lock()
	if !e.live.has(r) {
		e.current = nil
		done := e.live.forget(r)
		e.mu.Unlock()
		e.drop(done)
		e.out.send(&comms.Reclaimed{Runs: []comms.RunID{r.ID}})
		return false
	}
	r.begin()
	e.mu.Unlock()
	return true
}

func (r *run) begin() {
	r.began = time.Now()
	r.usage.Start = r.began.UnixNano()
	r.exec.cpu.begin()
	r.context()
	if t := time.Duration(r.kind.Timeout); t > 0 {
		r.ctx.limit(t, &stopped{kind: comms.ErrorTimeout, text: fmt.Sprintf("it ran longer than its timeout of %s", t)})
	}
	r.exec.mem.begin(r)
	if e := r.exec; !e.watched { // one that is set looks at whatever runs then
		e.watched = true
		e.watch.Reset(startedAfter)
	}
}

// perform runs the function or command and returns its outputs. CPU and other
// limits follow the grant.
func (r *run) perform() ([]comms.Desc, []comms.StreamEnd, error) {
	k := r.kind
	if k.problem != nil {
		return nil, nil, &kindError{comms.ErrorSetup, k.problem}
	}
	if r.exec.session == nil {
		r.exec.limits.apply(k.Resources)
	}
	if k.fn == nil {
		descs, err := r.command()
		return descs, nil, err
	}
	in, err := r.arguments()
	if err != nil {
		return nil, nil, err
	}
	if k.fn.Seq != nil {
		return r.generate(in)
	}
	out := r.values(k.args, len(k.fn.Outputs))
	err = k.fn.Call(r.ctx, in, out)
	r.took = time.Since(r.began)
	if r.exec.session == nil { // which ends its calls with its context
		if err == nil {
			err = r.linkActors()
		}
		r.endCalls()
	}
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(r.stoppedErr(), r.unchanged()); err != nil {
		return nil, nil, err
	}
	var descs []comms.Desc
	for i := range k.outputs {
		d, err := r.publishable(uint32(i), 0, out[k.outputs[i].result])
		if err != nil {
			return nil, nil, err
		}
		if d.Place.Kind != comms.PlaceLive { // private: it is not announced
			descs = append(descs, d)
		}
	}
	return descs, nil, nil
}

// stoppedErr tells why a run that came back does not count: it was cancelled, or came too late.
func (r *run) stoppedErr() error {
	if r.ctx.Err() == nil {
		return nil
	}
	return context.Cause(r.ctx)
}

// arguments makes the Go parameters from inputs and parameters.
func (r *run) arguments() ([]any, error) {
	k := r.kind
	in := r.values(0, k.args)
	if r.reads > 0 && len(k.inputs) == 1 && k.inputs[0].port.List == nil {
		v, err := r.loadLive(&k.inputs[0], &r.input)
		if err != nil {
			return nil, &kindError{comms.ErrorInput, fmt.Errorf("input %q: %w", k.inputs[0].port.Name, err)}
		}
		in[k.inputs[0].arg] = v
	} else if len(r.Inputs) != len(k.inputs) {
		return nil, &kindError{comms.ErrorInput, fmt.Errorf("the run has %d inputs, its kind %d", len(r.Inputs), len(k.inputs))}
	}
	for i := range r.Inputs {
		v, err := r.argument(i, r.Inputs[i].Data)
		if err != nil {
			return nil, &kindError{comms.ErrorInput, fmt.Errorf("input %q: %w", k.inputs[i].port.Name, err)}
		}
		in[k.inputs[i].arg] = v
	}
	if k.fn.With != nil {
		v, err := r.parameters()
		if err != nil {
			return nil, &kindError{comms.ErrorTask, err}
		}
		in[k.fn.WithAt] = v
	} else if len(r.With) > 0 && !slices.Equal(r.With, []byte{0x80}) {
		return nil, &kindError{comms.ErrorTask, fmt.Errorf("the job gives parameters (with:), function %s takes none", k.fn.Name)}
	}
	return in, nil
}

func (r *run) argument(input int, data []comms.Desc) (any, error) {
	in := &r.kind.inputs[input]
	if in.port.List == nil {
		if len(data) != 1 {
			return nil, fmt.Errorf("want one dataset, got %d", len(data))
		}
		if data[0].Place.Kind == comms.PlaceNone {
			return nil, errors.New("the dataset is nowhere")
		}
		return r.load(input, 0, &data[0])
	}
	values := make([]any, 0, len(data))
	var index []int
	for i := range data {
		if data[i].Place.Kind == comms.PlaceNone {
			if index == nil {
				index = slices.Grow(index, len(data))
				for j := range i {
					index = append(index, j)
				}
			}
			continue
		}
		v, err := r.load(input, i, &data[i])
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		values = append(values, v)
		if index != nil {
			index = append(index, i)
		}
	}
	return in.port.List.make(values, index, len(data)), nil
}

// load turns a dataset of an input into a Go value.
func (r *run) load(input, item int, d *comms.Desc) (any, error) {
	in := &r.kind.inputs[input]
	r.usage.BytesIn += d.Size
	if d.Place.Kind == comms.PlaceLive {
		return r.loadLive(in, r.liveInput(d))
	}
	b, err := r.bytes(in.port.Name, d)
	if err != nil {
		return nil, err
	}
	if d.Place.Kind == comms.PlaceInline && in.codec.Aliases() {
		r.mem.copies = append(r.mem.copies, private{in.port.Name, b, xxh3.Hash(b)})
	}
	return in.codec.Decode(value.Flat{Codec: d.Codec, DType: d.DType, Shape: d.Shape, Bytes: b, Refer: r.refersInput(input, item)})
}

func (r *run) loadLive(in *kindInput, v *liveValue) (any, error) {
	if reflect.TypeOf(v.value) == in.port.Type {
		return v.value, nil
	}
	f, err := v.codec.Encode(v.value)
	if err != nil {
		return nil, err
	}
	return in.codec.Decode(f)
}

// liveInput finds a value that an earlier run left; claim has seen that it is there.
func (r *run) liveInput(d *comms.Desc) *liveValue {
	r.exec.mu.Lock()
	defer r.exec.mu.Unlock()
	return r.exec.live.entries[liveKey{d.Place.Run, d.Ref.Output}]
}

// publishable stores one output, or one element of a series, and describes it.
func (r *run) publishable(output uint32, element uint64, v any) (comms.Desc, error) {
	d, err := r.describeOutput(output, element, v)
	if err != nil {
		return d, fmt.Errorf("output %q: %w", r.kind.Outputs[output].Name, err)
	}
	return d, nil
}

func (r *run) describeOutput(output uint32, element uint64, v any) (comms.Desc, error) {
	codec := r.kind.outputs[output].codec
	d := comms.Desc{Ref: comms.DatasetRef{Task: r.Task, Output: output, Element: element}, Attempt: r.Attempt}
	private := slices.Contains(r.Private, output) || r.only>>output&1 != 0
	var f value.Flat
	var err error
	if !private || codec.Aliases() {
		if f, err = codec.Encode(v); err != nil {
			return d, err
		}
	}
	if f.References != nil {
		if err := r.list(output, element, f.References); err != nil {
			return d, err
		}
	}
	if private || r.keeps>>output&1 != 0 || slices.Contains(r.Live, output) {
		if err := r.leave(output, v, codec, f); err != nil {
			return d, err
		}
	}
	if private {
		d.Place = comms.Place{Kind: comms.PlaceLive, Run: r.ID}
		return d, nil
	}
	d.Codec, d.DType, d.Shape, d.Size = f.Codec, f.DType, f.Shape, uint64(len(f.Bytes))
	r.usage.BytesOut += d.Size
	if d.Size > r.exec.welcome.InlineMax && d.Size <= r.kind.HashMax {
		d.Hash = comms.HashOf(f.Bytes)
	}
	d.Place, err = r.store(output, f.Bytes)
	return d, err
}

// leave keeps a value for later runs. Bytes in an input are copied, as inputs
// end with the run; bytes in a lease keep it mapped.
func (r *run) leave(output uint32, v any, codec value.Codec, f value.Flat) error {
	if codec.Aliases() && r.aliasesInput(f.Bytes) {
		own := value.Room(len(f.Bytes))
		copy(own, f.Bytes)
		f.Bytes = own
		r.usage.Copied += uint64(len(f.Bytes))
		var err error
		if v, err = codec.Decode(f); err != nil {
			return err
		}
	}
	var h *hold
	if codec.Aliases() {
		h = r.lend(f.Bytes)
	}
	r.exec.mu.Lock()
	var old *hold
	if r.path.wants(output) {
		old, r.path.value = r.path.value.hold, liveValue{there: true, value: v, codec: codec, hold: h, sum: hashOf(codec, v)}
	} else {
		old = r.exec.live.put(liveKey{r.ID, output}, v, codec, h)
	}
	r.exec.mu.Unlock()
	if old != nil {
		r.exec.mem.drop(old)
	}
	return nil
}

// finished makes the answer of a run that succeeded.
func (r *run) finished(outputs []comms.Desc, counts []comms.StreamEnd) comms.ReportItem {
	item := r.ended(comms.ReportFinished)
	item.Outputs, item.Counts = outputs, counts
	return item
}

func (r *run) failed(err *comms.TaskError) comms.ReportItem {
	r.exec.drop(r.path.dropValue())
	item := r.ended(comms.ReportFailed)
	item.Error = err
	return item
}

func (r *run) ended(kind comms.ReportKind) comms.ReportItem {
	r.endLog()
	u := &r.usage
	e := r.exec
	d := time.Since(r.began)
	e.ended = r.began.Add(d)
	u.Duration, u.CPU = int64(d), e.cpu.spent(int64(d))
	if r.kind.fn == nil {
		u.CPU = r.commandCPU
	} else {
		u.PeakRSS = max(r.peak.Load(), e.private(e.ended))
	}
	return comms.ReportItem{Kind: kind, Run: r.ID, At: u.Start + u.Duration, Usage: u}
}
