package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/cascade-run/cascade/internal/pq"
)

// A line is the ready classes of all jobs that can take each other's place: they
// want executors of one pool and the same resources. When the first of a line
// finds no executor, none behind it does, so that a scheduling pass costs as much
// as there are lines, however many jobs wait.
//
// A line has a queue for each tenant and priority, because what a tenant has used
// changes with each run: then its queues move, and not all of its jobs.
type line struct {
	pool      *pool
	need      amounts
	generator bool

	at     int // in Core.lines
	queues pq.Queue[*queue, queueOrder]
	ready  int       // tasks in its classes
	calls  int       // of these, calls of this agent's tasks
	pass   uint64    // the scheduling pass in which it was found blocked
	short  time.Time // since when it lacks resources; zero when it does not
}

// queue is the classes of one tenant and priority in a line.
type queue struct {
	line     *line
	tenant   *tenant
	priority int64
	at       int // in the line
	classes  pq.Queue[*class, classOrder]
}

// sooner orders classes of different jobs: calls, deep ones first, because tasks that
// hold an executor and memory wait for them; priority, then the owner and the job
// that had the smallest share, then arrival.
func sooner(a, b *class) bool {
	x, y := a.job, b.job
	if x == y {
		return a.rows.Ref(0).before(b.rows.Ref(0))
	}
	return x.sooner(y) < 0
}

func (j *job) sooner(o *job) int {
	return cmp.Or(cmp.Compare(o.depth, j.depth), cmp.Compare(o.priority, j.priority), cmp.Compare(j.tenant.used, o.tenant.used), cmp.Compare(j.used, o.used),
		cmp.Compare(j.seq, o.seq))
}

// classOrder is that of the classes of one queue.
type classOrder struct{}

func (classOrder) Before(a, b *class) bool  { return sooner(a, b) }
func (classOrder) Placed(cl *class, at int) { cl.at = at }

// queueOrder is that of the queues of one line: by their first classes.
type queueOrder struct{}

func (queueOrder) Before(a, b *queue) bool { return sooner(a.classes.First(), b.classes.First()) }
func (queueOrder) Placed(q *queue, at int) { q.at = at }

// tenantOrder is that of the tenants with work: first the one that has had least.
type tenantOrder struct{}

func (tenantOrder) Before(a, b *tenant) bool { return a.used < b.used }
func (tenantOrder) Placed(o *tenant, at int) { o.at = at }

// offer has a class looked at in the next scheduling pass: it has ready tasks and stands in no line.
func (c *Core) offer(cl *class) {
	if cl.queue == nil && !cl.offered && cl.rows.Len() > 0 {
		cl.offered = true
		c.offered = append(c.offered, cl)
	}
}

// enlist puts the offered classes into their lines, where their jobs allow it
// and their environments are there. Others are offered again by what they wait for:
// a release, or the end of a build.
func (c *Core) enlist() {
	for len(c.offered) > 0 {
		cl := c.offered[0]
		c.offered = c.offered[1:]
		cl.offered = false
		if cl.rows.Len() == 0 || cl.job.held || cl.job.stopped != nil {
			continue
		}
		switch cl.env.state {
		case envUnknown:
			c.buildEnv(cl.env)
		case envBuilding:
		case envFailed:
			c.environmentFailed(cl, cl.env.err)
		case envReady:
			if !cl.job.session && !cl.door { // else its program takes it, or serveDoors
				c.join(cl)
			}
		}
	}
	c.offered = nil
}

// join puts a class into its line.
func (c *Core) join(cl *class) {
	l := c.lineOf(cl)
	l.count(cl, cl.size)
	o := cl.job.tenant
	for _, q := range o.queues {
		if q.line == l && q.priority == cl.job.priority {
			cl.queue = q
			q.classes.Push(cl)
			l.queues.Fix(q.at)
			return
		}
	}
	q := &queue{line: l, tenant: o, priority: cl.job.priority}
	cl.queue = q
	q.classes.Push(cl)
	o.queues = append(o.queues, q)
	l.queues.Push(q)
}

func (c *Core) lineOf(cl *class) *line {
	p := c.poolOf(cl)
	for _, l := range c.lines {
		if l.pool == p && l.generator == cl.generator && slices.Equal(l.need, cl.need) {
			return l
		}
	}
	l := &line{pool: p, need: cl.need, generator: cl.generator, at: len(c.lines)}
	c.lines = append(c.lines, l)
	return l
}

// count counts n more ready tasks of a class.
func (l *line) count(cl *class, n int) {
	if l.ready += n; cl.job.dyn != nil && cl.job.dyn.by != nil {
		l.calls += n
	}
}

// leave takes a class out of its line, and the line away with its last class. The
// class must still have its entries: others are compared with it.
func (c *Core) leave(cl *class) {
	q := cl.queue
	if q == nil {
		return
	}
	l := q.line
	cl.queue = nil
	l.count(cl, -cl.size)
	if q.classes.Len() > 1 {
		q.classes.Remove(cl.at)
		l.queues.Fix(q.at)
		return
	}
	l.queues.Remove(q.at)
	q.tenant.queues = slices.DeleteFunc(q.tenant.queues, func(o *queue) bool { return o == q })
	if l.queues.Len() == 0 {
		last := c.lines[len(c.lines)-1]
		c.lines[l.at], last.at = last, l.at
		c.lines[len(c.lines)-1] = nil
		c.lines = c.lines[:len(c.lines)-1]
	}
}

// leaveAll takes a job out of all lines, because it is held, stopped or changed.
func (c *Core) leaveAll(j *job) {
	for _, cl := range j.classes {
		c.leave(cl)
	}
}

func (c *Core) offerAll(j *job) {
	for _, cl := range j.classes {
		c.offer(cl)
	}
}

// push adds a row of ready tasks to a class.
func (c *Core) push(cl *class, r row) {
	cl.push(r)
	if cl.queue == nil {
		c.offer(cl)
		return
	}
	cl.queue.line.count(cl, int(r.n))
	cl.queue.classes.Fix(cl.at)
}

// pop takes the head of a class, which leaves its line with the last.
func (c *Core) pop(cl *class) entry {
	if cl.size == 1 {
		c.leave(cl)
	}
	e := cl.pop()
	if cl.queue != nil {
		cl.queue.line.count(cl, -1)
		cl.queue.classes.Fix(cl.at)
	}
	return e
}

// head returns the first entry that still is ready; entries of tasks that left
// this state on another way, or are ready in another class by now, are dropped when
// they come to the top.
func (c *Core) head(cl *class) (entry, bool) {
	for cl.rows.Len() > 0 {
		e := cl.rows.Ref(0).entry
		if j := cl.job; j.tasks[e.task].state == tReady && (j.enlarged == nil || j.ownGroup(e.task).class == cl) {
			return e, true
		}
		c.pop(cl)
	}
	return entry{}, false
}

// front returns the class of a line that should run next; nil when the line is
// empty, and gone.
func (c *Core) front(l *line) *class {
	for l.queues.Len() > 0 {
		cl := l.queues.First().classes.First()
		if _, ok := c.head(cl); ok {
			return cl
		}
	}
	return nil
}

// pick returns the class whose head should run next among those whose line was
// not found blocked in this pass.
func (c *Core) pick() (best *class) {
	for i := 0; i < len(c.lines); {
		l := c.lines[i]
		if l.pass != c.pass {
			cl := c.front(l)
			if cl == nil {
				continue // another has its place now
			}
			if best == nil || sooner(cl, best) {
				best = cl
			}
		}
		i++
	}
	return best
}

// charge books cpu seconds, predicted at dispatch and corrected at the end, to a job and its owner.
func (c *Core) charge(j *job, seconds float64) {
	if seconds == 0 {
		return
	}
	j.tenant.used += seconds / j.tenant.weight
	j.used += seconds
	for _, cl := range j.classes {
		if cl.queue != nil {
			cl.queue.classes.Fix(cl.at)
		}
	}
	for _, q := range j.tenant.queues {
		q.line.queues.Fix(q.at)
	}
	if j.active {
		c.busy.Fix(j.tenant.at)
	}
	c.fixTurn(j)
}

// begin counts a job as work of its owner. An owner without any until now begins
// with the share of the one that has had least, so that it neither waits for the
// others' past nor pays for it.
func (c *Core) begin(j *job) {
	j.over = false
	if j.active {
		return
	}
	j.active = true
	j.working = len(c.working)
	c.working = append(c.working, j)
	o := j.tenant
	if o.busy++; o.busy == 1 {
		if c.busy.Len() > 0 {
			o.used = max(o.used, c.busy.First().used)
		}
		c.fixTurn(j)
		c.busy.Push(o)
	}
}

// unwork takes a job out of those that have not drained.
func (c *Core) unwork(j *job) {
	if !j.active {
		return
	}
	j.active = false
	n := len(c.working) - 1
	last := c.working[n]
	c.working[j.working], last.working = last, j.working
	c.working[n] = nil
	c.working = c.working[:n]
}

// rest is the end of begin.
func (c *Core) rest(j *job) {
	c.unwork(j)
	o := j.tenant
	if o.busy--; o.busy == 0 {
		c.busy.Remove(o.at)
		o.used = 0
		c.fixTurn(j)
	}
}
