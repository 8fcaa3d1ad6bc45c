package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// drawCalls decides how many tasks call others, of a thousand. As drawDrains it
// draws from numbers of its own.
func drawCalls(seed uint64) int {
	return pick(rand.New(rand.NewPCG(seed, 20)), 0, 0, 300, 700)
}

// callee is the function that tasks call. It returns a word made of its one input
// and of how deep it calls itself.
const callee = "C"

// calling is what the run at hand calls.
type calling struct {
	plan  []int // how deep each call goes
	leave bool  // it does not wait for the last
	puts  bool  // the values that it passes are put first
	drops bool  // it drops each call when it has its result
	made  int   // calls that were made
	got   int   // and that have returned
	next  uint64
	names []uint64 // numbers of the calls
	in    string

	ends map[uint64]*comms.CallEnd // of calls that have ended, by number
	read map[uint64]*comms.CallEnd // answers to reads
	asks map[uint64]bool           // reads that were asked for
	seen uint64                    // items that the agent has told
	wait uint64                    // number of the last wait
}

// depthOf is how deep a run of callee calls itself.
func depthOf(r *comms.Run, k *comms.Kind) int {
	if len(r.With) > 0 {
		return int(r.With[0])
	}
	return int(k.With[0])
}

func newCalling() calling {
	return calling{ends: map[uint64]*comms.CallEnd{}, read: map[uint64]*comms.CallEnd{}, asks: map[uint64]bool{}}
}

// plans says what a run calls: of tasks of a graph some, the same in each attempt;
// of calls those that go deeper.
func (x *executor) plans(r *comms.Run, k *comms.Kind) calling {
	if k.Function == callee {
		c := newCalling()
		c.in = x.wordAt(&r.Inputs[0].Data[0])
		if depth := depthOf(r, k); depth > 0 {
			c.plan = []int{depth - 1}
		}
		return c
	}
	for o := range k.Outputs {
		if k.Outputs[o].Generate != dag.GenerateNone {
			return calling{}
		}
	}
	h := fnv.New64a()
	fmt.Fprint(h, k.Job, r.Task)
	n := h.Sum64()
	if int(n>>32%1000) >= x.w.fate.calls {
		return calling{}
	}
	c := newCalling()
	c.leave, c.puts, c.drops = n>>8%4 == 0, n>>40%3 == 0, n>>44%3 == 0
	for i := range 1 + n%3 {
		c.plan = append(c.plan, int(n>>(12+2*i)%3))
	}
	return c
}

// wordAt reads a dataset.
func (x *executor) wordAt(d *comms.Desc) string {
	if d.Place.Kind == comms.PlaceSegment {
		return x.a.mem.words[place{uint64(d.Place.Segment), d.Place.Offset}]
	}
	return string(d.Place.Bytes)
}

func calleeWord(depth int, in string) string {
	if depth > 0 {
		in = calleeWord(depth-1, in)
	}
	return fmt.Sprintf("c%d(%s)", depth, in)
}

// argument is the input of the n-th call of a task of a graph, and whether that is
// what the call before it returns.
func (c *calling) argument(task dag.TaskIndex, n int) (word string, earlier bool) {
	if n%2 == 1 {
		before, _ := c.argument(task, n-1)
		return calleeWord(c.plan[n-1], before), true
	}
	return fmt.Sprintf("v%d.%d", task, n), false
}

// returns is what the n-th call of the run at hand must return.
func (x *executor) returns(n int) string {
	if x.kinds[x.cur.Kind].Function == callee {
		return calleeWord(x.calls.plan[n], x.calls.in)
	}
	in, _ := x.calls.argument(x.cur.Task, n)
	return calleeWord(x.calls.plan[n], in)
}

// number names the next call, or value, of the run at hand.
func (c *calling) number() comms.CallRef {
	c.next++
	return comms.CallRef{Number: c.next - 1}
}

// call makes the next call of the run at hand, or awaits the next. It tells whether
// there was one.
func (x *executor) call() bool {
	c := &x.calls
	last := len(c.plan)
	if c.leave {
		last--
	}
	switch {
	case c.made < len(c.plan):
		x.makeCall()
	case c.got < last:
		x.getCall(c.names[c.got])
	default:
		return false
	}
	return true
}

// makeCall makes the next call of the run at hand.
func (x *executor) makeCall() {
	c := &x.calls
	m := &comms.Calls{Run: x.cur.ID}
	in := comms.CallInput{}
	if x.kinds[x.cur.Kind].Function == callee {
		in.From = comms.FromInput
	} else if word, earlier := c.argument(x.cur.Task, c.made); earlier {
		in.From, in.Ref = comms.FromCall, comms.CallRef{Number: c.names[c.made-1]}
	} else {
		d := comms.Desc{Codec: "raw", Size: uint64(len(word))}
		if !x.put(&d, word) {
			return
		}
		if in.Data = d; c.puts {
			ref := c.number()
			m.Items = append(m.Items, comms.CallItem{Ref: ref, Inputs: []comms.CallInput{in}})
			in = comms.CallInput{From: comms.FromCall, Ref: ref}
		}
	}
	ref := c.number()
	c.names = append(c.names, ref.Number)
	m.Kinds = []comms.CallKind{{ID: uint32(ref.Number) + 1, Function: callee, Inputs: []comms.KindIn{{Name: "in0"}}, Outputs: []comms.KindOut{{Name: "o"}}, Resources: x.needs(x.cur.Task, c.made)}}
	m.Items = append(m.Items, comms.CallItem{Ref: ref, Kind: uint32(ref.Number) + 1, With: []byte{byte(c.plan[c.made])}, Inputs: []comms.CallInput{in}})
	x.w.oracle.makesCall(x, int(ref.Number))
	c.made++
	x.send(m)
}

// getCall goes on with a call until its result is read: it waits, reads and waits again.
func (x *executor) getCall(n uint64) {
	c := &x.calls
	end := c.ends[n]
	w := &comms.CallWait{Run: x.cur.ID, Seen: c.seen, N: 1}
	switch {
	case end == nil && x.w.chance(500):
		w.Refs, w.Seen = []comms.CallRef{{Number: n}}, 0
	case end == nil:
	case end.Error != nil:
		x.blameCall(end.Error)
		x.failed(comms.ErrorTask, "what it called failed: "+end.Error.Text())
		return
	case end.Outputs[0].Place.Kind == comms.PlaceInline:
		x.gotCall(n, &end.Outputs[0])
		return
	case c.read[n] != nil:
		if e := c.read[n].Error; e != nil {
			x.blameCall(e)
			x.failed(comms.ErrorTask, "what it called cannot be read: "+e.Text())
			return
		}
		x.gotCall(n, &c.read[n].Outputs[0])
		return
	case !c.asks[n]:
		c.asks[n] = true
		x.send(&comms.CallRead{Run: x.cur.ID, Ref: comms.CallRef{Number: n}})
	}
	c.wait++
	w.Wait = c.wait
	x.held = true
	x.send(w)
}

// blameCall says that what a task called gave it a cause to fail. A loss is none: what is lost is recomputed.
func (x *executor) blameCall(e *comms.TaskError) {
	job := x.kinds[x.cur.Kind].Job
	if strings.Contains(e.Text(), "lost") {
		x.w.fail(job, "run %d of task %d is told of a loss: %s", x.cur.ID, x.cur.Task, e.Text())
	}
	x.w.oracle.blame(job)
}

// gotCall looks at what a call returned.
func (x *executor) gotCall(n uint64, d *comms.Desc) {
	c, job := &x.calls, x.kinds[x.cur.Kind].Job
	if d.Place.Kind == comms.PlaceSegment {
		if size, ok := x.segs[d.Place.Segment]; !ok || d.Place.Offset+d.Size > size {
			x.w.fail(job, "segment %d of what a call of run %d returned was not announced, or with %d bytes", d.Place.Segment, x.cur.ID, size)
		}
	}
	if got, want := x.wordAt(d), x.returns(c.got); got != want {
		x.w.fail(job, "call %d of run %d of task %d returns %q instead of %q", n, x.cur.ID, x.cur.Task, got, want)
	}
	if c.got++; c.drops && c.got < c.made { // the call after it has been made, and holds what it reads
		x.send(&comms.CallDrop{Run: x.cur.ID, Refs: []comms.CallRef{{Number: n}}})
	}
}

// callsEnded takes what became of calls.
func (x *executor) callsEnded(m *comms.CallEnds) {
	if x.cur == nil || x.cur.ID != m.Run {
		return
	}
	c := &x.calls
	for i := range m.Ends {
		e := &m.Ends[i]
		all := c.ends
		if e.Read {
			all = c.read
		}
		if all[e.Ref.Number] != nil {
			x.w.fail(x.kinds[x.cur.Kind].Job, "run %d of task %d is told twice of call %d, read: %v", m.Run, x.cur.Task, e.Ref.Number, e.Read)
		}
		all[e.Ref.Number] = e
		c.seen++
	}
}

// goOnCall ends a wait for calls.
func (x *executor) goOnCall(m *comms.CallGo) {
	if x.cur == nil || x.cur.ID != m.Run {
		return
	}
	if x.held = false; m.Wait != x.calls.wait {
		x.w.fail(x.kinds[x.cur.Kind].Job, "run %d of task %d may go on from its wait %d, and waits for the %d-th time", m.Run, x.cur.Task, m.Wait, x.calls.wait)
	}
	x.w.oracle.resources(x.a)
	if m.Error != nil {
		x.w.oracle.blame(x.kinds[x.cur.Kind].Job)
		x.failed(comms.ErrorTask, "it may not wait: "+m.Error.Text())
	}
}
