package core

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// An agent that was told to weigh says how much work waits here, when that has
// changed much and for long enough. Asked to spare some of it, it sets tasks aside
// that nothing of here needs soon: none of them begins before the controller has
// said whose they are, with an Assign or with the word to keep them.

// scales is when and how the agent says how much work waits.
type scales struct {
	every time.Duration // 0: not asked for
	told  weight        // what was said last
	since time.Time     // since when that is not so any more; zero: it is
	next  time.Time     // when to look again at the earliest
}

// weight is how much work waits, as exactly as it is worth a message.
type weight struct {
	said  bool
	free  int64
	level int // of the seconds until what waits has begun: doubled from one to the next
}

const (
	maxBacklogs = 16               // jobs of a LoadReport
	jobsAhead   = 256              // jobs that are looked at for it
	rowsAhead   = 64               // rows of a class after which its seconds are estimated
	levelZero   = time.Millisecond // of waiting time, below which all is alike
)

// weigh says from now on how much waits; a second word has it said anew.
func (c *Core) weigh(m *comms.LoadSubscribe) {
	c.scales = scales{every: max(time.Duration(m.Every), time.Microsecond)}
}

// tellBacklog says how much work waits, if that is another level than was said last,
// and has been for some time. It runs when nothing else is to do.
func (c *Core) tellBacklog() {
	s := &c.scales
	if s.every == 0 || !c.ctl.open || c.ctl.full || c.leaving != nil {
		return
	}
	if c.now.Before(s.next) {
		c.wakeAt(s.next)
		return
	}
	m, grows := c.backlog()
	now := c.weightOf(m)
	switch due := s.since.Add(s.every); {
	case now == s.told:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = c.now
		c.wakeAt(c.now.Add(s.every))
	case c.now.Before(due):
		c.wakeAt(due)
	default:
		s.told, s.since = now, time.Time{}
		c.emit(ToController{m})
	}
	s.next = c.now.Add(s.every / 2)
	if grows > 0 {
		c.wakeAt(c.now.Add(max(s.every, grows)))
	}
}

func (c *Core) weightOf(m *comms.LoadReport) weight {
	w := weight{said: true, free: m.Free}
	if len(m.Jobs) == 0 {
		return w
	}
	seconds := m.Busy
	for i := range m.Jobs {
		seconds += m.Jobs[i].Seconds
	}
	if wait := seconds / c.cores() / levelZero.Seconds(); wait >= 1 {
		w.level = 1 + int(math.Log2(wait))
	}
	return w
}

func (c *Core) cores() float64 { return float64(max(c.total[resCPU], 1)) / 1000 }

// backlog is what waits and what is free. grows is how old a guess is that rests on
// how long something runs by now; 0 when none does.
func (c *Core) backlog() (m *comms.LoadReport, grows time.Duration) {
	m = &comms.LoadReport{}
	m.Busy, grows = c.busyFor()
	ready := c.reservation != nil // what is free is held back for a gang, or soon is
	for _, j := range c.working[:min(len(c.working), jobsAhead)] {
		l := comms.JobLoad{Job: j.id, JobIncarnation: j.life, Epoch: j.epoch}
		for _, cl := range j.classes {
			ready = ready || cl.size > 0
			if j.stealable(cl) {
				seconds, age := c.secondsOf(cl)
				l.Tasks += uint64(cl.size)
				l.Seconds += seconds
				grows = max(grows, age)
			}
		}
		if l.Tasks > 0 {
			m.Jobs = append(m.Jobs, l)
		}
	}
	slices.SortStableFunc(m.Jobs, func(a, b comms.JobLoad) int { return cmp.Compare(b.Seconds, a.Seconds) })
	m.Jobs = m.Jobs[:min(len(m.Jobs), maxBacklogs)]
	if !ready && c.pinning == 0 && len(c.pulls) == 0 && c.delayed.Len() == 0 {
		m.Free = c.free[resCPU]
	}
	return m, grows
}

// busyFor predicts how many core seconds executors need for what they have. Of what
// nothing is known half is done.
func (c *Core) busyFor() (seconds float64, age time.Duration) {
	for _, ex := range c.execs {
		if len(ex.queue) == 0 || ex.state != exUp || ex.held() || ex.session != nil {
			continue
		}
		left := ex.load
		if r := ex.queue[0]; r.started {
			of := c.now.Sub(r.startedAt)
			left = max(0, left-of.Seconds())
			if r.mean == 0 {
				left, age = left+of.Seconds(), max(age, of)
			}
		}
		seconds += left * float64(max(ex.grant[resCPU], 1)) / 1000
	}
	return seconds, age
}

// stealable tells whether ready tasks of a class could run elsewhere. Calls run where
// their caller does.
func (j *job) stealable(cl *class) bool {
	return cl.size > 0 && !cl.generator && !j.session && !cl.door && !j.held && j.stopped == nil && !j.adopted && !j.dynamic()
}

// secondsOf predicts how many core seconds the ready tasks of a class take.
func (c *Core) secondsOf(cl *class) (seconds float64, age time.Duration) {
	n := 0
	for i := range min(cl.rows.Len(), rowsAhead) {
		r := cl.rows.At(i)
		mean, of := c.meanOf(cl.job.groupOf(r.task))
		seconds += mean * float64(r.n)
		n += int(r.n)
		age = max(age, of)
	}
	cores := float64(max(cl.need[resCPU], 1)) / 1000
	return seconds * cores * float64(cl.size) / float64(max(n, 1)), age
}

// meanOf predicts how many seconds a task of a group takes: of one of which
// nothing is known as long as one runs by now (age).
func (c *Core) meanOf(gs *groupState) (seconds float64, age time.Duration) {
	if gs.mean > 0 {
		return gs.mean, 0
	}
	for _, ex := range c.execs {
		if len(ex.queue) > 0 && ex.queue[0].started && ex.queue[0].gs == gs {
			age = max(age, c.now.Sub(ex.queue[0].startedAt))
		}
	}
	return age.Seconds(), age
}

// steal answers the controller's wish for tasks that others could begin sooner.
func (c *Core) steal(j *job, m *comms.StealRequest) {
	if m.Epoch != j.epoch || j.adopted {
		return // an Assign was faster
	}
	if m.Share <= 0 {
		c.keepAside(j)
		return
	}
	if c.leaving == nil && j.stopped == nil && !j.held && len(j.aside) == 0 {
		c.setAside(j, m)
	}
	c.tellAside(j)
}

func (c *Core) tellAside(j *job) {
	c.emit(ToController{&comms.StealReply{Job: j.id, JobIncarnation: j.life, Epoch: j.epoch, Tasks: rangesOf(j.aside)}})
}

// keepAside makes what was set aside the agent's own again.
func (c *Core) keepAside(j *job) {
	some := len(j.aside) > 0
	for _, t := range j.aside {
		if s := j.at(t); s.state == tAside {
			s.state = tWaiting
		}
	}
	j.aside = nil
	if some {
		c.recount(j)
	}
	c.scales.told = weight{} // what was said before is not of now
}

// giveAside gives up what was set aside: an Assign says whose it is, or how it has
// ended meanwhile at another agent.
func (c *Core) giveAside(j *job) {
	for _, t := range j.aside {
		if j.at(t).state == tAside {
			c.yield(j, t)
		}
	}
	j.aside = nil
	c.scales.told = weight{}
}

// yield gives up a task that was set aside. Its attempt has not begun, and the controller may
// not have heard of it: the next that it gives out may have the same number.
func (c *Core) yield(j *job, t taskIndex) {
	c.disown(j, t)
	j.at(t).attempt = 0
}

// setAside takes tasks out of the ready ones, from those on that would begin last.
func (c *Core) setAside(j *job, m *comms.StealRequest) {
	rows, all := c.rowsOf(j, m)
	busy, _ := c.busyFor()
	ahead, given, bytes := busy+all, 0.0, 0.0 // seconds before the next one; seconds and bytes of those that go
	for len(rows) > 0 {
		r := &rows[len(rows)-1]
		ahead -= r.seconds
		wait := ahead / c.cores()
		if given+r.seconds/2 > m.Share*all || wait < m.Least {
			break
		}
		r.n--
		t := r.task + taskIndex(r.n)
		if r.n == 0 {
			rows = rows[:len(rows)-1]
		}
		size := float64(j.bytesIn(t))
		if !c.movable(j, t) || (bytes+size)/m.Bandwidth > wait {
			continue
		}
		given, bytes = given+r.seconds, bytes+size
		for ; t != noTask; t = along(j.fuse, t) {
			j.at(t).state = tAside
			j.aside = append(j.aside, t)
		}
	}
	slices.Sort(j.aside)
	c.dropAside(j)
}

// leastSeconds stands for what a task takes of which nothing is known.
const leastSeconds = 1e-9

// waitingRow is a row of ready tasks with the core seconds that each is predicted to take.
type waitingRow struct {
	row
	seconds float64
}

// rowsOf lists the ready tasks of a job that another agent could run, in order,
// and sums up what they take.
func (c *Core) rowsOf(j *job, m *comms.StealRequest) (rows []waitingRow, seconds float64) {
	for _, cl := range j.classes {
		if !j.stealable(cl) {
			continue
		}
		cores := float64(max(cl.need[resCPU], 1)) / 1000
		for r := range cl.rows.All() {
			gs := j.groupOf(r.task)
			if int(r.task) >= j.static || !within(gs.group.Resources, cl.need, &m.Total) || !servedAt(m.Platform, j.declared(cl.env.name)) {
				continue
			}
			mean, _ := c.meanOf(gs)
			each := max(mean*cores, leastSeconds)
			rows = append(rows, waitingRow{r, each})
			seconds += each * float64(r.n)
		}
	}
	slices.SortFunc(rows, func(a, b waitingRow) int {
		if a.before(&b.row) {
			return -1
		}
		return 1
	})
	return rows, seconds
}

// servedAt tells whether an environment can be made on hosts of a platform; an unknown
// one is that of an agent which cannot read jobs that name platforms.
func servedAt(platform string, e *dag.Environment) bool {
	return e == nil || len(e.Binaries) == 0 || e.BinaryFor(platform) != ""
}

// within tells whether a host with such resources could run tasks that need these.
func within(of dag.Resources, need amounts, total *comms.Resources) bool {
	if need[resCPU] > total.CPU || need[resMemory] > total.Memory || need[resGPU] > total.GPU {
		return false
	}
	if want, all := demandOf(need), devicesOf(total); !want.none() && (!all.fits(want, 1) || want.memory > 0 && len(total.Devices) == 0) {
		return false // an agent that names no devices knows nothing of their memory
	}
	for name, n := range of.Custom {
		if !slices.ContainsFunc(total.Custom, func(a comms.Amount) bool { return a.Name == name && a.N >= n }) {
			return false
		}
	}
	return true
}

// movable tells whether a ready task may go, with all of its path: nothing of it
// lives on a value in an executor, it has not failed before, no more is held for it
// than its group says, nothing that it called is here, and no gang needs it here.
func (c *Core) movable(j *job, t taskIndex) bool {
	if _, own := j.enlarged[t]; own || j.groupOf(t).ganged() || j.at(t).state != tReady || j.dynamic() || j.trouble[t] != nil || j.callers[t] != nil || along(j.fused, t) != noTask {
		return false
	}
	for t = along(j.fuse, t); t != noTask; t = along(j.fuse, t) {
		if _, own := j.enlarged[t]; own || j.at(t).state != tWaiting || j.groupOf(t).ganged() {
			return false
		}
	}
	return true
}

// bytesIn is how many bytes of datasets a task reads that are here.
func (j *job) bytesIn(t taskIndex) (n uint64) {
	if j.groupOf(t).rooted {
		return 0
	}
	ins, err := j.inputs(t)
	if err != nil {
		return 0
	}
	for i := range ins {
		for _, s := range ins[i].Sources {
			if s.Kind == dag.SourceStream || s.Kind == dag.SourceGroup {
				return math.MaxInt64 // of many: they stay where those are
			}
			if d := j.data[comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element}]; d != nil {
				n += d.desc.Size
			}
		}
	}
	return n
}

// dropAside takes out of the classes what was set aside.
func (c *Core) dropAside(j *job) {
	if len(j.aside) == 0 {
		return
	}
	c.leaveAll(j)
	for _, cl := range j.classes {
		old := cl.clear()
		for _, r := range old {
			for r.n > 0 {
				stays, n := j.at(r.task).state == tReady, uint32(1)
				for n < r.n && (j.at(r.task+taskIndex(n)).state == tReady) == stays {
					n++
				}
				if stays {
					cl.push(row{r.entry, n, r.priority, r.rank})
				}
				r.task, r.n = r.task+taskIndex(n), r.n-n
			}
		}
	}
	c.offerAll(j)
}
