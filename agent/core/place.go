package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

const (
	// starveAfter is how long small tasks may pass by one that lacks resources:
	// then nothing of what it lacks is given to others.
	starveAfter = 2 * time.Second
	// staleAfter is how long an executor may be silent before runs queued on it
	// are taken back for an idle one: work was predicted to take far less.
	staleAfter = time.Millisecond
	// secondRun: a second run is queued behind a first one that takes at most this many times supplyFor,
	// as predicted and as measured: a stopped executor does not answer when it is asked to return runs.
	secondRun = 40
	// helloWithin is how long an executor may take to say hello.
	helloWithin = time.Minute
	// spawnTime is what starting an executor may take, in seconds: shorter waits are not worth it.
	spawnTime = 0.02
)

// schedule gives ready tasks to executors: best task first, to the executor that
// will be free first, as far as resources, limits and the supply time go.
func (c *Core) schedule() {
	c.pass++
	c.owed = nil
	c.wake = time.Time{}
	c.tryMemoryAgain()
	c.retryDelayed()
	yielded := c.yieldReservation()
	c.answerCallers()
	c.resumeHeld()
	c.dropEarly()
	c.startPulls()
	c.serveSubmits()
	c.answerRecalls()
	c.placePinned()
	if !yielded {
		c.startGangs()
	}
	c.placeReady()
	if yielded {
		c.startGangs()
	}
	c.serveSessions()
	c.forwardCalls()
	c.relieve()
	c.spawnWanted()
	c.reclaimRuns()
	c.freeQueued()
	c.endIdle()
	c.squeeze()
	c.unstick()
	c.sayMusters()
}

func (c *Core) placeReady() {
	c.enlist()
	reserved := c.lacking() // of a gang
	var starving amounts    // what a line needs that has waited for long
	var aside []*class
	for c.leaving == nil && c.ctl.kept+len(c.runs)+c.behind < c.cfg.EventsKept { // each run will end in an event
		cl := c.pick()
		if cl == nil {
			break
		}
		l := cl.queue.line
		if reserved != nil && overlaps(reserved, l.need) || starving != nil && !c.leaves(starving, l.need) {
			l.pass = c.pass
			continue
		}
		if !cl.job.dynamic() && (c.pinning+len(c.pinned) >= c.cfg.MaxExecutors || c.growing()) && len(c.pinKeys(cl.job, cl.rows.Ref(0).task)) > 0 {
			// As many wait for memory as could run, or who runs does; more would only push
			// each other out. No executor is missed: it would have nothing to do.
			c.leave(cl)
			aside = append(aside, cl)
			continue
		}
		ex := c.choose(l)
		if ex == nil {
			l.pass = c.pass
			c.missing(l)
			if !l.short.IsZero() && c.now.Sub(l.short) >= starveAfter && reserved == nil && starving == nil {
				starving = c.claim(l)
			}
			continue
		}
		l.short = time.Time{}
		if c.squeezed && len(ex.queue) > 0 && len(c.pinKeys(cl.job, cl.rows.Ref(0).task)) > 0 {
			c.couldUse(l, 1) // behind another it would only be taken back: see squeeze
			c.leave(cl)
			aside = append(aside, cl)
			continue
		}
		if len(ex.queue) > 0 && (ex.load == 0 || ex.load >= spawnTime) {
			c.couldUse(l, 1) // behind another, perhaps for long, while resources are free
		}
		c.start(cl, ex)
	}
	for _, cl := range aside {
		c.offer(cl)
	}
}

func overlaps(a, b amounts) bool {
	for i := range a {
		if a[i] > 0 && b[i] > 0 {
			return true
		}
	}
	return false
}

// claim is what others have to leave a line that has waited for long: all that its tasks
// need, but devices only while those are not there. A task that waits for a device needs no core.
func (c *Core) claim(l *line) amounts {
	if c.meets(demandOf(l.need), 1) {
		return l.need
	}
	claim := make(amounts, len(l.need))
	claim[resGPU] = l.need[resGPU]
	return claim
}

// leaves tells whether what is free is enough for a need beside what a starving line has to
// get. Devices it gets before others.
func (c *Core) leaves(starving, need amounts) bool {
	for i := range need {
		if starving[i] > 0 && need[i] > 0 && (ofDevices(i) || c.free[i]-need[i] < starving[i]) {
			return false
		}
	}
	return true
}

// missing notes why a line cannot go on: it lacks resources, or an executor.
func (c *Core) missing(l *line) {
	none := make(amounts, len(c.total))
	if !c.fits(none, l.need) {
		if l.short.IsZero() {
			l.short = c.now
		}
		return
	}
	c.couldUse(l, l.ready)
	if !l.awaitsDevices() {
		l.short = time.Time{}
	} else if l.short.IsZero() {
		l.short = c.now
	}
}

// couldUse notes that a line has work for n more executors, as far as the
// resources that are free can feed them.
func (c *Core) couldUse(l *line, n int) {
	p := l.pool
	n = min(n, c.cfg.MaxExecutors)
	for i, need := range l.need {
		if need > 0 && !ofDevices(i) {
			n = int(min(int64(n), c.free[i]/need))
		}
	}
	idle := 0
	for _, ex := range p.execs {
		if ex.state == exUp && len(ex.queue) == 0 && !ex.crew {
			idle++ // it is there but cannot take more just now
		}
	}
	c.want(p, n-idle)
}

// choose returns the executor that the next run of a line should go to: the one
// whose queue ends first among those that may take one more.
func (c *Core) choose(l *line) *executor {
	var best *executor
	for _, ex := range l.pool.execs {
		if ex.state != exUp || ex.full || !c.takesMore(ex, l.generator, l.need) {
			continue
		}
		if best == nil || len(ex.queue) == 0 && len(best.queue) > 0 || (len(ex.queue) == 0) == (len(best.queue) == 0) && ex.load < best.load {
			best = ex
		}
	}
	return best
}

// takesMore tells whether an executor may get one more run.
func (c *Core) takesMore(ex *executor, generator bool, need amounts) bool {
	n := len(ex.queue)
	if ex.crew {
		return false
	}
	if n == 0 {
		return c.fits(ex.grant, need)
	}
	if generator || ex.queue[0].awaits() || ex.queue[n-1].gs.generator || ex.queue[n-1].gang != nil || ex.asked || ex.queue[0].abort != nil {
		return false // nothing waits behind a generator: it ends only when its consumers have run
	}
	if c.now.Sub(ex.turn) >= secondRun*supplyFor {
		return false
	}
	depth := ex.depth()
	if depth >= 2 && len(ex.batch) == 0 && ex.load > supplyFor.Seconds()/2 {
		return false // it gets several in one message when half of what it has is done
	}
	return c.supplied(ex, depth) && c.fits(ex.grant, need)
}

// supplied tells whether an executor with so many tasks in its queue, at least
// one, should have one more.
func (c *Core) supplied(ex *executor, depth int) bool {
	supply := supplyFor.Seconds()
	return depth < supplyMax && !(ex.load >= supply && (depth >= 2 || ex.load >= secondRun*supply) || ex.load == 0 && depth >= 2)
}

// start takes the head of a class to an executor, with those that can follow it there.
func (c *Core) start(cl *class, ex *executor) {
	e := c.pop(cl)
	j := cl.job
	if why := c.usable(j, j.groupOf(e.task), ex.pool); why != "" {
		c.fail(j, e.task, nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: why}, j.cause(e), true)
		return
	}
	r := c.newRun(j, e.task, j.cause(e))
	if !c.pin(r) {
		c.waitForPins(r)
		return
	}
	if r.pinErr != nil {
		c.pinFailed(r)
		return
	}
	if !c.enqueue(r, ex) {
		return
	}
	if r.gs.read {
		c.follow(r, ex)
	} else {
		c.fill(r, cl, ex)
	}
}

// waitForPins puts a run aside whose inputs must first come into memory.
func (c *Core) waitForPins(r *run) {
	if r.pinErr != nil {
		c.pinFailed(r)
		return
	}
	r.job.at(r.task).state = tPinning
	c.pinning++
}

// mostBatched bounds for how many runs room is made before they are there.
const mostBatched = 256

// enqueue puts a run at the end of an executor's queue and writes its message.
func (c *Core) enqueue(r *run, ex *executor) bool {
	m, err := c.message(r, ex)
	if err != nil {
		c.dropRun(r)
		c.fail(r.job, r.task, nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: err.Error()}, r.cause, true)
		return false
	}
	if r.job.dynamic() {
		c.asking.since = c.now
	}
	r.ex = ex
	r.mean = r.gs.mean
	r.job.at(r.task).state = tQueued
	if len(ex.queue) == 0 {
		ex.heard, ex.turn = c.now, c.now
	}
	ex.queue = append(ex.queue, r)
	ex.load += r.mean
	c.cover(ex, r.gs.need)
	if ex.batch == nil { // as large as the last one, at first
		ex.batch = make([]comms.Run, 0, max(ex.batched, 1))
	}
	ex.batch = append(ex.batch, m)
	c.charge(r.job, r.mean*float64(r.gs.need[resCPU])/1000)
	if r.gs.generator {
		c.startCredit(r)
	}
	return true
}

// placePinned places runs whose inputs have come into memory.
func (c *Core) placePinned() {
	if c.leaving != nil {
		return
	}
	slices.SortFunc(c.pinned, func(a, b *run) int { return cmp.Compare(a.id, b.id) })
	for _, r := range slices.Clone(c.pinned) {
		i := slices.Index(c.pinned, r)
		if lack := c.lacking(); lack != nil && overlaps(lack, r.gs.need) && r.pinErr == nil {
			continue
		}
		if i < 0 || r.gs.ganged() { // the end of another one stopped its job; or it starts with its gang
			continue
		}
		ex := c.chooseFor(r)
		if ex == nil && r.pinErr == nil {
			continue
		}
		c.pinned = slices.Delete(c.pinned, i, i+1)
		if r.pinErr != nil {
			c.pinFailed(r)
		} else {
			c.enqueue(r, ex)
		}
	}
}

// dropUnplaced forgets the runs of a job, or of one task of it, that no executor has yet.
func (c *Core) dropUnplaced(j *job, only taskIndex) {
	var runs []*run
	for _, r := range c.runs {
		if r.job == j && r.ex == nil && (only == noTask || r.task == only) {
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, func(a, b *run) int { return cmp.Compare(a.id, b.id) })
	for _, r := range runs {
		if i := slices.Index(c.pinned, r); i >= 0 {
			c.pinned = slices.Delete(c.pinned, i, i+1)
		} else {
			c.pinning--
		}
		c.dropRun(r)
	}
}

func (c *Core) chooseFor(r *run) *executor {
	var best *executor
	cl := r.gs.class
	p := c.poolOf(cl)
	for _, ex := range p.execs {
		if c.squeezed && len(ex.queue) > 0 {
			continue // it would be taken back: see squeeze
		}
		if ex.state == exUp && !ex.full && c.takesMore(ex, cl.generator, cl.need) && (best == nil || ex.load < best.load) {
			best = ex
		}
	}
	if best == nil {
		none := make(amounts, len(c.total))
		if c.fits(none, cl.need) {
			c.want(p, 1)
		}
	}
	return best
}

// dispatch sends what this step has queued, one message for each executor unless
// it would be large.
func (c *Core) dispatch() {
	for _, ex := range c.execs {
		if len(ex.batch) > 0 {
			ex.batched = min(len(ex.batch), mostBatched)
			c.sendClosing(ex)
		}
		for len(ex.batch) > 0 {
			n := dispatchable(ex.batch)
			c.emit(ToExecutor{ex.id, &comms.Dispatch{Runs: ex.batch[:n:n]}})
			ex.batch = ex.batch[n:]
		}
		ex.batch = nil
	}
}

// A message to an executor is bounded. Small inputs travel in it, and a run may
// have many of them.
const (
	dispatchBytes = 32 << 20  // of inputs, after which another message begins
	maxRunBytes   = 256 << 20 // of one run's; an executor takes twice as much
	descBytes     = 64        // what a dataset takes besides its bytes, about
)

// dispatchable is how many runs go into the next message, at least one.
func dispatchable(runs []comms.Run) int {
	size := 0
	for i := range runs {
		if size += inputBytes(&runs[i]); size > dispatchBytes && i > 0 {
			return i
		}
	}
	return len(runs)
}

// inputBytes is about what the inputs of a run take in a message.
func inputBytes(r *comms.Run) (n int) {
	for _, in := range r.Inputs {
		for i := range in.Data {
			n += descBytes + len(in.Data[i].Place.Bytes)
		}
	}
	return n
}

// endIdle stops executors that were not used for long, but those of the default environment and folder; those beyond
// the limit, which gangs and generators that were held back bring, after spareAfter: the next may want them at once.
func (c *Core) endIdle() {
	for _, ex := range slices.Clone(c.execs) {
		if ex.state != exUp || len(ex.queue) > 0 || ex.crew {
			continue
		}
		wait := idleAfter
		switch {
		case c.counted() > c.cfg.MaxExecutors:
			wait = spareAfter
		case ex.pool == c.pools[0]:
			continue
		}
		if due := ex.idle.Add(wait); due.After(c.now) {
			c.wakeAt(due)
			continue
		}
		c.stopExecutor(ex)
	}
}

func (c *Core) wakeAt(t time.Time) {
	if c.wake.IsZero() || t.Before(c.wake) {
		c.wake = t
	}
}
