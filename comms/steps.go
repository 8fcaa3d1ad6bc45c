package comms

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cascade-run/cascade/dag"
)

// Many runs that differ little travel as columns of numbers and texts, in bytes
// that are passed on as they are (docs/protocol/encoding.md, "Columns").

// MaxSteps is the most entries of one block of columns.
const MaxSteps = 4096

// Step is a run that follows another one of the same Dispatch. Its number is one
// above that of the run before it, whose environment and resources it shares.
type Step struct {
	Kind    uint32        // announced before
	Task    dag.TaskIndex // for the names of its outputs
	Attempt uint32        // for the names of its outputs
	Reads   uint32        // one above the output of the run before it that is its only input; 0: it has no input
	Keeps   uint64        // bit o: output o is wanted by the run behind as a live value
	Only    uint64        // bit o: and by no other task, it need not be published
	Name    string        // as Run.Name
	With    []byte        // as Run.With
}

// End is the end of a run that succeeded and has no outputs to tell.
type End struct {
	Task    dag.TaskIndex // which task
	Attempt uint32        // of the task
	Reads   uint32        // as Step.Reads; of the first of a block it does not count
	Usage   Usage         // what it cost
}

// AppendSteps encodes up to MaxSteps steps behind b, for Run.Steps.
func AppendSteps(b []byte, steps []Step) []byte {
	n := len(steps)
	b = binary.AppendUvarint(b, uint64(n))
	b = appendColumn(b, n, func(i int) uint64 { return uint64(steps[i].Kind) })
	b = appendColumn(b, n, func(i int) uint64 { return uint64(steps[i].Task) })
	b = appendColumn(b, n, func(i int) uint64 { return uint64(steps[i].Attempt) })
	b = appendColumn(b, n, func(i int) uint64 { return uint64(steps[i].Reads) })
	b = appendColumn(b, n, func(i int) uint64 { return steps[i].Keeps })
	b = appendColumn(b, n, func(i int) uint64 { return steps[i].Only })
	b = appendTexts(b, n, func(i int) string { return steps[i].Name })
	return appendTexts(b, n, func(i int) string { return view(steps[i].With) })
}

// view is bytes as a text, valid as long as they are not changed.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// ReadSteps decodes what AppendSteps writes; no bytes are no steps. With aliases b.
func ReadSteps(b []byte) ([]Step, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r := columnReader{b: b}
	n := r.count()
	steps := make([]Step, n)
	r.column(n, func(i int, v uint64) { steps[i].Kind = uint32(v) })
	r.column(n, func(i int, v uint64) { steps[i].Task = dag.TaskIndex(v) })
	r.column(n, func(i int, v uint64) { steps[i].Attempt = uint32(v) })
	r.column(n, func(i int, v uint64) { steps[i].Reads = uint32(v) })
	r.column(n, func(i int, v uint64) { steps[i].Keeps = v })
	r.column(n, func(i int, v uint64) { steps[i].Only = v })
	r.texts(n, func(from, to int, t []byte) {
		name := string(t) // one for all that have it
		for i := from; i < to; i++ {
			steps[i].Name = name
		}
	})
	r.texts(n, func(from, to int, t []byte) {
		for i := from; i < to; i++ {
			steps[i].With = t
		}
	})
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("steps of a path: %w", err)
	}
	return steps, nil
}

// AppendUsages encodes up to MaxSteps usages behind b, for ReportItem.Steps.
func AppendUsages(b []byte, u []Usage) []byte {
	b = binary.AppendUvarint(b, uint64(len(u)))
	return appendUsages(b, len(u), func(i int) *Usage { return &u[i] })
}

// appendUsages is AppendUsages without their number.
func appendUsages(b []byte, n int, at func(i int) *Usage) []byte {
	if n == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(at(0).Start))
	b = appendColumn(b, n, func(i int) uint64 { // how long after the end of the one before
		if i == 0 {
			return 0
		}
		before := at(i - 1)
		return zigzag(at(i).Start - before.Start - before.Duration)
	})
	b = appendColumn(b, n, func(i int) uint64 { return uint64(at(i).Duration) })
	b = appendColumn(b, n, func(i int) uint64 { return uint64(at(i).CPU) })
	b = appendColumn(b, n, func(i int) uint64 { return at(i).PeakRSS })
	b = appendColumn(b, n, func(i int) uint64 { return at(i).BytesIn })
	b = appendColumn(b, n, func(i int) uint64 { return at(i).BytesOut })
	return appendColumn(b, n, func(i int) uint64 { return at(i).Copied })
}

// ReadUsages decodes what AppendUsages writes, behind to.
func ReadUsages(b []byte, to []Usage) ([]Usage, error) {
	r := columnReader{b: b}
	n := r.count()
	at := len(to)
	to = append(to, make([]Usage, n)...)
	u := to[at:]
	r.usages(n, func(i int) *Usage { return &u[i] })
	if err := r.end(); err != nil {
		return to[:at], fmt.Errorf("usages: %w", err)
	}
	return to, nil
}

// AppendEnds encodes n ends behind b, for Event.Steps: end gives what each
// concerns, without its usage, and usages is what AppendUsages made of theirs.
func AppendEnds(b []byte, n int, end func(i int) End, usages []byte) []byte {
	b = binary.AppendUvarint(b, uint64(n))
	b = appendColumn(b, n, func(i int) uint64 { return uint64(end(i).Task) })
	b = appendColumn(b, n, func(i int) uint64 { return uint64(end(i).Attempt) })
	b = appendColumn(b, n, func(i int) uint64 { return uint64(end(i).Reads) })
	return append(b, usages...)
}

// ReadEnds decodes what AppendEnds writes, behind to.
func ReadEnds(b []byte, to []End) ([]End, error) {
	r := columnReader{b: b}
	n := r.count()
	at := len(to)
	to = append(to, make([]End, n)...)
	e := to[at:]
	r.column(n, func(i int, v uint64) { e[i].Task = dag.TaskIndex(v) })
	r.column(n, func(i int, v uint64) { e[i].Attempt = uint32(v) })
	r.column(n, func(i int, v uint64) { e[i].Reads = uint32(v) })
	if m := r.count(); m != n {
		r.fail()
	}
	r.usages(n, func(i int) *Usage { return &e[i].Usage })
	if err := r.end(); err != nil {
		return to[:at], fmt.Errorf("ends of tasks: %w", err)
	}
	return to, nil
}

// Each calls f for e, or for each end that an EventSteps stands for as an
// EventFinished of its own. It stops at the first false, and at a block that
// cannot be read.
func (e *Event) Each(f func(*Event) bool) {
	if e.Kind != EventSteps {
		f(e)
		return
	}
	ends, err := ReadEnds(e.Steps, nil)
	if err != nil {
		return
	}
	for i := range ends {
		u := &ends[i].Usage
		one := Event{Kind: EventFinished, Task: ends[i].Task, Attempt: ends[i].Attempt, At: u.Start + u.Duration,
			Executor: e.Executor, Cause: e.Cause, Usage: u}
		if i > 0 && e.Cause.Kind != CauseExecutor {
			one.Cause.Number = 0 // what the first has read
		}
		if i > 0 && ends[i].Reads > 0 {
			one.Cause = Cause{Kind: CauseDataset, Ref: DatasetRef{Task: ends[i-1].Task, Output: ends[i].Reads - 1}}
		}
		if !f(&one) {
			return
		}
	}
}

// Tasks returns the first and the last number of the tasks that an event is of,
// and false when there is none.
func (e *Event) Tasks() (first, last dag.TaskIndex, ok bool) {
	switch e.Kind {
	case EventDrained, EventEnv, EventBuilding:
		return 0, 0, false
	case EventSteps:
	default:
		return e.Task, e.Task, true
	}
	r := columnReader{b: e.Steps}
	n := r.count()
	r.column(n, func(_ int, v uint64) {
		t := dag.TaskIndex(v)
		if !ok || t < first {
			first = t
		}
		if !ok || t > last {
			last = t
		}
		ok = true
	})
	return first, last, ok
}

// All returns the run and those in its Steps, each as a run of its own.
func (r *Run) All() ([]Run, error) {
	steps, err := ReadSteps(r.Steps)
	if err != nil {
		return nil, fmt.Errorf("run %d: %w", r.ID, err)
	}
	runs := make([]Run, 1, len(steps)+1)
	runs[0] = *r
	runs[0].Steps = nil
	for i := range steps {
		s, before := &steps[i], &runs[i]
		next := Run{ID: before.ID + 1, Kind: s.Kind, Task: s.Task, Attempt: s.Attempt, Name: s.Name, With: s.With}
		if s.Reads > 0 {
			next.Inputs = []RunInput{{Data: []Desc{{Ref: DatasetRef{Task: before.Task, Output: s.Reads - 1}, Attempt: before.Attempt,
				Place: Place{Kind: PlaceLive, Run: before.ID}}}}}
		}
		next.Live, next.Private = outputsIn(s.Keeps), outputsIn(s.Only)
		runs = append(runs, next)
	}
	return runs, nil
}

// NameOf returns the name of a task of this kind; given is what its run says.
func (m *Kind) NameOf(t dag.TaskIndex, given string) string {
	switch {
	case given != "":
		return given
	case len(m.Axes) == 0:
		return m.Group
	}
	b := append([]byte(m.Group), '[')
	local := int64(t - m.First)
	width := int64(1)
	for _, a := range m.Axes[1:] {
		width *= max(a.N, 1)
	}
	for i, a := range m.Axes {
		if i > 0 {
			b = append(b, ',')
			width /= max(a.N, 1)
		}
		b = strconv.AppendInt(b, a.First+local/width, 10)
		local %= width
	}
	return string(append(b, ']'))
}

// GroupOf returns the group of a task of this kind by the task's name.
func (m *Kind) GroupOf(task string) string {
	if m.Group != "" {
		return m.Group
	}
	group, _, _ := strings.Cut(task, "[")
	return group
}

// outputsIn lists the bits of a set.
func outputsIn(set uint64) (out []uint32) {
	for ; set != 0; set &= set - 1 {
		out = append(out, uint32(bits.TrailingZeros64(set)))
	}
	return out
}

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// The forms of a column.
const (
	columnEven = 0 // the first number, and by how much each is above the one before
	columnList = 1 // each number
)

// appendColumn writes n numbers, modulo 2^64.
func appendColumn(b []byte, n int, at func(i int) uint64) []byte {
	if n == 0 {
		return b
	}
	first, diff := at(0), uint64(0)
	if n > 1 {
		diff = at(1) - first
	}
	even := true
	for i, want := 1, first; i < n && even; i++ {
		want += diff
		even = at(i) == want
	}
	if even {
		b = binary.AppendUvarint(append(b, columnEven), first)
		return binary.AppendUvarint(b, zigzag(int64(diff)))
	}
	b = append(b, columnList)
	for i := range n {
		b = binary.AppendUvarint(b, at(i))
	}
	return b
}

// appendTexts writes n texts: one when all are equal, else each.
func appendTexts(b []byte, n int, at func(i int) string) []byte {
	if n == 0 {
		return b
	}
	first, even := at(0), true
	for i := 1; i < n && even; i++ {
		even = at(i) == first
	}
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	if even {
		return text(append(b, columnEven), first)
	}
	b = append(b, columnList)
	for i := range n {
		b = text(b, at(i))
	}
	return b
}

// columnReader reads columns. The first error sticks.
type columnReader struct {
	b   []byte
	bad bool
}

func (r *columnReader) fail() { r.b, r.bad = nil, true }

func (r *columnReader) uvarint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads how many entries follow.
func (r *columnReader) count() int {
	n := r.uvarint()
	if n > MaxSteps {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *columnReader) form() byte {
	if len(r.b) == 0 || r.b[0] > columnList {
		r.fail()
		return columnList
	}
	f := r.b[0]
	r.b = r.b[1:]
	return f
}

// column reads n numbers.
func (r *columnReader) column(n int, set func(i int, v uint64)) {
	if n == 0 {
		return
	}
	if r.form() == columnEven {
		v := r.uvarint()
		diff := uint64(unzigzag(r.uvarint()))
		if r.bad {
			return
		}
		for i := range n {
			set(i, v)
			v += diff
		}
		return
	}
	for i := 0; i < n && !r.bad; i++ {
		set(i, r.uvarint())
	}
}

// fill is column for what is zero already.
func (r *columnReader) fill(n int, set func(i int, v uint64)) {
	if len(r.b) > 2 && r.b[0] == columnEven && r.b[1] == 0 && r.b[2] == 0 && n > 0 {
		r.b = r.b[3:]
		return
	}
	r.column(n, set)
}

// texts reads n texts: set is told those from one entry up to before another.
func (r *columnReader) texts(n int, set func(from, to int, t []byte)) {
	if n == 0 {
		return
	}
	text := func() []byte {
		l := r.uvarint()
		if l > uint64(len(r.b)) {
			r.fail()
			return nil
		}
		t := r.b[:l:l]
		r.b = r.b[l:]
		return t
	}
	if r.form() == columnEven {
		set(0, n, text())
		return
	}
	for i := 0; i < n && !r.bad; i++ {
		set(i, i+1, text())
	}
}

func (r *columnReader) usages(n int, at func(i int) *Usage) {
	if n == 0 {
		return
	}
	start := int64(r.uvarint())
	r.fill(n, func(i int, v uint64) { at(i).Start = unzigzag(v) })
	r.fill(n, func(i int, v uint64) { at(i).Duration = max(0, int64(v)) }) // nothing takes less than no time
	r.fill(n, func(i int, v uint64) { at(i).CPU = max(0, int64(v)) })
	r.fill(n, func(i int, v uint64) { at(i).PeakRSS = v })
	r.fill(n, func(i int, v uint64) { at(i).BytesIn = v })
	r.fill(n, func(i int, v uint64) { at(i).BytesOut = v })
	r.fill(n, func(i int, v uint64) { at(i).Copied = v })
	for i := range n {
		u := at(i)
		if i > 0 {
			u.Start += start
		} else {
			u.Start = start
		}
		start = u.Start + u.Duration
	}
}

// end tells whether everything was read, and nothing more was there.
func (r *columnReader) end() error {
	if r.bad || len(r.b) > 0 {
		return ErrMalformed
	}
	return nil
}
