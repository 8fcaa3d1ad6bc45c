package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

const (
	// starveAfter is how long small tasks may pass by one that lacks resources:
	// then nothing of what it lacks is given to others.
	starveAfter = 2 * time.Second
	// staleAfter is how long an executor may be silent before runs queued on it
	// are taken back for an idle one: work was predicted to take far less.
	staleAfter = time.Millisecond
	// secondRun: a second run is queued behind a first one that takes at most this many times SupplyFor.
	secondRun = 100
	// helloWithin is how long an executor may take to say hello.
	helloWithin = time.Minute
	// spawnTime is what starting an executor may take, in seconds: shorter waits are not worth it.
	spawnTime = 0.02
)

// schedule gives ready tasks to executors: best task first, to the executor that
// will be free first, as far as resources, limits and the supply time go.
func (c *Core) schedule() {
	c.pass++
	c.wake = time.Time{}
	c.tryMemoryAgain()
	c.retryDelayed()
	c.resumeHeld()
	c.placePinned()
	c.placeReady()
	c.spawnWanted()
	c.takeBack()
	c.endIdle()
	c.squeeze()
	c.unstick()
}

func (c *Core) placeReady() {
	c.enlist()
	var reserved amounts // of a starving line
	var aside []*class
	for !c.draining && c.kept+len(c.runs)+c.behind < c.cfg.EventsKept { // each run will end in an event
		cl := c.pick()
		if cl == nil {
			break
		}
		l := cl.queue.line
		if reserved != nil && overlaps(reserved, l.need) {
			l.pass = c.pass
			continue
		}
		if (c.pinning+len(c.pinned) >= c.cfg.MaxExecutors || c.growing()) && len(c.pinKeys(cl.job, cl.heap[0].task)) > 0 {
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
			if !l.short.IsZero() && c.now.Sub(l.short) >= starveAfter && reserved == nil {
				reserved = l.need
			}
			continue
		}
		l.short = time.Time{}
		if c.squeezed && len(ex.queue) > 0 && len(c.pinKeys(cl.job, cl.heap[0].task)) > 0 {
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

// missing notes why a line cannot go on: it lacks resources, or an executor.
func (c *Core) missing(l *line) {
	none := make(amounts, len(c.total))
	if !c.fits(none, l.need) {
		if l.short.IsZero() {
			l.short = c.now
		}
		return
	}
	l.short = time.Time{}
	c.couldUse(l, l.ready)
}

// couldUse notes that a line has work for n more executors, as far as the
// resources that are free can feed them.
func (c *Core) couldUse(l *line, n int) {
	p := l.pool
	n = min(n, c.cfg.MaxExecutors)
	for i, need := range l.need {
		if need > 0 {
			n = int(min(int64(n), c.free[i]/need))
		}
	}
	idle := 0
	for _, ex := range p.execs {
		if ex.state == exUp && len(ex.queue) == 0 {
			idle++ // it is there but cannot take more just now
		}
	}
	p.wanted = max(p.wanted, n-idle)
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
	if n == 0 {
		return c.fits(ex.grant, need)
	}
	if generator || ex.queue[n-1].gs.generator || ex.asked || ex.queue[0].abort != nil {
		return false // nothing waits behind a generator: it ends only when its consumers have run
	}
	return c.supplied(ex, ex.depth()) && c.fits(ex.grant, need)
}

// supplied tells whether an executor with so many tasks in its queue, at least
// one, should have one more.
func (c *Core) supplied(ex *executor, depth int) bool {
	supply := c.cfg.SupplyFor.Seconds()
	return depth < c.cfg.SupplyMax && !(ex.load >= supply && (depth >= 2 || ex.load >= secondRun*supply) || ex.load == 0 && depth >= 2)
}

// start takes the head of a class to an executor, with those that can follow it there.
func (c *Core) start(cl *class, ex *executor) {
	e := c.pop(cl)
	j := cl.job
	if why := j.groupOf(e.task).usable(j, ex.pool); why != "" {
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

// fill puts tasks of a group that nothing feeds and nothing reads behind the one
// that was queued: they go in one message, and come back in one. While others
// have work too, it is chosen anew after each task who is next.
func (c *Core) fill(r *run, cl *class, ex *executor) {
	if !r.gs.step || !r.gs.rooted || r.cause.Kind != comms.CauseSubmit || cl.queue == nil || len(c.lines) > 1 ||
		len(cl.queue.line.queues) > 1 || len(cl.queue.classes) > 1 {
		return
	}
	j, depth := r.job, ex.depth()
	most := (cl.size+len(ex.pool.execs))/len(ex.pool.execs) - 1 // the others are to have as many
	before := r.mean
	for ; most > 0 && !c.draining && c.supplied(ex, depth) && c.kept+len(c.runs)+c.behind < c.cfg.EventsKept; most-- {
		e, ok := c.head(cl)
		if !ok || e.by != noTask || e.task < r.gs.first || int(e.task-r.gs.first) >= r.gs.size || !c.lengthen(r, e.task, r.gs, 0) {
			break
		}
		c.pop(cl)
		depth++
	}
	c.charge(j, (r.mean-before)*float64(r.gs.need[resCPU])/1000)
	c.writeSteps(r, &ex.batch[len(ex.batch)-1])
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

// enqueue puts a run at the end of an executor's queue and writes its message.
func (c *Core) enqueue(r *run, ex *executor) bool {
	m, err := c.message(r, ex)
	if err != nil {
		c.dropRun(r)
		c.fail(r.job, r.task, nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: err.Error()}, r.cause, true)
		return false
	}
	r.ex = ex
	r.mean = r.gs.mean
	r.job.at(r.task).state = tQueued
	if len(ex.queue) == 0 {
		ex.heard = c.now
	}
	ex.queue = append(ex.queue, r)
	ex.load += r.mean
	c.cover(ex, r.gs.need)
	ex.batch = append(ex.batch, m)
	c.charge(r.job, r.mean*float64(r.gs.need[resCPU])/1000)
	if r.gs.generator {
		c.startCredit(r)
	}
	return true
}

// follow queues the successors of a run behind it before they are ready: a
// planned path as a whole, else the best successor as far as the supply goes. A
// successor waits for nothing but runs of this queue.
func (c *Core) follow(r *run, ex *executor) {
	j, depth, load := r.job, ex.depth(), ex.load
	defer func() { // those that became runs of their own are charged already
		c.charge(j, (ex.load-load)*float64(r.gs.need[resCPU])/1000)
	}()
	tail, gs := r.task, r.gs
	m := &ex.batch[len(ex.batch)-1]
	for !gs.generator && gs.read {
		next, planned := c.successor(j, tail, gs, ex)
		if next == noTask || planned && depth >= comms.MaxSteps ||
			!planned && (depth >= c.cfg.SupplyMax || depth >= 2 && (ex.load == 0 || ex.load >= c.cfg.SupplyFor.Seconds())) {
			break
		}
		var outputs, private []uint32
		e, one := j.oneEdge(tail)
		if one {
			outputs = gs.single(e.Output)
		} else {
			outputs = j.outputsTo(tail, next)
		}
		if planned {
			private = j.privateTo(tail, next, outputs)
		}
		if !r.keep(m, outputs, private) {
			break
		}
		behind := j.groupBehind(gs, next)
		if !one || !c.lengthen(r, next, behind, e.Output+1) {
			s := c.newRun(j, next, causeOf(tail, outputs[0]+1))
			s.live = true
			if !c.pin(s) || s.pinErr != nil || c.squeezed && s.pins != 0 { // not worth waiting for, or taken back at once
				c.dropRun(s)
				r.keep(m, nil, nil)
				break
			}
			c.writeSteps(r, m)
			before := ex.load
			if !c.enqueue(s, ex) {
				return
			}
			load += ex.load - before
			r, m = s, &ex.batch[len(ex.batch)-1]
		}
		tail, gs = next, behind
		depth++
	}
	c.writeSteps(r, m)
}

// successor returns the task that should follow one on its executor.
func (c *Core) successor(j *job, t taskIndex, gs *groupState, ex *executor) (next taskIndex, planned bool) {
	next = noTask
	want, hasPlan := noTask, false
	if int(t) < len(j.fuse) {
		want = j.fuse[t]
		hasPlan = want != noTask && j.tasks[t].flags&fUnfused == 0 && j.tasks[want].flags&fUnfused == 0
	}
	if hasPlan {
		if e, ok := j.oneEdge(t); ok && e.Consumer == want && c.canFollow(j, want, 1, gs, ex) {
			return want, true
		}
	}
	edges := j.edgesOf(t)
	for i, e := range edges {
		if e.Kind != dag.SourceWhole || int(e.Consumer) >= len(j.tasks) || j.tasks[e.Consumer].state != tWaiting {
			continue
		}
		if i > 0 && edges[i-1].Consumer == e.Consumer {
			continue
		}
		n := uint32(0)
		for _, f := range edges {
			if f.Consumer == e.Consumer && f.Kind == dag.SourceWhole {
				n++
			}
		}
		if !c.canFollow(j, e.Consumer, n, gs, ex) {
			continue
		}
		if hasPlan && e.Consumer == want {
			return want, true
		}
		if next == noTask || j.before(e.Consumer, next) < 0 {
			next = e.Consumer
		}
	}
	if hasPlan && !j.overAt(want) && next != want {
		return noTask, false
	}
	return next, false
}

// canFollow tells whether a task can be queued behind one of gs from which n edges lead to it.
func (c *Core) canFollow(j *job, t taskIndex, n uint32, gs *groupState, ex *executor) bool {
	if s := &j.tasks[t]; s.state != tWaiting || s.missing != n {
		return false
	}
	to := j.groupBehind(gs, t)
	return to.class.env == gs.class.env && !to.generator && to.unfit == "" && c.fits(ex.grant, to.need) && to.usable(j, ex.pool) == ""
}

// outputsTo lists the outputs of a task that one consumer reads.
func (j *job) outputsTo(t, consumer taskIndex) []uint32 {
	var out []uint32
	for _, e := range j.edgesOf(t) {
		if e.Consumer == consumer && !slices.Contains(out, e.Output) {
			out = append(out, e.Output)
		}
	}
	return out
}

// privateTo lists those of outputs that nobody but one consumer reads, now or later.
func (j *job) privateTo(t, consumer taskIndex, outputs []uint32) []uint32 {
	if e, ok := j.oneEdge(t); ok && e.Consumer == consumer && !j.wanted.has(j.graph, comms.DatasetRef{Task: t, Output: e.Output}) {
		return outputs
	}
	var out []uint32
	edges := j.edgesOf(t)
	for _, o := range outputs {
		alone := !j.wanted.has(j.graph, comms.DatasetRef{Task: t, Output: o}) && len(j.graph.SlotConsumers(t, o)) == 0
		for _, e := range ofOutput(edges, o) {
			alone = alone && e.Consumer == consumer
		}
		if alone {
			out = append(out, o)
		}
	}
	return out
}

// placePinned places runs whose inputs have come into memory.
func (c *Core) placePinned() {
	if c.draining {
		return
	}
	slices.SortFunc(c.pinned, func(a, b *run) int { return cmp.Compare(a.id, b.id) })
	for _, r := range slices.Clone(c.pinned) {
		i := slices.Index(c.pinned, r)
		if i < 0 { // the end of another one stopped its job
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
	for _, ex := range cl.env.pool.execs {
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
			cl.env.pool.wanted = max(cl.env.pool.wanted, 1)
		}
	}
	return best
}

// dispatch sends what this step has queued, one message for each executor unless
// it would be large.
func (c *Core) dispatch() {
	for _, ex := range c.execs {
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

// takeBack asks silent executors for half of what has not started on them when
// another one of their pool has nothing to do.
func (c *Core) takeBack() {
	for _, p := range c.pools {
		if !slices.ContainsFunc(p.execs, func(ex *executor) bool { return ex.state == exUp && len(ex.queue) == 0 && !ex.full }) {
			continue
		}
		for _, ex := range p.execs {
			if ex.asked || ex.state != exUp || !ex.spares() {
				continue
			}
			none := make(amounts, len(c.total))
			if !c.fits(none, ex.queue[len(ex.queue)-1].gs.need) {
				continue
			}
			if due := ex.heard.Add(staleAfter); due.After(c.now) {
				c.wakeAt(due)
				continue
			}
			for _, r := range slices.Clone(ex.queue) {
				if r.isRow() {
					c.unfold(r)
				}
			}
			movable := ex.movable()
			c.askBack(ex, movable[len(movable)/2:])
		}
	}
}

// movable lists the runs of an executor that could run elsewhere: not the first,
// and none that lives on values of the runs before it.
func (ex *executor) movable() []*run {
	var out []*run
	for i, r := range ex.queue {
		if i > 0 && !r.started && r.job.at(r.task).missing == 0 && !r.orphan {
			out = append(out, r)
		}
	}
	return out
}

// spares tells whether an executor has runs that could run elsewhere.
func (ex *executor) spares() bool {
	return len(ex.movable()) > 0 || slices.ContainsFunc(ex.queue, (*run).isRow)
}

func (c *Core) askBack(ex *executor, runs []*run) {
	if len(runs) == 0 {
		return
	}
	ids := make([]comms.RunID, len(runs))
	for i, r := range runs {
		ids[i] = r.id
		r.asked = true
	}
	ex.asked = true
	c.emit(ToExecutor{ex.id, &comms.TakeBack{Runs: ids}})
}

// recall asks for all runs of a job that have not started, but, where paths says
// so, the rest of a path that has.
func (c *Core) recall(ex *executor, j *job, paths bool) {
	c.unfoldAll(ex, j)
	var runs []*run
	begun := false // the run before is one that goes on
	for i, r := range ex.queue {
		begun = i == 0 && r.started || paths && begun && r.live
		if r.job == j && !r.asked && !begun {
			runs = append(runs, r)
		}
	}
	c.askBack(ex, runs)
}

// endIdle stops executors that nobody has used for long, but those of the default environment and folder.
func (c *Core) endIdle() {
	for _, ex := range slices.Clone(c.execs) {
		if ex.state != exUp || len(ex.queue) > 0 || ex.pool == c.pools[0] {
			continue
		}
		if due := ex.idle.Add(c.cfg.IdleAfter); due.After(c.now) {
			c.wakeAt(due)
			continue
		}
		c.stopExecutor(ex)
	}
}

// growing tells whether something that runs waits for memory.
func (c *Core) growing() bool {
	return c.squeezed && slices.ContainsFunc(c.execs, func(ex *executor) bool { return ex.wants > 0 && ex.state != exKilled })
}

// unpinPlaceless gives back the inputs of runs that no executor has taken yet: it
// may be the one that waits for this memory that they wait for.
func (c *Core) unpinPlaceless() {
	for _, r := range slices.Clone(c.pinned) {
		if i := slices.Index(c.pinned, r); i >= 0 && r.pinErr == nil && !r.orphan {
			c.pinned = slices.Delete(c.pinned, i, i+1)
			c.dropRun(r)
			r.job.at(r.task).state = tWaiting
			c.reassess(r.job, r.task, r.cause)
		}
	}
}

// squeeze gets memory back while requests wait for it: the inputs of runs that
// wait for an executor or are queued behind others, and what idle executors
// lease. The one way to the latter is to end them: a lease is its holder's until then.
func (c *Core) squeeze() {
	if !c.squeezed {
		return
	}
	if c.squeezed = c.led.Stats().Waiting > 0; !c.squeezed {
		return
	}
	if c.growing() {
		c.unpinPlaceless()
	}
	for _, ex := range c.execs {
		if ex.state == exUp && len(ex.queue) == 0 && len(ex.leases) > 0 {
			c.stopExecutor(ex)
			continue
		}
		c.askLease(ex)
		if ex.asked || ex.state == exKilled {
			continue
		}
		var pinned []*run
		for i, r := range ex.queue {
			if i > 0 && r.pins != 0 && !r.started {
				pinned = append(pinned, r)
			}
		}
		c.askBack(ex, pinned)
	}
}

// askLease asks a busy executor for the lease that its runs share: the run that
// waits for memory may be its own.
func (c *Core) askLease(ex *executor) {
	if ex.state != exUp || ex.recalled == c.lastReq {
		return
	}
	if slices.ContainsFunc(ex.leases, func(l *lease) bool { return l.shared }) {
		ex.recalled = c.lastReq
		c.emit(ToExecutor{ex.id, &comms.Lease{Error: "wanted"}})
	}
}

func (c *Core) wakeAt(t time.Time) {
	if c.wake.IsZero() || t.Before(c.wake) {
		c.wake = t
	}
}
