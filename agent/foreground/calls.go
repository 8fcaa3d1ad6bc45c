package foreground

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// A task that calls is answered as it was when it ran. Its calls of then, and how they ended, are
// given as Answers; the ends are told in their order of then, each as soon as this run makes the call.
//
//	Calls ──▶ made ──recorded──▶ in order ──▶ CallEnds      CallWait ──▶ CallGo, when enough were told
//	            │                                           CallRead ──▶ a result that was recorded
//	            └─ not recorded, or a stream ──▶ Run ──▶ what it made: a message, or a whole file
//
// A result that was not recorded is made by another run of the call when the task reads it.

// Call is a call of a task, with its arguments.
type Call struct {
	Item   *comms.CallItem
	Kind   *comms.CallKind
	Inputs []comms.RunInput // in the message, or whole files (PlaceDisk)
}

// Answer is how a call ended when its task ran.
type Answer struct {
	Function string
	Order    uint64       // in which ends were told; 0: when the call was made
	Results  []comms.Desc // each in the message, or PlaceNone: its bytes were not recorded
	Error    *comms.TaskError
}

// Answers are what the calls of a task are answered.
type Answers struct {
	Ended map[comms.CallRef]*Answer
	// Run runs a call again, whose result is not known. It tells of elements of streams as they come.
	Run func(ctx context.Context, call *Call, element func(comms.Desc)) ([]comms.Desc, *comms.TaskError, error)
	// Note says what is otherwise than it was.
	Note func(text string)

	// Until is a call, or a value that is put, with which the task is ended (ErrUntil): Given has the values that
	// it gave then, and inputs of its own, by the inputs of that; zero values for what calls returned.
	Until *comms.CallRef
	Given []comms.Desc
}

// ErrUntil says that a task was ended as it has made the call of Answers.Until.
var ErrUntil = errors.New("the task has made the call up to which it was to run")

// patience is how long the end of a call that was told first is waited for, when the task does not make that call.
const patience = 200 * time.Millisecond

// together is how many calls of one task run again at a time.
const together = 4

// callee answers the calls of a task.
type callee struct {
	*Answers
	s     *session
	kinds map[uint32]*comms.CallKind
	order []comms.CallRef // of ends that are told one after another
	told  uint64          // items of CallEnds
	wait  *comms.CallWait // that is not answered
	late  *time.Timer     // runs while a wait is not answered

	mu    sync.Mutex // guards what follows, and what is in it
	made  map[comms.CallRef]*made
	live  []*made         // that run again, or are read
	ctx   context.Context // of the calls that run again
	stop  context.CancelFunc
	runs  sync.WaitGroup
	slots chan struct{}
}

// made is a call that the task has made, or a value that it has put.
type made struct {
	item   *comms.CallItem
	kind   *comms.CallKind // nil of a value
	answer *Answer         // nil: it is not known
	told   bool

	begun    bool // it runs again
	ctx      context.Context
	cancel   context.CancelFunc
	over     chan struct{} // closed when that has ended
	outputs  []comms.Desc  // of that
	elements []comms.Desc
	sent     int // of elements
	failed   *comms.TaskError
	reads    []*comms.CallRead // that wait for that
}

func (s *session) newCallee(a *Answers) *callee {
	c := &callee{Answers: a, s: s, kinds: map[uint32]*comms.CallKind{}, made: map[comms.CallRef]*made{}, slots: make(chan struct{}, together)}
	for ref, answer := range a.Ended {
		if answer.Order > 0 {
			c.order = append(c.order, ref)
		}
	}
	slices.SortFunc(c.order, func(a, b comms.CallRef) int {
		return cmp.Or(cmp.Compare(c.Ended[a].Order, c.Ended[b].Order), a.Compare(b))
	})
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.late = time.AfterFunc(time.Hour, func() { s.post(c.overdue) })
	c.late.Stop()
	return c
}

// end ends the calls that run again.
func (c *callee) end() {
	c.late.Stop()
	c.stop()
	c.runs.Wait()
}

// stream tells whether a call is one of a generator.
func (m *made) stream() bool {
	return m.kind != nil && slices.ContainsFunc(m.kind.Outputs, func(o comms.KindOut) bool { return o.Generate != dag.GenerateNone })
}

// calls takes what the task calls.
func (c *callee) calls(msg *comms.Calls) error {
	for i := range msg.Kinds {
		k := msg.Kinds[i]
		if len(k.Outputs) == 0 {
			k.Outputs = []comms.KindOut{{Name: "out"}}
		}
		c.kinds[k.ID] = &k
	}
	var early []*made
	for i := range msg.Items {
		it := &msg.Items[i]
		m := &made{item: it, over: make(chan struct{})}
		m.ctx, m.cancel = context.WithCancel(c.ctx)
		if it.Kind != 0 {
			if m.kind = c.kinds[it.Kind]; m.kind == nil {
				return fmt.Errorf("the task calls a kind %d that it has not announced", it.Kind)
			}
			m.answer = c.Ended[it.Ref]
			if m.answer != nil && m.answer.Function != m.kind.Function {
				c.Note(fmt.Sprintf("call %s is of function %s, and was of %s: it runs here", text(it.Ref), m.kind.Function, m.answer.Function))
				m.answer = nil
			}
		}
		if c.Until != nil && *c.Until == it.Ref {
			return c.until(it)
		}
		c.mu.Lock()
		c.made[it.Ref] = m
		if m.kind != nil && (m.answer == nil || m.stream()) {
			c.begin(m)
		}
		c.mu.Unlock()
		if m.answer != nil && m.answer.Order == 0 && !m.stream() {
			early = append(early, m)
		}
	}
	return c.tell(early)
}

// until keeps what the task has given with its last call.
func (c *callee) until(it *comms.CallItem) error {
	c.Given = make([]comms.Desc, len(it.Inputs))
	for i := range it.Inputs {
		if it.Inputs[i].From == comms.FromCall {
			continue
		}
		var err error
		if c.Given[i], err = c.argument(c.ctx, &it.Inputs[i]); err != nil {
			return err
		}
	}
	return ErrUntil
}

// take does what a message about calls asks for.
func (c *callee) take(m comms.Message) error {
	switch m := m.(type) {
	case *comms.Calls:
		return c.calls(m)
	case *comms.CallWait:
		return c.waits(m)
	case *comms.CallRead:
		return c.read(m)
	case *comms.CallDrop:
		c.drops(m)
	}
	return nil
}

// text names a call of the task.
func text(ref comms.CallRef) string { return string(comms.AppendCallName(nil, nil, "", ref)[1:]) }

// tell tells the task how some calls have ended, and further ones whose turn it is.
func (c *callee) tell(some []*made) error {
	c.mu.Lock()
	var ends []comms.CallEnd
	for _, m := range some {
		ends = c.ended(ends, m)
	}
	for _, m := range c.live {
		for ; m.sent < len(m.elements); m.sent++ {
			ends = append(ends, comms.CallEnd{Ref: m.item.Ref, Element: true, Outputs: []comms.Desc{m.elements[m.sent]}})
		}
		if m.isOver() && (m.answer == nil || m.answer.Order == 0) {
			ends = c.ended(ends, m)
		}
	}
	for len(c.order) > 0 {
		m := c.made[c.order[0]]
		if m == nil || m.stream() && !m.isOver() {
			break
		}
		if m.answer != nil {
			ends = c.ended(ends, m)
		}
		c.order = c.order[1:]
	}
	ends = c.answerReads(ends)
	c.mu.Unlock()
	return c.send(ends)
}

func (m *made) isOver() bool {
	select {
	case <-m.over:
		return true
	default:
		return false
	}
}

// ended appends the end of a call, once. mu is held.
func (c *callee) ended(ends []comms.CallEnd, m *made) []comms.CallEnd {
	if m.told || m.kind == nil {
		return ends
	}
	m.told = true
	end := comms.CallEnd{Ref: m.item.Ref}
	switch {
	case m.stream():
		end.Error = m.failed
		for o := range m.kind.Outputs {
			end.Counts = append(end.Counts, comms.StreamEnd{Output: uint32(o), Count: uint64(len(m.elements)), Failed: m.failed != nil})
		}
	case m.answer == nil:
		end.Error, end.Outputs = m.failed, m.outputs
	case m.answer.Error != nil:
		end.Error = m.answer.Error
	default:
		for o := range m.kind.Outputs {
			end.Outputs = append(end.Outputs, m.answer.output(uint32(o)))
		}
	}
	return append(ends, end)
}

// output is a result as the task is told of it: it asks for one that was not recorded.
func (a *Answer) output(o uint32) comms.Desc {
	d := comms.Desc{Ref: comms.DatasetRef{Output: o}}
	if i := slices.IndexFunc(a.Results, func(d comms.Desc) bool { return d.Ref.Output == o }); i >= 0 {
		d = a.Results[i]
	}
	if d.Place.Kind != comms.PlaceInline {
		d.Place = comms.Place{Kind: comms.PlaceAgent, Where: "replay"}
	}
	return d
}

// send sends ends, and answers a wait for which they are enough.
func (c *callee) send(ends []comms.CallEnd) error {
	if len(ends) > 0 {
		c.told += uint64(len(ends))
		if err := c.s.send(&comms.CallEnds{Run: c.s.task.Run.ID, Ends: ends}); err != nil {
			return err
		}
	}
	w := c.wait
	if w == nil || !c.enough(w) {
		return nil
	}
	c.wait = nil
	c.late.Stop()
	return c.s.send(&comms.CallGo{Run: w.Run, Wait: w.Wait})
}

func (c *callee) enough(w *comms.CallWait) bool {
	if len(w.Refs) == 0 {
		return c.told >= w.Seen+w.N
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := uint64(0)
	for _, ref := range w.Refs {
		if m := c.made[ref]; m == nil || m.told || m.kind == nil {
			n++
		}
	}
	return n >= min(w.N, uint64(len(w.Refs)))
}

// waits takes the word of the task that it waits.
func (c *callee) waits(w *comms.CallWait) error {
	c.wait = w
	c.late.Reset(patience)
	return c.tell(nil)
}

// overdue goes on when the next end of then is of a call that the task does not make.
func (c *callee) overdue() error {
	if c.wait == nil {
		return nil
	}
	c.mu.Lock()
	skipped := slices.IndexFunc(c.order, func(ref comms.CallRef) bool { return c.made[ref] != nil })
	if skipped > 0 {
		c.order = c.order[skipped:]
	}
	c.mu.Unlock()
	c.late.Reset(patience)
	return c.tell(nil)
}

// read takes the wish of the task to have a result in memory.
func (c *callee) read(msg *comms.CallRead) error {
	c.mu.Lock()
	m := c.made[msg.Ref]
	if m == nil {
		c.mu.Unlock()
		return fmt.Errorf("the task reads call %s, which it has not made", text(msg.Ref))
	}
	if m.reads = append(m.reads, msg); m.kind != nil {
		c.begin(m)
	} else if !m.begun {
		m.begun = true
		c.live = append(c.live, m)
	}
	c.mu.Unlock()
	return c.tell(nil)
}

// answerReads appends answers to what the task reads, as far as that is there. mu is held.
func (c *callee) answerReads(ends []comms.CallEnd) []comms.CallEnd {
	for _, m := range c.live {
		m.reads = slices.DeleteFunc(m.reads, func(r *comms.CallRead) bool {
			d, there := m.dataset(r.Output, r.Element)
			if !there && m.kind != nil && !m.isOver() {
				return false
			}
			end := comms.CallEnd{Ref: r.Ref, Read: true}
			switch {
			case there:
			case m.failed != nil:
				end.Error = m.failed
			case m.kind == nil:
				var err error
				if d, err = c.s.task.Data(m.item.Inputs[0].Data); err != nil {
					end.Error = &comms.TaskError{Kind: comms.ErrorStore, Message: err.Error()}
				}
			default:
				end.Error = &comms.TaskError{Kind: comms.ErrorStore, Message: "it made no such dataset"}
			}
			d.Ref = comms.DatasetRef{Output: r.Output, Element: r.Element}
			end.Outputs = []comms.Desc{d}
			ends = append(ends, end)
			return true
		})
	}
	return ends
}

// dataset returns what a call that ran again has made. mu is held.
func (m *made) dataset(output uint32, element uint64) (comms.Desc, bool) {
	if m.stream() {
		if element < uint64(len(m.elements)) {
			return m.elements[element], true
		}
		return comms.Desc{}, false
	}
	i := slices.IndexFunc(m.outputs, func(d comms.Desc) bool { return d.Ref.Output == output })
	if i < 0 {
		return comms.Desc{}, false
	}
	return m.outputs[i], true
}

// drops takes the word of the task that it needs calls no more.
func (c *callee) drops(msg *comms.CallDrop) {
	if !msg.Cancel {
		return // their ends are told in their order all the same
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ref := range msg.Refs {
		if m := c.made[ref]; m != nil {
			m.cancel()
		}
	}
}

// begin has a call run again, once. mu is held.
func (c *callee) begin(m *made) {
	if m.begun {
		return
	}
	m.begun = true
	c.live = append(c.live, m)
	c.runs.Go(func() {
		err := c.again(m)
		if err != nil && c.ctx.Err() == nil {
			c.s.post(func() error { return fmt.Errorf("call %s of %s: %w", text(m.item.Ref), m.kind.Function, err) })
		}
		close(m.over)
		c.s.post(func() error { return c.tell(nil) })
	})
}

// again runs a call once more.
func (c *callee) again(m *made) error {
	call := &Call{Item: m.item, Kind: m.kind, Inputs: make([]comms.RunInput, len(m.kind.Inputs))}
	for i := range m.item.Inputs {
		in := &m.item.Inputs[i]
		d, err := c.argument(m.ctx, in)
		if err != nil {
			return err
		}
		if int(in.Port) >= len(call.Inputs) {
			return fmt.Errorf("it has no input %d", in.Port)
		}
		call.Inputs[in.Port].Data = append(call.Inputs[in.Port].Data, d)
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-m.ctx.Done():
		c.mu.Lock()
		m.failed = &comms.TaskError{Kind: comms.ErrorCancelled, Message: "its caller has cancelled it"}
		c.mu.Unlock()
		return nil
	}
	outputs, failed, err := c.Run(m.ctx, call, func(d comms.Desc) {
		c.mu.Lock()
		d.Ref.Task, d.Ref.Element = 0, uint64(len(m.elements))
		m.elements = append(m.elements, d)
		c.mu.Unlock()
		c.s.post(func() error { return c.tell(nil) })
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	m.outputs, m.failed = outputs, failed
	return err
}

// argument is what a call reads: in a message, or a whole file.
func (c *callee) argument(ctx context.Context, in *comms.CallInput) (comms.Desc, error) {
	switch in.From {
	case comms.FromInput:
		ins := c.s.task.Run.Inputs
		if int(in.Input) >= len(ins) || int(in.Item) >= len(ins[in.Input].Data) {
			return comms.Desc{}, fmt.Errorf("it reads an input %d[%d] of the task, which it does not have", in.Input, in.Item)
		}
		return c.s.task.Data(ins[in.Input].Data[in.Item])
	case comms.FromValue:
		return c.s.task.Data(in.Data)
	}
	c.mu.Lock()
	m := c.made[in.Ref]
	c.mu.Unlock()
	if m == nil {
		return comms.Desc{}, fmt.Errorf("it reads call %s, which was not made", text(in.Ref))
	}
	if m.kind == nil {
		return c.s.task.Data(m.item.Inputs[0].Data)
	}
	if m.answer != nil && !m.stream() {
		if d := m.answer.output(in.Output); d.Place.Kind == comms.PlaceInline {
			return d, nil
		}
	}
	c.mu.Lock()
	c.begin(m)
	c.mu.Unlock()
	select {
	case <-m.over:
	case <-ctx.Done():
		return comms.Desc{}, context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d, there := m.dataset(in.Output, in.Element)
	switch {
	case there:
		return d, nil
	case m.failed != nil:
		return d, fmt.Errorf("it reads call %s of %s, which has failed: %w", text(in.Ref), m.kind.Function, m.failed)
	}
	return d, fmt.Errorf("it reads output %d[%d] of call %s, which made no such dataset", in.Output, in.Element, text(in.Ref))
}

// Data makes a dataset of the task, an input or a result, one that another process can read:
// in the message, or a whole file (PlaceDisk) in the task's folder.
func (t *Task) Data(d comms.Desc) (_ comms.Desc, err error) {
	if d.Place.Kind != comms.PlaceSegment {
		return d, nil
	}
	from, err := os.Open(t.path(ledger.File, d.Place.Segment))
	if errors.Is(err, os.ErrNotExist) {
		from, err = os.Open(t.path(ledger.Output, d.Place.Segment))
	}
	if err != nil {
		return d, fmt.Errorf("open a dataset of the task: %w", err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := os.CreateTemp(t.Folder, "data-")
	if err != nil {
		return d, fmt.Errorf("make a file for a dataset of the task: %w", err)
	}
	if _, err := io.Copy(to, io.NewSectionReader(from, int64(d.Place.Offset), int64(d.Size))); err != nil {
		return d, errors.Join(fmt.Errorf("copy a dataset of the task: %w", err), to.Close())
	}
	d.Place = comms.Place{Kind: comms.PlaceDisk, Where: filepath.Clean(to.Name())}
	return d, to.Close()
}
