package core

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// worker is a simulated executor.
type worker struct {
	w      *world
	id     comms.ExecutorID
	kinds  map[uint32]*comms.Kind
	segs   map[uint32]uint64
	queue  []comms.Run
	cur    *comms.Run
	held   bool
	heldOn uint32
	made   map[uint32]uint64 // elements published by cur, by output
	credit map[uint32]uint64
	live   map[comms.RunID][]uint32
	cancel *comms.Cancel
	lease  map[int]*comms.Lease // granted for output of cur
	token  uint64
	wait   bool // for a lease
	stop   bool
	dead   bool
	unused *comms.Lease   // to be returned whole
	back   []*comms.Lease // to be returned behind the report that seals what is in it
	ends   []comms.Usage  // of runs from first on, which have succeeded, to be told together
	first  comms.RunID

	program bool // it opened a session
	parent  parentRun

	devices []string // that it sees
	share   int64    // of each, as its first task said; 0: it had none
	memory  int64    // of each, as its tasks said
}

func (x *worker) canAct() bool {
	if x.dead || x.wait {
		return false
	}
	if x.cur == nil {
		return len(x.queue) > 0 || x.stop || len(x.ends) > 0
	}
	return !x.held || x.cancel != nil
}

func (x *worker) send(m comms.Message) {
	x.tellEnds()
	x.w.post(FromExecutor{x.id, m})
}

// tellEnds reports runs that have succeeded without outputs to tell.
func (x *worker) tellEnds() {
	if len(x.ends) > 0 {
		it := comms.ReportItem{Kind: comms.ReportSteps, Run: x.first, Steps: comms.AppendUsages(nil, x.ends)}
		x.ends = nil
		x.w.post(FromExecutor{x.id, &comms.Report{Items: []comms.ReportItem{it}}})
	}
}

func (x *worker) item(it comms.ReportItem) {
	it.Run = x.cur.ID
	items := []comms.ReportItem{it}
	for _, l := range x.back {
		items = append(items, comms.ReportItem{Kind: comms.ReportLeaseReturn, Lease: &comms.Lease{Segment: l.Segment, Offset: l.Offset + l.Size}})
	}
	if l := x.unused; l != nil {
		items = append(items, comms.ReportItem{Kind: comms.ReportLeaseReturn, Lease: &comms.Lease{Segment: l.Segment, Offset: l.Offset, Size: l.Size}})
	}
	x.back, x.unused = nil, nil
	x.send(&comms.Report{Items: items})
}

func (x *worker) take(m comms.Message) {
	if x.dead {
		return
	}
	switch m := m.(type) {
	case *comms.Kind:
		x.kinds[m.ID] = m
	case *comms.Segment:
		if m.Close {
			delete(x.segs, m.ID)
		} else {
			x.segs[m.ID] = m.Size
		}
	case *comms.Dispatch:
		for i := range m.Runs {
			runs, err := m.Runs[i].All()
			if err != nil {
				x.w.t.Fatalf("%v", err)
			}
			x.queue = append(x.queue, runs...)
		}
	case *comms.Reclaim:
		var back []comms.RunID
		x.queue = slices.DeleteFunc(x.queue, func(r comms.Run) bool {
			if slices.Contains(m.Runs, r.ID) {
				back = append(back, r.ID)
				return true
			}
			return false
		})
		x.send(&comms.Reclaimed{Runs: back})
	case *comms.Cancel:
		if x.cur != nil && x.cur.ID == m.Run {
			x.cancel = m
		}
	case *comms.Credit:
		if x.cur != nil && x.cur.ID == m.Run {
			x.credit[m.Output] += m.N
			if x.held && x.heldOn == m.Output {
				x.held = false
				x.item(comms.ReportItem{Kind: comms.ReportResumed})
			}
		}
	case *comms.Lease:
		x.wait = false
		if m.Error != "" {
			x.fail(comms.ErrorStore, m.Error)
			return
		}
		x.lease[0] = m
	case *comms.Stop:
		x.stop = true
	case *comms.CallEnds:
		x.callsEnded(m)
	case *comms.CallGo:
		x.held = false
	}
}

// act does the next small thing: start, publish, finish, fail, crash, end.
func (x *worker) act() {
	w := x.w
	if x.cur == nil {
		if len(x.queue) == 0 {
			if x.tellEnds(); x.stop {
				x.die("it was told to stop")
			}
			return
		}
		r := x.queue[0]
		x.queue = x.queue[1:]
		x.cur, x.held, x.cancel, x.parent = &r, false, nil, parentRun{}
		x.made, x.credit, x.lease = map[uint32]uint64{}, map[uint32]uint64{}, map[int]*comms.Lease{}
		for o, k := range x.kinds[r.Kind].Outputs {
			x.credit[uint32(o)] = k.Buffer
			if len(r.Skip) > o {
				x.made[uint32(o)] = r.Skip[o]
			}
		}
		if x.inputs(); x.cur != nil && w.pick(2, "started") == 1 {
			x.item(comms.ReportItem{Kind: comms.ReportStarted})
		}
		return
	}
	if x.cancel != nil {
		x.fail(x.cancel.Why, x.cancel.Text)
		return
	}
	if x.program {
		x.session()
		return
	}
	if w.calls.parent(x) {
		w.calls.act(x)
		return
	}
	switch p := w.pick(1000, "fate"); {
	case p < w.crashes:
		x.die("signal: killed")
	case p < w.crashes+w.failures:
		x.fail(comms.ErrorTask, "bad luck")
	case p < w.crashes+w.failures+w.hungry && x.kinds[x.cur.Kind].Resources.Memory > 0:
		held := x.kinds[x.cur.Kind].Resources.Memory
		x.end(ExecutorDead{Why: fmt.Sprintf("it used more than %d bytes", held), Memory: true, Used: held + int64(w.pick(2, "used"))*held})
	default:
		x.work()
	}
}

// inputs checks what a run is given.
func (x *worker) inputs() {
	r, w := x.cur, x.w
	for n, in := range r.Inputs {
		for _, d := range in.Data {
			name := fmt.Sprintf("%v %v", x.kinds[r.Kind].Job, d.Ref)
			if w.calls != nil {
				name = w.calls.argument(r, n)
			}
			switch d.Place.Kind {
			case comms.PlaceInline:
				if string(d.Place.Bytes) != name {
					w.t.Fatalf("run %d reads %q as %s", r.ID, d.Place.Bytes, name)
				}
			case comms.PlaceSegment:
				if got := w.bytes[spot{uint64(d.Place.Segment), d.Place.Offset}]; got != name {
					w.t.Fatalf("run %d reads %q at %d+%d as %s", r.ID, got, d.Place.Segment, d.Place.Offset, name)
				}
				if size, ok := x.segs[d.Place.Segment]; !ok || d.Place.Offset+d.Size > size {
					w.t.Fatalf("run %d: segment %d of input %s was not announced, or with %d bytes", r.ID, d.Place.Segment, name, size)
				}
			case comms.PlaceLive:
				outs, ok := x.live[d.Place.Run]
				if !ok { // its producer failed
					x.send(&comms.Reclaimed{Runs: []comms.RunID{r.ID}})
					x.cur = nil
					return
				}
				if !slices.Contains(outs, d.Ref.Output) {
					w.t.Fatalf("run %d reads output %d of run %d, which keeps %v", r.ID, d.Ref.Output, d.Place.Run, outs)
				}
			default:
				if !w.minInput(x.kinds[r.Kind], r) {
					w.t.Fatalf("run %d gets %s at place %d", r.ID, name, d.Place.Kind)
				}
			}
		}
	}
}

// minInput tells whether a run may miss inputs.
func (w *world) minInput(k *comms.Kind, r *comms.Run) bool {
	for _, in := range w.jobs[k.Job].Group(r.Task).Inputs {
		if in.Min > 0 {
			return true
		}
	}
	return false
}

// work publishes an element, waits for credit or a lease, or finishes.
func (x *worker) work() {
	r, k := x.cur, x.kinds[x.cur.Kind]
	for o, out := range k.Outputs {
		if out.Generate == dag.GenerateNone {
			continue
		}
		total := out.Count
		if out.Generate == dag.GenerateOpen {
			total = 20 + uint64(r.Task)%5
		}
		if x.made[uint32(o)] >= total {
			continue
		}
		if out.Buffer > 0 && x.credit[uint32(o)] == 0 {
			x.held, x.heldOn = true, uint32(o)
			x.item(comms.ReportItem{Kind: comms.ReportThrottled})
			return
		}
		d, ok := x.output(k, uint32(o), x.made[uint32(o)])
		if !ok {
			return
		}
		if out.Buffer > 0 {
			x.credit[uint32(o)]--
		}
		x.made[uint32(o)]++
		x.item(comms.ReportItem{Kind: comms.ReportPublished, Outputs: []comms.Desc{d}})
		return
	}
	it := comms.ReportItem{Kind: comms.ReportFinished, Usage: &comms.Usage{Duration: int64(1+x.w.pick(3, "cost")*100) * 1000}}
	for o, out := range k.Outputs {
		if out.Generate == dag.GenerateOpen {
			it.Counts = append(it.Counts, comms.StreamEnd{Output: uint32(o), Count: x.made[uint32(o)]})
		}
		if out.Generate != dag.GenerateNone || slices.Contains(r.Private, uint32(o)) {
			continue
		}
		d, ok := x.output(k, uint32(o), 0)
		if !ok {
			return
		}
		it.Outputs = append(it.Outputs, d)
	}
	if len(r.Live) > 0 {
		x.live[r.ID] = r.Live
	}
	if len(it.Outputs)+len(it.Counts)+len(x.back) == 0 && x.w.pick(3, "together") > 0 {
		if x.first+comms.RunID(len(x.ends)) != r.ID {
			x.tellEnds()
		}
		if len(x.ends) == 0 {
			x.first = r.ID
		}
		if x.ends = append(x.ends, *it.Usage); x.w.pick(4, "tell") == 0 {
			x.tellEnds()
		}
	} else {
		x.item(it)
	}
	x.cur = nil
}

// output makes one dataset: inline, or in a lease of one page, asked for when there is none.
func (x *worker) output(k *comms.Kind, o uint32, element uint64) (comms.Desc, bool) {
	r, w := x.cur, x.w
	ref := comms.DatasetRef{Task: r.Task, Output: o, Element: element}
	name := fmt.Sprintf("%v %v", k.Job, ref)
	if w.calls != nil && !w.calls.parent(x) {
		name = w.calls.word(number64(r.With))
	}
	d := comms.Desc{Ref: ref, Attempt: r.Attempt, Codec: "raw", Size: uint64(len(name))}
	l := x.lease[0]
	if l == nil && (len(k.Outputs) > 1 || w.pick(1000, "where") >= w.segment) {
		d.Place = comms.Place{Kind: comms.PlaceInline, Bytes: []byte(name)}
		return d, true
	}
	if l == nil {
		x.token++
		x.wait = true
		x.send(&comms.LeaseReq{Token: x.token, Size: 4096, Run: r.ID, File: w.pick(2, "file") == 1})
		return d, false
	}
	delete(x.lease, 0)
	w.bytes[spot{uint64(l.Segment), l.Offset}] = name
	d.Place = comms.Place{Kind: comms.PlaceSegment, Segment: l.Segment, Offset: l.Offset}
	x.back = append(x.back, l)
	return d, true
}

func (x *worker) fail(kind comms.ErrorKind, text string) {
	x.unused = x.lease[0]
	delete(x.lease, 0)
	x.item(comms.ReportItem{Kind: comms.ReportFailed, Error: &comms.TaskError{Kind: kind, Message: text}})
	x.cur, x.held = nil, false
}

func (x *worker) die(why string) { x.end(ExecutorDead{Why: why}) }

// end ends the process, of what an event says.
func (x *worker) end(ev ExecutorDead) {
	if x.dead {
		return
	}
	x.dead = true
	ev.Executor = x.id
	if x.cur != nil {
		ev.Run = x.cur.ID
	}
	if x.program {
		x.leave(ev)
		return
	}
	x.w.post(ev)
}
