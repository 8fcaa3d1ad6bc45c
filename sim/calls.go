package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// callee is the function that tasks call. It runs a program (program.go), and returns words
// that are made of its number and of what it reads.
const callee = "C"

// calling is what the run at hand does with calls.
type calling struct {
	prog    *program
	row     rowID
	life    uint64 // names the run, or all tries of its task, when those meet what they have called
	next    int    // act
	sum     uint64
	with    with
	ways    ways
	vars    map[int]*callVar // by act
	refs    map[comms.CallRef]*callVar
	winners map[int]*callVar  // of waits, by act
	numbers map[uint64]uint64 // of the next call, by strand
	kinds   uint32

	borrowed []*callVar // references that it has found
	looked   bool       // for those in its inputs
	ends     int        // of borrowed, those that it needs no more

	seen    uint64 // items that the agent has told
	ended   int    // calls of whose end it has told
	wait    uint64 // number of the last wait
	waiting bool   // which is not answered
	asked   *comms.CallWait

	until func() bool // the act at hand waits for this; nil: it waits for nothing
	mine  bool        // and has asked for the wait that is not answered
	refsN func() ([]comms.CallRef, int)
	timed bool // its time-out runs
	late  bool // and is over
}

// callVar is a call that was made, or a value that was put.
type callVar struct {
	act      *act
	ref      comms.CallRef
	with     with
	sum      uint64
	request  uint64 // what its agent knows it by
	word     string // of a value
	ways     ways
	limit    bool             // it has a time-out
	reads    []*callVar       // what its arguments are made of
	lists    []comms.ItemRefs // to what its arguments refer
	ofInput  bool             // one of them is an input of the run
	end      *comms.CallEnd
	order    int // it is the order-th of which the end was told
	elements []comms.Desc
	got      int // elements that were read
	dropped  bool
	borrowed bool                                // it is a reference that was found in a value
	to       referred                            // what that must yield
	asked    map[comms.DatasetRef]*comms.CallEnd // answers to reads; nil: none yet
}

// isCall tells whether the run at hand is of a called task.
func (x *executor) isCall() bool { return x.kinds[x.cur.Kind].Function == callee }

// plans draws what a run calls: of tasks of a graph some, the same in each attempt; of
// called tasks what their caller has them do.
func (x *executor) plans(r *comms.Run, k *comms.Kind) (c calling) {
	w := x.w
	key, depth := hashOf(w.seed, k.Job, r.Task), w.fate.programs.depth
	if k.Function == callee {
		b := r.With
		if len(b) == 0 {
			b = k.With
		}
		p, err := readWith(b)
		if err != nil {
			w.fail(k.Job, "run %d of %s: %v", r.ID, x.name, err)
		}
		c.with, c.ways, c.sum = p, w.fate.programs.ways(p.key), sumOf(p.key, p.inputs)
		key, depth = p.key, p.depth
	} else if int(key>>32%1000) >= w.fate.calls || slices.ContainsFunc(k.Outputs, func(o comms.KindOut) bool { return o.Generate != dag.GenerateNone }) {
		return calling{}
	}
	c.prog = w.program(key, depth)
	w.ranProgram(c.prog)
	if c.prog.once {
		c.prog = w.program(hashOf(key, x.name, x.a.incarn, r.ID), depth)
		c.prog.once = true
	}
	c.vars, c.refs, c.winners, c.numbers = map[int]*callVar{}, map[comms.CallRef]*callVar{}, map[int]*callVar{}, map[uint64]uint64{}
	return c
}

// wordAt reads a dataset.
func (x *executor) wordAt(d *comms.Desc) string {
	if d.Place.Kind == comms.PlaceSegment {
		return x.a.mem.words[place{uint64(d.Place.Segment), d.Place.Offset}]
	}
	return string(d.Place.Bytes)
}

// call goes on with the program. It tells whether there was something to do.
func (x *executor) call() bool {
	c := &x.calls
	if c.prog != nil && !c.looked {
		c.looked = true
		x.findsInputs()
	}
	if c.prog == nil || c.next >= len(c.prog.acts) {
		return c.prog != nil && x.endsBorrowed() || x.failsOnPurpose()
	}
	run, a := x.cur, &c.prog.acts[c.next]
	if x.do(a) && x.cur == run {
		c.next++
		c.timed, c.late = false, false
	}
	return true
}

// onPurpose is why a called task fails that is to fail.
const onPurpose = "on purpose"

func (x *executor) failsOnPurpose() bool {
	c := &x.calls
	if !x.isCall() || !c.ways.fails && !(c.ways.stumbles && comms.Try(x.cur.Attempt) == 1) {
		return false
	}
	if made := x.made[0]; made < uint64(c.ways.elements)/2 { // some elements come first
		return false
	}
	x.failed(comms.ErrorTask, onPurpose)
	return true
}

// do does the next of an act. It tells whether the act is over.
func (x *executor) do(a *act) bool {
	switch a.what {
	case actCall, actPut:
		return x.makeCall(a)
	case actWait, actTimed:
		return x.awaitSome(a)
	case actGet, actNext:
		if v := x.calls.there(a.of[0]); v != nil && (a.what == actGet || v.ways.elements > 0) {
			return x.getCall(a, v)
		}
	case actDrop:
		if v := x.calls.there(a.of[0]); v != nil {
			v.dropped = true
			x.w.oracle.drops(x, v)
			x.send(&comms.CallDrop{Run: x.cur.ID, Refs: []comms.CallRef{v.ref}})
		}
	case actCancel:
		m := &comms.CallDrop{Run: x.cur.ID, Cancel: true, Why: "the program cancels it"}
		for _, v := range x.calls.thereOf(a.of) {
			if v.end == nil || !a.flag {
				m.Refs = append(m.Refs, v.ref)
			}
		}
		if len(m.Refs) > 0 {
			x.send(m)
		}
	}
	return true
}

// there returns what an act has made, unless it was left out or dropped.
func (c *calling) there(act int) *callVar {
	if v := c.vars[act]; v != nil && !v.dropped {
		return v
	}
	return nil
}

// thereOf returns the calls among them.
func (c *calling) thereOf(acts []int) (all []*callVar) {
	for _, id := range acts {
		if v := c.there(id); v != nil && v.act.what == actCall {
			all = append(all, v)
		}
	}
	return all
}

// number names the next call, or value, of a strand.
func (c *calling) number(strand uint64) comms.CallRef {
	n := c.numbers[strand]
	c.numbers[strand]++
	return comms.CallRef{Strand: strand, Number: n}
}

// makeCall makes a call, or puts a value. It is false while memory for a value is asked for.
func (x *executor) makeCall(a *act) bool {
	c, v := &x.calls, &callVar{act: a, asked: map[comms.DatasetRef]*comms.CallEnd{}}
	var ins []comms.CallInput
	var words []string
	args := a.args
	if a.what == actPut {
		args = []arg{{}}
	}
	for i := range args {
		if args[i].from == argValue && i == 0 && x.lease == nil && x.segmented(a) { // one value of a call, at most
			x.ask(pick(x.w.rnd, uint64(4096), 3*4096))
			return false
		}
		in, word, ok := x.argument(a, v, i, args[i])
		if !ok {
			return true // what it is to read is not there
		}
		if a.what == actCall && !a.list {
			in.Port = uint32(i)
		}
		ins, words = append(ins, in), append(words, word)
	}
	v.ref = c.number(a.strand)
	m := &comms.Calls{Run: x.cur.ID, Once: c.prog.once, Refs: v.lists}
	item := comms.CallItem{Ref: v.ref, Inputs: ins}
	if v.word = words[0]; a.what == actCall {
		v.word, v.ways = "", x.w.fate.programs.ways(a.key)
		p := with{a.key, c.prog.depth - 1, sumOfWords(words), c.life}
		v.with, v.sum = p, sumOf(p.key, p.inputs)
		k, name := a.options(&x.w.fate.programs, &v.ways, x.w.fate.timeouts > 0)
		k.Resources.Custom = x.needs(a)
		c.kinds++
		k.ID, v.limit = c.kinds, k.Timeout > 0
		item.Kind, item.Name, item.With = k.ID, name, p.encode()
		m.Kinds = []comms.CallKind{k}
	}
	m.Items = []comms.CallItem{item}
	c.vars[a.id], c.refs[v.ref] = v, v
	v.request = c.sumOfRequest(v, ins)
	x.w.oracle.makesCall(x, v, item.Name)
	x.send(m)
	return true
}

// sumOfRequest is what two tries have in common that make the same call. An input that was recomputed in between is
// another one, by its attempt, although the simulator's bytes are equal: real ones may differ, and then what a call
// made of the first must not be taken for what it makes of the second. So with calls that read such a call, or whose
// arguments refer to it.
func (c *calling) sumOfRequest(v *callVar, ins []comms.CallInput) uint64 {
	all := []any{v.sum}
	for i := range ins {
		if ins[i].From == comms.FromInput {
			all = append(all, ins[i].Data.Ref, ins[i].Data.Attempt)
		}
	}
	for _, of := range v.reads {
		all = append(all, of.request)
	}
	for _, list := range v.lists {
		for _, to := range list.Refs {
			all = append(all, c.refs[to.Ref].request)
		}
	}
	return hashOf(all...)
}

// segmented tells whether the value of an act goes into shared memory, in each try.
func (x *executor) segmented(a *act) bool { return int(a.draw%1000) < x.w.fate.segment }

// argument finds one argument of a call, and its word.
func (x *executor) argument(a *act, v *callVar, i int, g arg) (in comms.CallInput, word string, ok bool) {
	c := &x.calls
	switch g.from {
	case argMade, argWinner:
		of := c.there(g.of)
		if g.from == argWinner {
			if of = c.winners[g.of]; of != nil && of.dropped {
				of = nil
			}
		}
		if of == nil || of.ways.elements > 0 && of.got == 0 {
			return in, "", false
		}
		in = comms.CallInput{From: comms.FromCall, Ref: of.ref}
		v.reads = append(v.reads, of)
		switch {
		case of.act.what == actPut:
			return in, of.word, true
		case of.ways.elements > 0:
			in.Element = uint64(of.got - 1)
		default:
			in.Output = uint32(g.n % of.ways.outputs)
		}
		return in, wordOfCall(of.sum, in.Output, in.Element), true
	case argOfInput:
		if in, word, ok = x.passed(g.n); ok {
			v.ofInput = in.From == comms.FromInput
			return in, word, true
		}
	}
	word = fmt.Sprintf("v%d.%d.%d", c.prog.key, a.id, i)
	if refs, suffix := x.refer(a.id, i); refs != nil {
		v.lists = append(v.lists, comms.ItemRefs{Input: uint32(i), Refs: refs})
		word += suffix
	}
	in.Data = comms.Desc{Codec: "raw", Size: uint64(len(word)), Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(word)}}
	if x.lease != nil && i == 0 {
		in.Data.Size = 4096 // each try puts as much, and sums of requests are the same
		x.fill(&in.Data, word)
		in.Data.Hash = comms.HashOf([]byte(word))
	}
	return in, word, true
}

// passed is one of the inputs of the run as an argument, as the library passes it.
func (x *executor) passed(n int) (in comms.CallInput, word string, ok bool) {
	var all []comms.CallInput
	for i := range x.cur.Inputs {
		data := x.cur.Inputs[i].Data
		if !x.isCall() && (len(data) != 1 || x.kinds[x.cur.Kind].Inputs[i].List) {
			continue
		}
		for item := range data {
			if p := data[item].Place.Kind; p == comms.PlaceInline || p == comms.PlaceSegment {
				all = append(all, comms.CallInput{From: comms.FromInput, Input: uint32(i), Item: uint32(item), Data: data[item]})
			}
		}
	}
	if len(all) == 0 {
		return in, "", false
	}
	in = all[n%len(all)]
	word = x.wordAt(&in.Data)
	if in.Data.Place.Kind == comms.PlaceInline && refersTo(word) == nil {
		in = comms.CallInput{Data: comms.Desc{Codec: in.Data.Codec, Size: in.Data.Size, Place: in.Data.Place}}
	}
	return in, word, true
}

// awaitSome waits until some calls have ended, or for a time. The first that has is the winner.
func (x *executor) awaitSome(a *act) bool {
	c := &x.calls
	all := c.thereOf(a.of)
	n := min(a.n, len(all))
	over := func() bool { _, left := unended(all); return len(all)-left >= n }
	if len(all) == 0 || c.late || over() {
		c.won(a, all)
		return true
	}
	x.block(func() bool { return c.late || over() }, func() ([]comms.CallRef, int) {
		refs, left := unended(all)
		return refs, n - (len(all) - left)
	})
	if a.what == actTimed && !c.timed {
		c.timed = true
		run, next := x.cur, c.next
		x.after(time.Duration(a.draw%4)*time.Millisecond, func() {
			if x.cur == run && c.next == next {
				c.late, c.mine = true, false // the wait stays with the agent
				x.unblock()
				x.goOn()
			}
		})
	}
	return false
}

// unended lists the calls of which no end was told.
func unended(all []*callVar) (refs []comms.CallRef, n int) {
	for _, v := range all {
		if v.end == nil {
			refs = append(refs, v.ref)
		}
	}
	return refs, len(refs)
}

// won notes which call has ended first.
func (c *calling) won(a *act, all []*callVar) {
	for _, v := range all {
		if w := c.winners[a.id]; v.end != nil && v.ways.elements == 0 && (w == nil || v.order < w.order) {
			c.winners[a.id] = v
		}
	}
}

// getCall waits for a call, or an element of its stream, and reads it.
func (x *executor) getCall(a *act, v *callVar) bool {
	e := uint64(v.got)
	next := a.what == actNext
	over := func() bool { return v.end != nil || next && len(v.elements) > v.got }
	if !over() {
		x.block(over, func() ([]comms.CallRef, int) {
			if next {
				return nil, 1
			}
			return []comms.CallRef{v.ref}, 1
		})
		return false
	}
	if next && len(v.elements) > v.got {
		if !x.readOne(a, v, &v.elements[v.got], comms.DatasetRef{Element: e}) {
			return false
		}
		v.got++
		return true
	}
	if v.end.Error != nil {
		if a.flag && !next {
			x.blameFor("what it called failed: " + v.end.Error.Text())
		}
		return true
	}
	if v.ways.elements > 0 {
		return true
	}
	for o := range v.ways.outputs {
		if !x.readOne(a, v, &v.end.Outputs[o], comms.DatasetRef{Output: uint32(o)}) {
			return false
		}
	}
	return true
}

// blameFor fails the run for what has become of a call.
func (x *executor) blameFor(text string) {
	x.w.oracle.blame(x.kinds[x.cur.Kind].Job)
	x.failed(comms.ErrorTask, text)
}

// readOne reads a dataset of a call. It is false while it is not there.
func (x *executor) readOne(a *act, v *callVar, d *comms.Desc, of comms.DatasetRef) bool {
	if d.Place.Kind == comms.PlaceInline {
		x.readWord(v, d, of)
		return true
	}
	got, asked := v.asked[of]
	if !asked {
		v.asked[of] = nil
		x.send(&comms.CallRead{Run: x.cur.ID, Ref: v.ref, Output: of.Output, Element: of.Element})
	}
	if got == nil {
		x.block(func() bool { return v.asked[of] != nil }, nil)
		return false
	}
	if got.Error == nil {
		x.readWord(v, &got.Outputs[0], of)
		return true
	}
	if why := x.mayNotRead(got.Error); why != "" && !v.borrowed {
		x.w.fail(x.kinds[x.cur.Kind].Job, "run %d of task %d cannot read what call %v returned: %s: %v", x.cur.ID, x.cur.Task, v.ref, why, got.Error)
	}
	if a.flag {
		x.blameFor("what it called cannot be read: " + got.Error.Text())
	}
	return !a.flag
}

// readWord looks at what a call returned.
func (x *executor) readWord(v *callVar, d *comms.Desc, of comms.DatasetRef) {
	job := x.kinds[x.cur.Kind].Job
	if d.Place.Kind == comms.PlaceSegment {
		if size, ok := x.segs[d.Place.Segment]; !ok || d.Place.Offset+d.Size > size {
			x.w.fail(job, "segment %d of what a call of run %d returned was not announced, or with %d bytes", d.Place.Segment, x.cur.ID, size)
		}
	}
	got, want := x.wordAt(d), wordOfCall(v.sum, of.Output, of.Element)
	if v.borrowed {
		want = v.to.word
	}
	x.finds(got, comms.CallInput{From: comms.FromCallValue, Ref: v.ref, Output: of.Output, Element: of.Element})
	got, _, _ = strings.Cut(got, refersFrom)
	if steady(got) != want {
		x.w.fail(job, "call %v of run %d of task %d returns %q instead of %q", v.ref, x.cur.ID, x.cur.Task, got, want)
	}
	if v.borrowed {
		return
	}
	x.w.oracle.readsCall(x, v, of, got, d.Place.Kind == comms.PlaceInline && v.ways.outputs+v.ways.elements == 1)
}

// callsEnded takes what became of calls.
func (x *executor) callsEnded(m *comms.CallEnds) {
	if x.cur == nil || x.cur.ID != m.Run {
		return
	}
	c := &x.calls
	for i := range m.Ends {
		e := &m.Ends[i]
		c.seen++
		v := c.refs[e.Ref]
		switch {
		case v == nil:
			x.w.fail(x.kinds[x.cur.Kind].Job, "run %d of task %d is told of call %v, which it has not made", m.Run, x.cur.Task, e.Ref)
		case v.dropped:
		case v.borrowed && !e.Read:
			if why := x.wrongBorrowed(v, e); why != "" {
				x.w.fail(x.kinds[x.cur.Kind].Job, "run %d of task %d is told of reference %v that %s", m.Run, x.cur.Task, e.Ref, why)
			}
			c.ended++
			v.end, v.order = e, c.ended
		case e.Read:
			of := comms.DatasetRef{Output: e.Outputs[0].Ref.Output, Element: e.Outputs[0].Ref.Element}
			if got, asked := v.asked[of]; !asked || got != nil {
				x.w.fail(x.kinds[x.cur.Kind].Job, "run %d of task %d is told of dataset %v of call %v, which it has asked for: %v", m.Run, x.cur.Task, of, e.Ref, asked)
			}
			v.asked[of] = e
		default:
			x.w.oracle.callTold(x, v, e)
			if e.Element {
				v.elements = append(v.elements, e.Outputs[0])
				continue
			}
			c.ended++
			v.end, v.order = e, c.ended
		}
	}
	x.unblock()
}

// needs is what a call needs of other resources, the same in each attempt. Calls of
// calls need none of it: their callers may hold all that there is.
func (x *executor) needs(a *act) (custom []comms.Amount) {
	if !x.isCall() && x.w.fate.programs.refs == 0 && int(a.draw>>20%1000) < x.w.fate.far { // a task that holds it could wait for one that needs it
		custom = []comms.Amount{{Name: far, N: 1000}}
	}
	return custom
}
