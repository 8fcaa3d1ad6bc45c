package core

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// calling is a task that calls: the same in each of its runs. A call returns a word made of its own number and
// of what it reads.
type calling struct {
	steps []callStep
	calls []callMade // by number
	once  bool
	fails int // runs that end with an error before they come to their end
	runs  int
}

type callMade struct {
	put  bool
	args []int // calls before it; -1: a value of its own
}

// callStep is one thing that the task does: it makes a call, reads what one returned, or drops it.
type callStep struct {
	what string
	n    int
}

// parentRun is how far a run of the task has come.
type parentRun struct {
	at    int
	asked bool            // the read at hand was asked for
	read  *comms.CallEnd  // its answer
	seen  uint64          // items that it was told
	waits uint64          // how often it has waited
	ended map[uint64]bool // calls of which it knows the end
	after int             // steps after which this run fails; 0: it does not
}

func number64(with []byte) int {
	if len(with) != 8 {
		return -1
	}
	return int(binary.LittleEndian.Uint64(with))
}

func randomCalling(t *rapid.T) *calling {
	c := &calling{once: rapid.Bool().Draw(t, "once"), fails: rapid.IntRange(0, 2).Draw(t, "fails")}
	var live []int // calls that it has
	for range rapid.IntRange(3, 40).Draw(t, "steps") {
		switch k := rapid.IntRange(0, 9).Draw(t, "what"); {
		case k < 6 || len(live) == 0:
			m := callMade{put: k == 0 && !c.once}
			for range rapid.IntRange(1, 3).Draw(t, "args") {
				arg := -1
				if len(live) > 0 && rapid.IntRange(0, 3).Draw(t, "source") > 0 {
					arg = rapid.SampledFrom(live).Draw(t, "arg")
				}
				m.args = append(m.args, arg)
			}
			if m.put {
				m.args = []int{-1}
			}
			live = append(live, len(c.calls))
			c.steps = append(c.steps, callStep{"call", len(c.calls)})
			c.calls = append(c.calls, m)
		default:
			n := rapid.SampledFrom(live).Draw(t, "of")
			if k < 9 && !c.calls[n].put {
				c.steps = append(c.steps, callStep{"read", n})
			}
			c.steps = append(c.steps, callStep{"drop", n})
			live = slices.DeleteFunc(live, func(o int) bool { return o == n })
		}
	}
	for _, n := range live {
		if !c.calls[n].put {
			c.steps = append(c.steps, callStep{"read", n}, callStep{"drop", n})
		}
	}
	return c
}

// word is what the n-th call returns, or the n-th value.
func (c *calling) word(n int) string {
	if c.calls[n].put {
		return fmt.Sprintf("p%d", n)
	}
	args := make([]string, len(c.calls[n].args))
	for i := range args {
		args[i] = c.argumentOf(n, i)
	}
	if w := fmt.Sprintf("c%d(%s)", n, strings.Join(args, ",")); len(w) < 200 {
		return w
	}
	return fmt.Sprintf("c%d", n)
}

func (c *calling) argumentOf(n, i int) string {
	if arg := c.calls[n].args[i]; arg >= 0 {
		return c.word(arg)
	}
	return fmt.Sprintf("v%d.%d", n, i)
}

// argument is what a run must read as its i-th input.
func (c *calling) argument(r *comms.Run, i int) string { return c.argumentOf(number64(r.With), i) }

// parent tells whether a worker runs the task that calls.
func (c *calling) parent(x *worker) bool {
	return c != nil && number64(x.cur.With) < 0
}

// act does the next step of the task.
func (c *calling) act(x *worker) {
	p := &x.parent
	if p.ended == nil {
		p.ended = map[uint64]bool{}
		c.runs++
		if c.fails > 0 {
			c.fails--
			p.after = 1 + x.w.pick(len(c.steps), "fails after")
		}
	}
	if p.after > 0 && p.at >= p.after {
		x.fail(comms.ErrorTask, "bad luck")
		return
	}
	if p.at == len(c.steps) {
		x.work()
		return
	}
	switch s := c.steps[p.at]; s.what {
	case "call":
		c.call(x, s.n)
	case "read":
		c.read(x, s.n)
	case "drop":
		x.send(&comms.CallDrop{Run: x.cur.ID, Refs: []comms.CallRef{{Number: uint64(s.n)}}})
		p.at++
	}
}

func (c *calling) call(x *worker, n int) {
	m := &c.calls[n]
	it := comms.CallItem{Ref: comms.CallRef{Number: uint64(n)}}
	if !m.put {
		it.Kind, it.With = uint32(len(m.args)), binary.LittleEndian.AppendUint64(nil, uint64(n))
	}
	large := !c.once // of its values one lies in memory
	for i, arg := range m.args {
		in := comms.CallInput{Port: uint32(i), From: comms.FromCall}
		if arg >= 0 {
			in.Ref = comms.CallRef{Number: uint64(arg)}
		} else {
			word := c.argumentOf(n, i)
			if m.put {
				word = c.word(n)
			}
			in.From, in.Data = comms.FromValue, comms.Desc{Codec: "raw", Size: uint64(len(word)), Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte(word)}}
			if large && (n+i)%2 == 0 {
				l := x.lease[0]
				if l == nil {
					x.token++
					x.wait = true
					x.send(&comms.LeaseReq{Token: x.token, Size: 4096, Run: x.cur.ID})
					return
				}
				delete(x.lease, 0)
				x.w.bytes[spot{uint64(l.Segment), l.Offset}] = word
				in.Data.Place = comms.Place{Kind: comms.PlaceSegment, Segment: l.Segment, Offset: l.Offset}
				x.back, large = append(x.back, l), false
			}
		}
		it.Inputs = append(it.Inputs, in)
	}
	calls := &comms.Calls{Run: x.cur.ID, Once: c.once, Items: []comms.CallItem{it}}
	for k := range 3 {
		kind := comms.CallKind{ID: uint32(k + 1), Function: "F", Outputs: []comms.KindOut{{Name: "y"}}}
		for i := range k + 1 {
			kind.Inputs = append(kind.Inputs, comms.KindIn{Name: fmt.Sprintf("x%d", i)})
		}
		calls.Kinds = append(calls.Kinds, kind)
	}
	x.send(calls)
	for _, l := range x.back {
		x.send(&comms.Report{Items: []comms.ReportItem{{Kind: comms.ReportLeaseReturn, Lease: &comms.Lease{Segment: l.Segment, Offset: l.Offset + l.Size}}}})
	}
	x.back = nil
	x.parent.at++
}

// read reads what a call returned when that has ended, and waits for both.
func (c *calling) read(x *worker, n int) {
	p := &x.parent
	switch {
	case p.read != nil:
		if p.read.Error != nil {
			x.w.t.Fatalf("run %d reads call %d, and is told: %s", x.cur.ID, n, p.read.Error.Text())
		}
		d := &p.read.Outputs[0]
		got := string(d.Place.Bytes)
		if d.Place.Kind == comms.PlaceSegment {
			got = x.w.bytes[spot{uint64(d.Place.Segment), d.Place.Offset}]
		}
		if want := c.word(n); got != want {
			x.w.t.Fatalf("run %d reads %q of call %d, which returns %q", x.cur.ID, got, n, want)
		}
		p.asked, p.read = false, nil
		p.at++
		return
	case p.ended[uint64(n)] && !p.asked:
		p.asked = true
		x.send(&comms.CallRead{Run: x.cur.ID, Ref: comms.CallRef{Number: uint64(n)}})
	}
	p.waits++
	x.held = true
	x.send(&comms.CallWait{Run: x.cur.ID, Wait: p.waits, Seen: p.seen, N: 1})
}

// callsEnded takes what a worker is told of calls.
func (x *worker) callsEnded(m *comms.CallEnds) {
	if x.cur == nil || x.cur.ID != m.Run {
		return
	}
	p := &x.parent
	for i := range m.Ends {
		e := &m.Ends[i]
		switch p.seen++; {
		case e.Read:
			p.read = e
		case e.Error != nil:
			x.w.t.Fatalf("call %d of run %d has failed: %s; the ledger: %+v", e.Ref.Number, m.Run, e.Error.Text(), x.w.c.led.Stats())
		case p.ended[e.Ref.Number]:
			x.w.t.Fatalf("run %d is told a second time that call %d has ended", m.Run, e.Ref.Number)
		default:
			p.ended[e.Ref.Number] = true
		}
	}
}

// TestRandomCalls runs a task that calls at random where the disk loses what is written there: no call and no read
// fails, each call reads what it should, and at the end nothing is held. A task that does not repeat itself puts nothing, and gives
// its calls small values alone, as nothing can bring a large one again.
func TestRandomCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, err := dag.ParseYAML("job.yaml", []byte("job: calls\ntasks:\n  t: {run: F, out: [x], retries: 4}\noutputs: [t.x]\n"), dag.Override{}, dag.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cfg := Config{Agent: "a", Total: comms.Resources{CPU: rapid.SampledFrom([]int64{1000, 2000}).Draw(t, "cpu"), Memory: 1 << 30}, Memory: rapid.SampledFrom([]int64{40 << 10, 64 << 10}).Draw(t, "store"), ArenaBytes: 8 << 10, CheckFrees: true, Warm: 1}
		w := newWorld(t, cfg, xorshift(rapid.Uint64().Draw(t, "seed")))
		w.calls = randomCalling(t)
		w.segment = rapid.SampledFrom([]int{500, 1000}).Draw(t, "segment")
		w.spillRot = rapid.SampledFrom([]int{0, 300, 900}).Draw(t, "rot")
		if w.calls.once {
			w.calls.fails = 0
		}
		w.step(ControllerUp{})
		job := w.assign(1, g, comms.Assign{})
		for range 3000 {
			if !w.turn() {
				break
			}
		}
		w.spillRot = 0
		w.run()
		w.allEnded(job)
		w.step(FromController{Msg: &comms.Steer{Job: job, Action: comms.SteerForget}})
		w.run()
		w.nothingHeld()
	})
}
