package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/memnet"
	"github.com/cascade-run/cascade/dag"
)

// executor is a process that runs tasks, as package executor does: one after the
// other, each act of a run after a random time.
type executor struct {
	process
	a  *agent
	id comms.ExecutorID

	// The agent's side of it.
	linked, unlinked bool // its link is, was there
	reported         bool // the core knows of its death
	agentOut         outbox
	jobOf            map[uint32]jobLife // by kind that the agent told it of

	out    outbox
	kinds  map[uint32]*comms.Kind
	segs   map[uint32]uint64 // size of each segment that was announced
	queue  []*comms.Run
	cur    *comms.Run
	began  time.Duration
	made   map[uint32]uint64 // elements published by cur, by output
	placed []comms.Desc      // outputs of cur that are to be told with its end
	credit map[comms.RunID]map[uint32]uint64
	live   map[comms.RunID][]uint32
	cancel *comms.Cancel
	ending []comms.RunID // those that its agent has told it to end
	held   bool
	hung   bool // cur never ends by itself, nor when told to
	calls  calling
	ran    map[comms.RunID]rowID // called tasks that have ended well, of which the agent has not heard
	token  uint64
	asked  bool           // waits for a lease
	lease  *comms.Lease   // granted, not yet used
	back   []*comms.Lease // rests, to be returned behind the report that seals what is in front of them
	stop   bool
	acting bool

	greeted bool          // the agent has answered its Hello
	ends    []comms.Usage // of the runs from first on, which have succeeded, to be told together
	first   comms.RunID
	unheard []ended // in order, runs that read what only this process had, of whose end its agent has not heard

	devices []string // that it sees
	share   int64    // of each, in thousandths, since its first run
	memory  int64    // of each, in bytes

	lastRun     comms.RunID
	why, signal string
	used        int64 // bytes of memory that it died of; 0: it did not
}

// ended is a run of a job that has ended.
type ended struct {
	f   *facts
	run *comms.Run
}

func newExecutor(a *agent, id comms.ExecutorID) *executor {
	return &executor{process: process{w: a.w, name: fmt.Sprintf("%s/x%d", a.name, id)}, a: a, id: id,
		kinds: map[uint32]*comms.Kind{}, jobOf: map[uint32]jobLife{}, segs: map[uint32]uint64{}, made: map[uint32]uint64{},
		credit: map[comms.RunID]map[uint32]uint64{}, live: map[comms.RunID][]uint32{}, ran: map[comms.RunID]rowID{}}
}

func (x *executor) boot() {
	x.begin()
	x.w.lan.Start(x.w.now, x.name)
	if err := x.w.lan.Connect(x.w.now, x.name, x.a.name); err != nil {
		x.w.fail(comms.JobID{}, "%v", err)
	}
}

// die ends the process. Its agent hears of it behind its last message.
func (x *executor) die(why, signal string) {
	if !x.running {
		return
	}
	x.w.tell(x.name, x.jobs(), "dies: %s", why)
	x.why, x.signal = why, signal
	if !x.greeted {
		x.w.oracle.starts[x.a.name]++
	}
	if x.cur != nil {
		x.lastRun = x.cur.ID
		x.w.oracle.stopped(x)
		x.dropsLive(x.cur)
	}
	for _, r := range x.queue {
		x.dropsLive(r)
	}
	x.end()
	x.w.lan.Stop(x.w.now, x.name)
	if !x.linked {
		// Else the end of the link brings the news.
		a := x.a
		a.after(x.w.between(0, time.Millisecond), func() {
			if !x.linked || x.unlinked {
				a.reportDead(x)
			}
		})
	}
}

// jobs lists the job that it works on, for the story.
func (x *executor) jobs() []comms.JobID {
	if x.cur == nil {
		return nil
	}
	return []comms.JobID{x.kinds[x.cur.Kind].Job}
}

func (x *executor) deliver(d memnet.Delivery[comms.Message]) {
	switch d.Kind {
	case memnet.Up:
		x.post(func() {
			x.send(&comms.Hello{PID: int64(x.id), Language: "go", Functions: []comms.FuncSig{{Name: "F"}, {Name: "G"}, {Name: callee}}})
		})
	case memnet.Down:
		x.post(func() { x.die("its link broke", "") })
	case memnet.Credit:
		x.out.credit(x.w, x.w.lan, x.name, x.a.name)
	case memnet.Message:
		x.post(func() { x.take(d.Msg) })
	}
}

// send sends behind what has not been told yet.
func (x *executor) send(m comms.Message) {
	x.tellEnds()
	x.out.send(x.w, x.w.lan, x.name, x.a.name, m)
}

// tellEnds reports the runs that have succeeded one after another.
func (x *executor) tellEnds() {
	if len(x.ends) == 0 {
		return
	}
	it := comms.ReportItem{Kind: comms.ReportSteps, Run: x.first, At: x.w.wall().UnixNano(), Steps: comms.AppendUsages(nil, x.ends)}
	x.ends = nil
	x.out.send(x.w, x.w.lan, x.name, x.a.name, &comms.Report{Items: []comms.ReportItem{it}})
}

func (x *executor) take(m comms.Message) {
	switch m := m.(type) {
	case *comms.Welcome:
		x.greeted = true
	case *comms.Kind:
		x.kinds[m.ID] = m // runs may refer to it after Close
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
				x.w.fail(comms.JobID{}, "%s gets a Dispatch that cannot be read: %v", x.name, err)
			}
			for k := range runs {
				x.enqueue(&runs[k])
			}
		}
	case *comms.Reclaim:
		x.takeBack(m.Runs)
	case *comms.Cancel:
		if x.cur != nil && x.cur.ID == m.Run {
			x.cancel = m
		} else if x.unqueue(m.Run) {
			x.send(&comms.Report{Items: []comms.ReportItem{{Kind: comms.ReportFailed, Run: m.Run, Error: &comms.TaskError{Kind: m.Why, Message: m.Text}}}})
		}
	case *comms.Credit:
		if c := x.credit[m.Run]; c != nil {
			c[m.Output] += m.N
			if x.cur != nil && x.cur.ID == m.Run && x.held && !x.calls.waiting {
				x.held = false
				x.item(comms.ReportItem{Kind: comms.ReportResumed})
				x.w.oracle.resources(x.a)
			}
		}
	case *comms.Lease:
		x.granted(m)
	case *comms.CallEnds:
		x.callsEnded(m)
	case *comms.CallGo:
		x.goOnCall(m)
	case *comms.Stop:
		x.stop = true
		if m.Now {
			x.die("it was told to stop at once", "")
			return
		}
	}
	x.goOn()
}

func (x *executor) enqueue(r *comms.Run) {
	k := x.kinds[r.Kind]
	if k == nil {
		x.w.fail(comms.JobID{}, "run %d is of kind %d, which was not announced to %s", r.ID, r.Kind, x.name)
		return
	}
	x.queue = append(x.queue, r)
	x.credit[r.ID] = map[uint32]uint64{}
	for o := range k.Outputs {
		x.credit[r.ID][uint32(o)] = k.Outputs[o].Buffer
	}
}

// takeBack returns runs that have not started, but for those that live on a run that is
// reclaimed with them and goes on.
func (x *executor) takeBack(ids []comms.RunID) {
	back := &comms.Reclaimed{}
	for _, id := range ids {
		if !x.lives(id, func(on comms.RunID) bool { return slices.Contains(ids, on) && !slices.Contains(back.Runs, on) }) && x.unqueue(id) {
			back.Runs = append(back.Runs, id)
		}
	}
	x.send(back)
}

// lives tells whether a queued run reads a live value of one for which on holds.
func (x *executor) lives(id comms.RunID, on func(comms.RunID) bool) bool {
	i := slices.IndexFunc(x.queue, func(r *comms.Run) bool { return r.ID == id })
	return i >= 0 && slices.ContainsFunc(x.queue[i].Inputs, func(in comms.RunInput) bool {
		return slices.ContainsFunc(in.Data, func(d comms.Desc) bool { return d.Place.Kind == comms.PlaceLive && on(d.Place.Run) })
	})
}

func (x *executor) unqueue(id comms.RunID) bool {
	i := slices.IndexFunc(x.queue, func(r *comms.Run) bool { return r.ID == id })
	if i < 0 {
		return false
	}
	x.dropsLive(x.queue[i])
	x.queue = slices.Delete(x.queue, i, i+1)
	delete(x.credit, id)
	return true
}

// dropsLive tells the oracle of values that only this process had, and only for a run that it gives up.
func (x *executor) dropsLive(r *comms.Run) {
	for _, t := range readsLive(r) {
		x.w.oracle.facts[x.kinds[r.Kind].Job].lost(t)
	}
}

// readsLive lists the tasks of which a run reads what only its process has.
func readsLive(r *comms.Run) (of []dag.TaskIndex) {
	for _, in := range r.Inputs {
		for i := range in.Data {
			if d := &in.Data[i]; d.Place.Kind == comms.PlaceLive {
				of = append(of, d.Ref.Task)
			}
		}
	}
	return of
}

// heard sees what the agent reads of it: of these runs and those before it knows the end.
func (x *executor) heard(m comms.Message) {
	report, ok := m.(*comms.Report)
	if !ok {
		return
	}
	for i := range report.Items {
		it := &report.Items[i]
		first, last := it.Run, it.Run
		switch it.Kind {
		case comms.ReportSteps:
			steps, err := comms.ReadUsages(it.Steps, nil)
			if err != nil {
				return // its agent ends it
			}
			last += comms.RunID(len(steps) - 1)
		case comms.ReportFinished:
		default:
			continue
		}
		x.w.oracle.knows(x, first, last)
		at := slices.IndexFunc(x.unheard, func(e ended) bool { return e.run.ID > last })
		if at < 0 {
			at = len(x.unheard)
		}
		x.unheard = x.unheard[at:]
	}
}

// buried sees that the agent learns of its death: runs of whose end it knows nothing
// restart, with the tasks whose outputs they read.
func (x *executor) buried() {
	for _, e := range x.unheard {
		for _, t := range readsLive(e.run) {
			e.f.lost(t)
		}
	}
	x.unheard = nil
}

// goOn plans the next act, if there is something that can be done.
func (x *executor) goOn() {
	can := x.cur == nil && (len(x.queue) > 0 || x.stop) || x.cur != nil && !x.hung && !x.asked && (!x.rests() || x.cancel != nil)
	if !x.running || x.acting || !can {
		return
	}
	x.acting = true
	x.after(x.w.between(time.Microsecond, pick(x.w.rnd, 20*time.Microsecond, time.Millisecond, 30*time.Millisecond)), func() {
		x.acting = false
		x.act()
		x.goOn()
	})
}

// act does the next small thing: start, publish, finish, fail, crash, end.
func (x *executor) act() {
	w := x.w
	w.steps++
	switch {
	case x.cur == nil && len(x.queue) > 0:
		x.start()
	case x.cur == nil && x.stop:
		x.die("it was told to stop", "")
	case x.cur == nil || x.hung || x.asked || x.rests() && x.cancel == nil:
	case x.cancel != nil:
		x.failed(x.cancel.Why, x.cancel.Text)
	case w.chance(w.fate.executorCrashes):
		x.die("signal: killed", "killed")
	case w.chance(w.fate.executorHangs):
		w.tell(x.name, x.jobs(), "hangs in run %d", x.cur.ID)
		x.hung = true
		id := x.cur.ID
		w.at(w.fate.heal, func() { // what is not told to end goes on then
			if x.running && x.cur != nil && x.cur.ID == id {
				x.hung = false
				x.goOn()
			}
		})
	case x.starves():
	case w.chance(w.fate.taskFails):
		x.w.oracle.blame(x.kinds[x.cur.Kind].Job)
		x.failed(comms.ErrorTask, badLuck)
	default:
		x.work()
	}
}

// badLuck is why a run fails that fails at random.
const badLuck = "bad luck"

func (x *executor) start() {
	r := x.queue[0]
	x.queue = x.queue[1:]
	x.cur, x.began, x.held, x.cancel, x.hung = r, x.w.now, false, nil, false
	x.calls = x.plans(r, x.kinds[r.Kind])
	if x.calls.life = hashOf(x.row(), x.w.oracle.calls.done[x.row()]); x.calls.prog != nil && x.calls.prog.once {
		x.calls.life = hashOf(x.row(), r.ID)
	}
	clear(x.made)
	x.placed = nil
	for o, n := range r.Skip {
		x.made[uint32(o)] = n
	}
	for _, in := range r.Inputs {
		for i := range in.Data {
			if d := &in.Data[i]; d.Place.Kind == comms.PlaceLive {
				outs, ok := x.live[d.Place.Run]
				if !ok { // its producer failed
					x.cur = nil
					x.send(&comms.Reclaimed{Runs: []comms.RunID{r.ID}})
					return
				}
				if !slices.Contains(outs, d.Ref.Output) {
					x.w.fail(x.kinds[r.Kind].Job, "run %d reads output %d of run %d, which keeps %v", r.ID, d.Ref.Output, d.Place.Run, outs)
				}
			}
		}
	}
	x.w.tell(x.name, x.jobs(), "starts run %d: task %d, attempt %d", r.ID, r.Task, r.Attempt)
	x.w.oracle.started(x)
	x.look("at its start")
	if limit := time.Duration(x.kinds[r.Kind].Timeout); limit > 0 {
		x.after(limit, func() { x.tooLong(r, limit) })
	}
	if x.w.chance(500) {
		x.item(comms.ReportItem{Kind: comms.ReportStarted})
	}
}

// tooLong ends a run at its time-out, unless it takes no notice.
func (x *executor) tooLong(r *comms.Run, limit time.Duration) {
	if x.cur != r {
		return
	}
	x.w.oracle.blame(x.kinds[r.Kind].Job) // also when the agent must end it
	if !x.hung && x.cancel == nil {
		x.cancel = &comms.Cancel{Run: r.ID, Why: comms.ErrorTimeout, Text: fmt.Sprintf("it ran longer than its timeout of %v", limit)}
		x.goOn()
	}
}

// look reads all inputs of the run.
func (x *executor) look(when string) {
	r, k := x.cur, x.kinds[x.cur.Kind]
	var words []string
	for _, in := range r.Inputs {
		for i := range in.Data {
			d := &in.Data[i]
			want := ""
			if !x.isCall() {
				want = x.w.oracle.word(x.a.name, k.Job, d.Ref, d.Attempt)
			}
			got := want
			switch d.Place.Kind {
			case comms.PlaceInline:
				got = string(d.Place.Bytes)
			case comms.PlaceSegment:
				got = x.a.mem.words[place{uint64(d.Place.Segment), d.Place.Offset}]
				if size, ok := x.segs[d.Place.Segment]; !ok || d.Place.Offset+d.Size > size {
					x.w.fail(k.Job, "segment %d of an input of run %d was not announced, or with %d bytes", d.Place.Segment, r.ID, size)
				}
			case comms.PlaceLive:
			case comms.PlaceNone:
				if !x.w.oracle.mayMiss(k.Job, r.Task) {
					x.w.fail(k.Job, "run %d of task %d gets input %v nowhere", r.ID, r.Task, d.Ref)
				}
			default:
				x.w.fail(k.Job, "run %d of task %d gets input %v at a place of kind %d", r.ID, r.Task, d.Ref, d.Place.Kind)
			}
			if words = append(words, got); got != want && !x.isCall() {
				x.w.fail(k.Job, "run %d of task %d reads %q instead of %q, %s", r.ID, r.Task, got, want, when)
			}
		}
	}
	if x.isCall() && sumOfWords(words) != x.calls.with.inputs {
		x.w.fail(k.Job, "run %d of called task %d reads %q, which is not what it is to read, %s", r.ID, r.Task, words, when)
	}
}

// work publishes an element, waits for credit or a lease, or finishes.
func (x *executor) work() {
	r, k := x.cur, x.kinds[x.cur.Kind]
	if x.call() {
		return
	}
	for o := range k.Outputs {
		out, n := &k.Outputs[o], uint32(o)
		if out.Generate == dag.GenerateNone {
			continue
		}
		total := out.Count
		if out.Generate == dag.GenerateOpen {
			total = 3 + uint64(r.Task*7)%11
			if x.isCall() {
				total = uint64(x.calls.ways.elements)
			}
		}
		if x.made[n] >= total {
			continue
		}
		if out.Buffer > 0 && x.credit[r.ID][n] == 0 {
			x.held = true
			x.item(comms.ReportItem{Kind: comms.ReportThrottled})
			return
		}
		d, ok := x.output(k, n, x.made[n])
		if !ok {
			return
		}
		if out.Buffer > 0 {
			x.credit[r.ID][n]--
		}
		x.made[n]++
		x.item(comms.ReportItem{Kind: comms.ReportPublished, Outputs: []comms.Desc{d}})
		return
	}
	x.finish(r, k)
}

func (x *executor) finish(r *comms.Run, k *comms.Kind) {
	it := comms.ReportItem{Kind: comms.ReportFinished, Usage: x.usage()}
	for o := range k.Outputs {
		out, n := &k.Outputs[o], uint32(o)
		if out.Generate == dag.GenerateOpen {
			it.Counts = append(it.Counts, comms.StreamEnd{Output: n, Count: x.made[n]})
		}
		if out.Generate != dag.GenerateNone || slices.Contains(r.Private, n) {
			continue
		}
		if slices.ContainsFunc(x.placed, func(d comms.Desc) bool { return d.Ref.Output == n }) {
			continue // before it asked for a lease
		}
		d, ok := x.output(k, n, 0)
		if !ok {
			return
		}
		x.placed = append(x.placed, d)
	}
	it.Outputs = x.placed
	x.look("at its end")
	x.reads(r, k)
	x.w.oracle.endsRun(x)
	if f := x.w.oracle.facts[k.Job]; len(readsLive(r)) > 0 {
		x.unheard = append(x.unheard, ended{f, r})
	}
	if len(r.Live) > 0 {
		x.live[r.ID] = r.Live
	}
	x.over(it)
}

func (x *executor) failed(kind comms.ErrorKind, text string) {
	if x.lease != nil {
		x.back = append(x.back, x.lease) // none of it was used
		x.lease = nil
	}
	x.dropsLive(x.cur)
	x.over(comms.ReportItem{Kind: comms.ReportFailed, Usage: x.usage(), Error: &comms.TaskError{Kind: kind, Message: text}})
}

func (x *executor) over(it comms.ReportItem) {
	if it.Kind == comms.ReportFinished && len(it.Outputs)+len(it.Counts)+len(x.back) == 0 && x.w.chance(700) {
		if len(x.ends) > 0 && x.first+comms.RunID(len(x.ends)) != x.cur.ID {
			x.tellEnds()
		}
		if len(x.ends) == 0 {
			x.first = x.cur.ID
		}
		x.ends = append(x.ends, *it.Usage)
		if len(x.queue) == 0 || x.w.chance(300) {
			x.tellEnds()
		}
	} else {
		x.item(it)
	}
	x.w.oracle.stopped(x)
	delete(x.credit, x.cur.ID)
	x.cur, x.held, x.cancel = nil, false, nil
}

func (x *executor) item(it comms.ReportItem) {
	it.Run, it.At = x.cur.ID, x.w.wall().UnixNano()
	items := []comms.ReportItem{it}
	for _, l := range x.back {
		items = append(items, comms.ReportItem{Kind: comms.ReportLeaseReturn, Lease: &comms.Lease{Segment: l.Segment, Offset: l.Offset, Size: l.Size}})
	}
	x.back = nil
	x.send(&comms.Report{Items: items})
}

// wordOf stands for the bytes of a dataset: every attempt makes the same.
func wordOf(job comms.JobID, ref comms.DatasetRef) string {
	return fmt.Sprintf("%x %d.%d[%d]", job[15:], ref.Task, ref.Output, ref.Element)
}

// output makes one dataset: inline, or in a lease that is asked for when there is none.
func (x *executor) output(k *comms.Kind, o uint32, element uint64) (comms.Desc, bool) {
	r := x.cur
	ref := comms.DatasetRef{Task: r.Task, Output: o, Element: element}
	var word string
	if k.Function != callee {
		word = x.word(k, ref)
	} else if word = wordOfCall(x.calls.sum, o, element); x.calls.ways.varies {
		word += fmt.Sprintf("%s%s.%d.%d", variesFrom, x.name, x.a.incarn, r.ID)
	}
	if k.Function == callee {
		if refs, suffix := x.refer("output", o, element); refs != nil {
			x.send(&comms.Listed{Run: r.ID, Output: o, Element: element, Refs: refs})
			word += suffix
		}
	}
	d := comms.Desc{Ref: ref, Attempt: r.Attempt, Codec: "raw", Size: uint64(len(word))}
	if k.Function != callee {
		x.w.oracle.makes(x, k.Job, &d)
	}
	return d, x.put(&d, word)
}
