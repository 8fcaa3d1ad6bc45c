package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// A run that waits for calls releases its cpu, and gets it again before it is told to go
// on. A result may have to come into memory first, where it stays until the
// run ends or drops the call. A run that gives up a wait says so by the next one, which
// is for nothing when it only wants its cpu again.

// callWait is what a run waits for.
type callWait struct {
	number uint64
	refs   []comms.CallRef // none: for any
	least  uint64          // items of CallEnds that it is to have been told
	n      int             // calls of refs that are to have ended
	out    bool            // it is for methods of actors too, which end without this core
}

// callRead is a dataset that a run wants in memory.
type callRead struct {
	by   *caller
	ref  comms.CallRef
	data comms.DatasetRef
	desc comms.Desc
	req  ledger.RequestID
	held bool // it is there
}

// waits takes a run's word that it waits.
func (c *Core) waits(ex *executor, m *comms.CallWait) {
	r := c.runAt(ex, m.Run)
	if r == nil || r.orphan {
		return
	}
	c.startedRun(r)
	by := c.callerOf(r)
	if by.wait != nil && m.Wait <= by.wait.number {
		c.misbehaved(r, fmt.Errorf("its wait %d comes behind its wait %d", m.Wait, by.wait.number))
		return
	}
	w := &callWait{number: m.Wait, refs: slices.Clone(m.Refs), least: m.Seen + m.N, n: int(min(m.N, uint64(len(m.Refs)))), out: m.Outside}
	if by.wait == nil && ex.session == nil && c.waitingRuns() >= c.cfg.MaxWaiting && !c.satisfied(by, w) {
		c.emit(ToExecutor{ex.id, &comms.CallGo{Run: r.id, Wait: m.Wait, Error: &comms.TaskError{Kind: comms.ErrorTask, Task: r.job.taskName(r.task), Agent: c.cfg.Agent,
			Message: fmt.Sprintf("%d tasks of agent %s wait for tasks that they called, each in a process of its own, which is the limit of its host: call less deeply, or wait for fewer at once", c.cfg.MaxWaiting, c.cfg.Agent)}}})
		return
	}
	by.wait = w
	c.waiters = append(slices.DeleteFunc(c.waiters, func(o *caller) bool { return o == by }), by) // what was answered last stays until the next pass
}

// satisfied tells whether a run has what it waits for.
func (c *Core) satisfied(by *caller, w *callWait) bool {
	if len(w.refs) == 0 {
		return by.told >= w.least
	}
	n := 0
	for _, ref := range w.refs {
		at, ok := by.calls.get(ref)
		if !ok || at.row().line.again || at.job.at(at.task).state.over() && !slices.Contains(c.rowsEnded, at) {
			n++
		}
	}
	return n >= w.n
}

// awaits tells whether a run waits for calls.
func (r *run) awaits() bool { return r.caller != nil && r.caller.wait != nil }

// waitingRuns counts the runs that have released their cpu and wait for calls. The program of a session had none.
func (c *Core) waitingRuns() (n int) {
	for _, by := range c.waiters {
		if by.run != nil && by.wait != nil && by.run.ex.session == nil {
			n++
		}
	}
	return n
}

// lastWait returns since when the last of the runs waits that wait for calls.
func (c *Core) lastWait() (last time.Time) {
	for _, by := range c.waiters {
		if by.run != nil && by.run.back && by.run.backAt.After(last) {
			last = by.run.backAt
		}
	}
	return last
}

// answerCallers lets the runs go on that have what they wait for, in each scheduling pass,
// as soon as there is a cpu for them.
func (c *Core) answerCallers() {
	c.waiters = slices.DeleteFunc(c.waiters, func(by *caller) bool { return by.run == nil || by.wait == nil })
	for _, by := range slices.Clone(c.waiters) {
		c.answerCaller(by)
	}
}

func (c *Core) answerCaller(by *caller) {
	r := by.run
	if r.ex.state == exKilled {
		return // it is not told how its calls end, and must not go on
	}
	if c.satisfied(by, by.wait) {
		if r.back {
			if !c.fits(r.ex.grant, r.gs.need) {
				return
			}
			r.back = false
			c.cover(r.ex, r.gs.need)
		}
		c.unplaced = false
		c.sendEnds(by)
		c.emit(ToExecutor{r.ex.id, &comms.CallGo{Run: r.id, Wait: by.wait.number}})
		by.wait = nil
		return
	}
	c.unfold(r)
	switch ex := r.ex; {
	case len(ex.queue) > 1: // it would wait as long, and needs the cpu then
		if !ex.asked {
			c.unfoldAll(ex, nil)
			c.askBack(ex, ex.queue[1:])
		}
	case !r.back:
		r.back, r.backAt = true, c.now
		c.regrant(ex)
	}
}

// reads takes a run's word that it wants what a call returned in memory.
func (c *Core) reads(ex *executor, m *comms.CallRead) {
	r := c.runAt(ex, m.Run)
	if r == nil || r.orphan {
		return
	}
	c.startedRun(r)
	by := c.callerOf(r)
	rd := &callRead{by: by, ref: m.Ref, data: comms.DatasetRef{Output: m.Output, Element: m.Element}}
	at, ok := by.calls.get(m.Ref)
	if !ok {
		c.answerRead(rd, &comms.TaskError{Kind: comms.ErrorInput, Agent: c.cfg.Agent, Message: fmt.Sprintf("call %d of strand %x was dropped, or was never made", m.Ref.Number, m.Ref.Strand)})
		return
	}
	rd.data.Task = at.task
	switch old := by.readOf(m.Ref, rd.data); {
	case old == nil:
		c.read(rd, at)
	case old.held:
		c.answerRead(old, nil)
	}
}

// read brings a dataset of a call into memory for the run that has called it. One that is gone is waited for: the call runs again.
func (c *Core) read(rd *callRead, at rowRef) {
	by := rd.by
	d := at.job.data[rd.data]
	if d == nil || rd.data.Output >= argBase {
		c.readGone(rd, at)
		return
	}
	if rd.desc = d.desc; !d.sealed {
		rd.held = true
		by.forgetRead(rd)
		c.answerRead(rd, nil)
		return
	}
	by.keepRead(rd)
	rd.req = c.lastReq + 1
	by.run.more = append(by.run.more, rd.req)
	c.ask(&request{read: rd}, ledger.Request{Owner: by.run.owner(), Class: ledger.Start, Pins: []ledger.Key{at.job.key(d)}})
	c.effects()
}

// readGone follows when a run wants to read what is not there.
func (c *Core) readGone(rd *callRead, at rowRef) {
	by, w := rd.by, at.row()
	over := at.job.at(at.task).state.over()
	why := "there is no such dataset"
	switch {
	case w.failed != nil:
		why = w.failed.Text()
	case rd.data.Output >= argBase || !at.makes(rd.data.Output, rd.data.Element):
	case !over && !w.line.again && w.shape.group.Outputs[rd.data.Output].Generate == dag.GenerateNone:
		why = "it has not ended"
	default:
		if why = c.recompute(at); why == "" || c.restartParent(by, why) {
			by.keepRead(rd)
			return
		}
	}
	by.forgetRead(rd)
	c.answerRead(rd, &comms.TaskError{Kind: comms.ErrorStore, Task: at.job.taskName(at.task), Agent: c.cfg.Agent,
		Message: fmt.Sprintf("output %d[%d] of %s cannot be read: %s", rd.data.Output, rd.data.Element, at.job.taskName(at.task), why)})
}

// waits tells whether what a run wants to read is yet to come.
func (rd *callRead) waits() bool { return !rd.held && rd.req == 0 }

// of tells whether a dataset is of a row: others may have had the name of its call.
func (rd *callRead) of(at rowRef) bool {
	named, _ := rd.by.calls.get(rd.ref)
	return named == at
}

// readOn goes on with what waits for a call: it has ended, or has published an element again.
func (c *Core) readOn(at rowRef) {
	over := at.job.at(at.task).state.over()
	for _, rd := range slices.Clone(at.job.dyn.by.reads) {
		if rd.waits() && rd.of(at) && (over || at.job.data[rd.data] != nil) {
			c.read(rd, at)
		}
	}
}

func (by *caller) keepRead(rd *callRead) {
	if !slices.Contains(by.reads, rd) {
		by.reads = append(by.reads, rd)
	}
}

func (by *caller) forgetRead(rd *callRead) {
	by.reads = slices.DeleteFunc(by.reads, func(o *callRead) bool { return o == rd })
}

func (by *caller) readOf(ref comms.CallRef, data comms.DatasetRef) *callRead {
	i := slices.IndexFunc(by.reads, func(o *callRead) bool { return o.ref == ref && o.data == data })
	if i < 0 {
		return nil
	}
	return by.reads[i]
}

// readGranted takes the word that what a run wants to read is in memory.
func (c *Core) readGranted(rd *callRead, p ledger.Place) {
	if rd.by.run == nil || !slices.Contains(rd.by.reads, rd) {
		return // who reads it has ended in this step
	}
	rd.held = true
	rd.desc.Place = comms.Place{Kind: comms.PlaceSegment, Segment: uint32(p.Segment), Offset: uint64(p.Offset)}
	c.announce(rd.by.run.ex, p.Segment)
	c.answerRead(rd, nil)
}

// readAgain follows when the bytes of a dataset are gone that a run wants in memory.
func (c *Core) readAgain(at rowRef, ref comms.DatasetRef) {
	by := at.job.dyn.by
	for _, rd := range slices.Clone(by.reads) {
		if !rd.of(at) || rd.data != ref || rd.held || rd.waits() {
			continue
		}
		by.run.more = slices.DeleteFunc(by.run.more, func(id ledger.RequestID) bool { return id == rd.req })
		delete(c.requests, rd.req)
		if err := c.led.Release(rd.req); !errors.Is(err, ledger.ErrUnknown) { // it may have failed by now
			c.must(err)
		}
		rd.req = 0
		c.read(rd, at)
	}
}

// readFailed takes the word that it cannot be had.
func (c *Core) readFailed(rd *callRead, why string) {
	by := rd.by
	if by.run == nil || !slices.Contains(by.reads, rd) {
		return
	}
	by.forgetRead(rd)
	c.answerRead(rd, &comms.TaskError{Kind: comms.ErrorStore, Agent: c.cfg.Agent, Message: "what a call returned cannot be read: " + why})
}

func (c *Core) answerRead(rd *callRead, e *comms.TaskError) {
	end := comms.CallEnd{Ref: rd.ref, Read: true, Error: e}
	if e == nil {
		end.Outputs = []comms.Desc{rd.desc}
	} else {
		end.Outputs = []comms.Desc{{Ref: rd.data}}
	}
	c.tellCaller(rd.by, end)
}

// endReads lets go of what a run holds in memory of a call that it drops.
func (c *Core) endReads(by *caller, at rowRef) {
	by.reads = slices.DeleteFunc(by.reads, func(rd *callRead) bool {
		if rd.ref != at.row().ref {
			return false
		}
		by.run.more = slices.DeleteFunc(by.run.more, func(id ledger.RequestID) bool { return id == rd.req })
		if c.requests[rd.req] != nil {
			delete(c.requests, rd.req)
			c.must(c.led.Release(rd.req))
		}
		return true
	})
	c.effects()
}

// hasMemory tells whether the run of an executor leases memory, or has results of its calls there.
func (ex *executor) hasMemory() bool {
	return len(ex.leases) > 0 || slices.ContainsFunc(ex.queue, func(r *run) bool { return len(r.more) > 0 })
}

// stuckRead returns the first read that waits for memory; nil when none does.
func (c *Core) stuckRead() *callRead {
	for _, by := range c.waiters {
		for _, rd := range by.reads {
			if by.run != nil && !rd.held && !rd.waits() {
				return rd
			}
		}
	}
	return nil
}

// unplaceOthers takes back the tasks beside calls that wait for memory, or that have
// it and no executor. It tells whether there were any.
func (c *Core) unplaceOthers() bool {
	var runs []*run
	for _, r := range c.runs {
		if r.ex == nil && !r.job.dynamic() && !r.orphan {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.id, b.id) })
	for _, r := range runs {
		if t := r.job.at(r.task); t.state == tPinning {
			c.dropUnplaced(r.job, r.task)
			t.state = tWaiting
			c.reassess(r.job, r.task, r.cause)
		}
	}
	return len(runs) > 0
}

// stuckCalls fails a call that needs more than the tasks that wait for it leave,
// when nothing else can move: a core, memory for its inputs, or for its result.
func (c *Core) stuckCalls() {
	if len(c.waiters) == 0 || slices.ContainsFunc(c.execs, func(ex *executor) bool { return ex.wants > 0 || ex.state == exKilled }) {
		return
	}
	if slices.ContainsFunc(c.waiters, func(by *caller) bool { return by.run != nil && by.wait != nil && by.wait.out }) {
		return // it may go on
	}
	tasks := c.waitingRuns() > 0 // else programs alone wait, which have memory and nothing else
	if tasks && c.sendBackStuck() {
		return
	}
	if !c.unplaced && c.unplaceOthers() { // once, and then a call is to blame
		c.unplaced = true
		c.wakeAt(c.now)
		return
	}
	goesOn := c.goesOnAway()
	if c.refuseStuck() || goesOn && !c.awaitedAway() { // with what comes back others go on
		return
	}
	var first *run
	for _, r := range c.runs {
		if r.job.dynamic() && r.ex == nil && r.job.at(r.task).state == tPinning && (first == nil || r.id < first.id) {
			first = r
		}
	}
	if first != nil {
		j, t := first.job, first.task
		c.dropUnplaced(j, t)
		c.fail(j, t, nil, &comms.TaskError{Kind: comms.ErrorMemory, Message: "there is no room for its inputs beside those of the tasks that wait for calls"}, comms.Cause{Kind: comms.CauseMemory}, true)
		return
	}
	if c.resultStuck(goesOn) {
		return
	}
	if rd := c.stuckRead(); rd != nil {
		c.cancelRead(rd)
		c.readFailed(rd, "there is no room for it beside the inputs of the tasks that wait for calls")
		return
	}
	if tasks {
		c.failStuck()
	}
}

// cancelRead takes the wish of a run back to have a dataset in memory.
func (c *Core) cancelRead(rd *callRead) {
	if c.requests[rd.req] != nil {
		delete(c.requests, rd.req)
		c.must(c.led.Release(rd.req))
		c.effects()
	}
}

// failStuck fails the first call that needs more than those leave who wait.
func (c *Core) failStuck() {
	none := make(amounts, len(c.total))
	for _, j := range c.jobs {
		if !j.dynamic() {
			continue
		}
		for _, cl := range j.classes {
			if e, ok := c.head(cl); ok && (c.unplaced || !c.fits(none, cl.need)) {
				c.fail(j, e.task, nil, &comms.TaskError{Kind: comms.ErrorSetup,
					Message: "it needs more than the tasks that wait for calls leave on this agent: let it, or them, ask for less"},
					comms.Cause{Kind: comms.CauseTask}, true)
				return
			}
		}
	}
}
