package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// world is everything around a core, in memory: a controller that commits, and
// executors that run tasks, fail, crash and are slow as pick decides. It checks
// what executors may rely on: that inputs are there and hold the right bytes,
// and that no more runs at once than the host has.
type world struct {
	t     fataler
	c     *Core
	cfg   Config
	now   time.Time
	pick  func(n int, what string) int // 0 <= result < n
	inbox []Event
	log   []Action // every action, when keep is set
	keep  bool

	workers []*worker
	segs    map[uint64]int64 // size of each segment that exists
	bytes   map[spot]string  // name of the dataset last written at a place
	spilled map[[32]byte]string

	jobs     map[comms.JobID]*dag.Graph
	next     uint64 // number of the next event that the controller expects
	done     map[comms.TaskID]int
	ends     map[comms.TaskID]comms.EventKind
	fence    map[comms.TaskID]uint32 // events of lower attempts count no more
	drained  map[comms.JobID]int
	events   []comms.Event
	hold     bool // the controller commits nothing
	uncommit []uint64
	again    bool // a new incarnation: events that were seen come again

	trace func(Event, []Action)

	net *network // to other worlds, when there are any
	id  int      // there
	// gone: the host is lost.
	gone bool

	failures, crashes, spillRot, diskFull int // of 1000
	segment                               int // of 1000: outputs that go to shared memory
	timer                                 time.Time
}

type fataler interface {
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Helper()
}

type spot struct {
	seg uint64
	off uint64
}

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
	back   []*comms.Lease // to be returned behind the report that seals what is in it
	ends   []comms.Usage  // of runs from first on, which have succeeded, to be told together
	first  comms.RunID
}

func newWorld(t fataler, cfg Config, pick func(n int, what string) int) *world {
	return &world{t: t, c: New(cfg), cfg: cfg, now: time.Unix(1_000_000, 0), pick: pick, next: cfg.LastEvent + 1,
		segs: map[uint64]int64{}, bytes: map[spot]string{}, spilled: map[[32]byte]string{}, jobs: map[comms.JobID]*dag.Graph{},
		done: map[comms.TaskID]int{}, ends: map[comms.TaskID]comms.EventKind{}, fence: map[comms.TaskID]uint32{}, drained: map[comms.JobID]int{}}
}

func (w *world) step(ev Event) {
	w.t.Helper()
	if w.gone {
		return
	}
	out := w.c.Step(w.now, ev)
	if w.trace != nil {
		w.trace(ev, out)
	}
	if err := w.c.Check(); err != nil {
		w.t.Fatalf("after %T: %v", ev, err)
	}
	if w.keep {
		w.log = append(w.log, out...)
	}
	for _, a := range out {
		w.perform(a)
	}
	w.checkResources()
}

func (w *world) post(ev Event) {
	if !w.gone {
		w.inbox = append(w.inbox, ev)
	}
}

func (w *world) perform(a Action) {
	switch a := a.(type) {
	case ToController:
		if m, ok := a.Msg.(*comms.Events); ok {
			w.commit(m)
		}
	case ToExecutor:
		if x := w.worker(a.Executor); x != nil {
			x.take(a.Msg)
		}
	case Spawn:
		w.workers = append(w.workers, &worker{w: w, id: a.Executor, kinds: map[uint32]*comms.Kind{}, segs: map[uint32]uint64{},
			live: map[comms.RunID][]uint32{}})
		w.post(Spawned{Executor: a.Executor, PID: int64(a.Executor)})
		w.post(FromExecutor{a.Executor, &comms.Hello{Language: "go", Functions: []comms.FuncSig{{Name: "F"}, {Name: "G"}}}})
	case Kill:
		if x := w.worker(a.Executor); x != nil {
			x.die("killed: " + a.Why)
		}
	case BuildEnv:
		w.post(EnvReady{Job: a.Job, Name: a.Env.Name, Commands: a.Commands, Key: "env-" + a.Env.Name})
	case Memory:
		w.memory(a.Effect)
	case SetTimer:
		w.timer = a.At
	case ServeChunk:
		w.post(ChunkServed{a.Client, a.Msg.Req})
	default:
		if w.net != nil {
			w.net.perform(w, a)
		}
	}
}

func (w *world) memory(e any) {
	switch e := e.(type) {
	case ledger.CreateSegment:
		if w.pick(1000, "shm") < w.diskFull {
			w.post(SegmentReady{Segment: uint64(e.Segment), Err: fmt.Errorf("no space left on device")})
			return
		}
		w.segs[uint64(e.Segment)] = e.Bytes
		w.post(SegmentReady{Segment: uint64(e.Segment), Path: fmt.Sprintf("/shm/%d", e.Segment)})
	case ledger.ResizeSegment:
		w.segs[uint64(e.Segment)] = e.Bytes
		w.post(SegmentReady{Segment: uint64(e.Segment), Path: fmt.Sprintf("/shm/%d", e.Segment)})
	case ledger.SealSegment:
		w.segs[uint64(e.Segment)] = e.Bytes
	case ledger.RemoveSegment:
		delete(w.segs, uint64(e.Segment))
	case ledger.Spill:
		if w.pick(1000, "disk") < w.diskFull {
			w.post(SpillDone{Key: e.Key, Err: fmt.Errorf("no space left on device")})
			return
		}
		w.spilled[e.Key] = w.bytes[spot{uint64(e.From.Segment), uint64(e.From.Offset)}]
		w.post(SpillDone{Key: e.Key, File: "spill"})
	case ledger.ReadBack:
		if w.pick(1000, "rot") < w.spillRot {
			w.post(ReadBackDone{Key: e.Key, Err: fmt.Errorf("checksum differs")})
			return
		}
		w.bytes[spot{uint64(e.To.Segment), uint64(e.To.Offset)}] = w.spilled[e.Key]
		w.post(ReadBackDone{Key: e.Key})
	case ledger.DropSpill:
		delete(w.spilled, e.Key)
	case ledger.FreedRange:
		for s := range w.bytes {
			if s.seg == uint64(e.Place.Segment) && s.off >= uint64(e.Place.Offset) && s.off < uint64(e.Place.Offset+e.Place.Bytes) {
				w.bytes[s] = "freed"
			}
		}
	}
}

func (w *world) worker(id comms.ExecutorID) *worker {
	for _, x := range w.workers {
		if x.id == id {
			return x
		}
	}
	return nil
}

// commit takes a batch of events and commits it, now or later.
func (w *world) commit(m *comms.Events) {
	if w.again && m.First < w.next {
		return
	}
	if m.First != w.next {
		w.t.Fatalf("events from %d, expected %d", m.First, w.next)
	}
	for _, je := range m.Jobs {
		for _, e := range je.Events {
			w.next++
			w.event(je.Job, e)
		}
	}
	w.uncommit = append(w.uncommit, w.next-1)
	if !w.hold {
		w.commitAll()
	}
}

func (w *world) commitAll() {
	for _, n := range w.uncommit {
		w.post(FromController{Msg: &comms.Committed{UpTo: n}})
	}
	w.uncommit = nil
}

func (w *world) event(job comms.JobID, e comms.Event) {
	if e.Kind == comms.EventSteps {
		e.Each(func(one *comms.Event) bool { w.event(job, *one); return true })
		return
	}
	w.events = append(w.events, e)
	if w.net != nil && w.net.master != nil {
		w.net.master.event(w.id, e)
	}
	id := comms.TaskID{Job: job, Index: e.Task}
	if e.Attempt != 0 && e.Attempt < w.fence[id] {
		return
	}
	switch e.Kind {
	case comms.EventFinished:
		if w.done[id]++; w.done[id] > 1 {
			w.t.Fatalf("task %v finished twice", id)
		}
		w.ends[id] = e.Kind
	case comms.EventFailed, comms.EventSkipped, comms.EventCancelled:
		if k := w.ends[id]; k != 0 {
			w.t.Fatalf("task %v ended as %d after it ended as %d", id, e.Kind, k)
		}
		w.ends[id] = e.Kind
		if e.Error == nil || e.Error.Message == "" {
			w.t.Fatalf("task %v ended as %d without a reason", id, e.Kind)
		}
	case comms.EventRetry, comms.EventLost:
		delete(w.done, id)
		delete(w.ends, id)
	case comms.EventDrained:
		w.drained[job]++
	}
}

func (w *world) assign(id byte, g *dag.Graph, m comms.Assign) comms.JobID {
	var job comms.JobID
	job[0] = id
	w.jobs[job] = g
	m.Job = job
	if m.Epoch == 0 {
		m.Epoch = 1
	}
	w.step(FromController{Msg: &m, Graph: g})
	return job
}

// runs lets the world go on until nothing is left to do.
func (w *world) run() {
	w.t.Helper()
	for range 2_000_000 {
		if !w.turn() {
			return
		}
	}
	w.t.Fatalf("it never ends")
}

// turn does one thing that can be done, as pick decides; false when there is nothing.
func (w *world) turn() bool {
	w.t.Helper()
	can := w.able()
	n := len(can)
	if len(w.inbox) > 0 {
		n++
	}
	if n == 0 {
		before := len(w.inbox)
		w.step(Idle{})
		if len(w.inbox) > before {
			return true
		}
		if !w.timer.IsZero() {
			w.now = maxTime(w.now, w.timer)
			w.timer = time.Time{}
			w.step(Tick{})
			return true
		}
		return false
	}
	w.one(can, n)
	return true
}

func (w *world) able() (can []*worker) {
	for _, x := range w.workers {
		if x.canAct() {
			can = append(can, x)
		}
	}
	return can
}

// one does one of the n things that can be done.
func (w *world) one(can []*worker, n int) {
	w.t.Helper()
	k := w.pick(n, "who")
	w.now = w.now.Add(10 * time.Microsecond)
	if k < len(can) {
		can[k].act()
	} else {
		ev := w.inbox[0]
		w.inbox = w.inbox[1:]
		w.step(ev)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// checkResources sums what runs now.
func (w *world) checkResources() {
	used := map[string]int64{}
	for _, x := range w.workers {
		r := x.cur
		if r == nil && len(x.queue) > 0 {
			r = &x.queue[0]
		}
		if r == nil || x.dead {
			continue
		}
		k := x.kinds[r.Kind]
		if !x.held {
			used["cpu"] += k.Resources.CPU
		}
		used["memory"] += k.Resources.Memory
		used["gpu"] += k.Resources.GPU
		for _, a := range k.Resources.Custom {
			used[a.Name] += a.N
		}
	}
	total := map[string]int64{"cpu": w.cfg.Total.CPU, "memory": w.cfg.Total.Memory, "gpu": w.cfg.Total.GPU}
	for _, a := range w.cfg.Total.Custom {
		total[a.Name] = a.N
	}
	for name, n := range used {
		if n > total[name] {
			w.t.Fatalf("%d of %s run at once, there are %d", n, name, total[name])
		}
	}
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
	x.back = nil
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
	case *comms.TakeBack:
		var back []comms.RunID
		x.queue = slices.DeleteFunc(x.queue, func(r comms.Run) bool {
			if slices.Contains(m.Runs, r.ID) {
				back = append(back, r.ID)
				return true
			}
			return false
		})
		x.send(&comms.TakenBack{Runs: back})
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
		x.cur, x.held, x.cancel = &r, false, nil
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
	switch p := w.pick(1000, "fate"); {
	case p < w.crashes:
		x.die("signal: killed")
	case p < w.crashes+w.failures:
		x.fail(comms.ErrorTask, "bad luck")
	default:
		x.work()
	}
}

// inputs checks what a run is given.
func (x *worker) inputs() {
	r, w := x.cur, x.w
	for _, in := range r.Inputs {
		for _, d := range in.Data {
			name := fmt.Sprintf("%v %v", x.kinds[r.Kind].Job, d.Ref)
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
					x.send(&comms.TakenBack{Runs: []comms.RunID{r.ID}})
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
			x.item(comms.ReportItem{Kind: comms.ReportHeld})
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
	if l := x.lease[0]; l != nil {
		x.back = append(x.back, l)
		l.Size = 0 // none of it was used
	}
	x.item(comms.ReportItem{Kind: comms.ReportFailed, Error: &comms.TaskError{Kind: kind, Message: text}})
	x.cur, x.held = nil, false
}

func (x *worker) die(why string) {
	if x.dead {
		return
	}
	x.dead = true
	run := comms.RunID(0)
	if x.cur != nil {
		run = x.cur.ID
	}
	x.w.post(ExecutorDead{Executor: x.id, Run: run, Why: why})
}
