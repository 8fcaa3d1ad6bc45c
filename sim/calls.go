package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

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
	made  int   // calls that were made
	got   int   // and that have returned
	in    string
}

// plans says what a run calls: of tasks of a graph some, the same in each attempt;
// of calls those that go deeper.
func (x *executor) plans(r *comms.Run, k *comms.Kind) calling {
	if k.Function == callee {
		c := calling{in: x.wordAt(&r.Inputs[0].Data[0])}
		if depth := int(k.With[0]); depth > 0 {
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
	c := calling{leave: n>>8%4 == 0}
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
		m := &comms.Call{Run: x.cur.ID, Number: uint64(c.made), Function: callee, Output: "o", With: []byte{byte(c.plan[c.made])}}
		in := comms.CallIn{Name: "in0"}
		if x.kinds[x.cur.Kind].Function == callee {
			in.Input = 1
		} else if word, earlier := c.argument(x.cur.Task, c.made); earlier {
			in.Call = uint64(c.made)
		} else {
			d := comms.Desc{Codec: "raw", Size: uint64(len(word))}
			if !x.put(&d, word) {
				return true
			}
			in.Data = d
		}
		m.Inputs, m.Resources = []comms.CallIn{in}, x.needs(x.cur.Task, c.made)
		x.w.oracle.makesCall(x, c.made)
		c.made++
		x.send(m)
	case c.got < last:
		x.held = true
		x.send(&comms.Await{Run: x.cur.ID, Number: uint64(c.got)})
	default:
		return false
	}
	return true
}

// returned takes what a call returned.
func (x *executor) returned(m *comms.Returned) {
	if x.cur == nil || x.cur.ID != m.Run {
		return
	}
	job := x.kinds[x.cur.Kind].Job
	x.held = false
	x.w.oracle.resources(x.a)
	if m.Error != nil {
		x.w.oracle.blame(job)
		x.failed(comms.ErrorTask, "what it called failed: "+m.Error.Text())
		return
	}
	if d := &m.Data; d.Place.Kind == comms.PlaceSegment {
		if size, ok := x.segs[d.Place.Segment]; !ok || d.Place.Offset+d.Size > size {
			x.w.fail(job, "segment %d of what a call of run %d returned was not announced, or with %d bytes", d.Place.Segment, m.Run, size)
		}
	}
	if got, want := x.wordAt(&m.Data), x.returns(int(m.Number)); got != want || int(m.Number) != x.calls.got {
		x.w.fail(job, "call %d of run %d of task %d returns %q instead of %q", m.Number, m.Run, x.cur.Task, got, want)
	}
	x.calls.got++
}
