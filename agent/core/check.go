package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Check verifies every cross-reference of the state and returns the first that
// does not hold. Tests call it after each step; its cost grows with the state.
func (c *Core) Check() error {
	if err := c.checkExecutors(); err != nil {
		return err
	}
	if err := c.ctl.check(); err != nil {
		return err
	}
	if err := c.submits.check(); err != nil {
		return err
	}
	sealed, building := 0, 0
	for _, j := range c.jobs {
		building += j.building()
		if j.adopted {
			sealed += len(j.data)
			continue // without a graph there is nothing to compare with
		}
		if err := c.checkTasks(j); err != nil {
			return fmt.Errorf("job %s: %w", j.id, err)
		}
		if err := c.checkStreams(j); err != nil {
			return fmt.Errorf("job %s: %w", j.id, err)
		}
		for ref, d := range j.data {
			if want := j.countRefs(ref, d.given); d.refs != want {
				return fmt.Errorf("job %s: dataset %v has %d references, counted %d", j.id, ref, d.refs, want)
			}
			if d.refs == 0 && !j.keeps(d) {
				return fmt.Errorf("job %s: dataset %v is kept and not needed", j.id, ref)
			}
			if d.sealed && d.lent == nil {
				sealed++
				if _, ok := c.led.Dataset(j.key(d)); !ok {
					return fmt.Errorf("job %s: dataset %v is not in the ledger", j.id, ref)
				}
			}
		}
		if err := c.checkPeers(j); err != nil {
			return fmt.Errorf("job %s: %w", j.id, err)
		}
	}
	if building != c.building {
		return fmt.Errorf("%d environments are being built, counted %d", building, c.building)
	}
	if err := c.checkCalls(); err != nil {
		return err
	}
	if err := c.checkSessions(); err != nil {
		return err
	}
	if err := c.checkTurns(); err != nil {
		return err
	}
	return c.checkMemory(sealed)
}

// checkTurns compares who is to fetch next with what there is to be fetched.
func (c *Core) checkTurns() error {
	jobs := 0
	for i := range c.turns.Len() {
		t := c.turns.At(i)
		if t.at != i || t.jobs.Len() == 0 || i > 0 && (turnOrder{}).Before(t, c.turns.At((i-1)/2)) {
			return fmt.Errorf("tenant %d of those that fetch is out of order", i)
		}
		for k := range t.jobs.Len() {
			n := t.jobs.At(k)
			if n.at != k || &n.job.tenant.turn != t || n.heard.Len() == 0 || k > 0 && (needsOrder{}).Before(n, t.jobs.At((k-1)/2)) {
				return fmt.Errorf("job %s is out of order among those that fetch", n.job.id)
			}
		}
		jobs += t.jobs.Len()
	}
	for _, j := range c.jobs {
		if j.needs.heard.Len() > 0 {
			jobs--
		}
	}
	if jobs != 0 {
		return fmt.Errorf("%d more jobs count as fetching than have something to fetch", jobs)
	}
	return nil
}

// checkCalls compares what is known of calls that go from agent to agent, and what
// holds the results of those that are here.
func (c *Core) checkCalls() error {
	if err := c.checkRows(); err != nil {
		return err
	}
	for i, by := range c.waiters {
		if slices.Contains(c.waiters[:i], by) {
			return fmt.Errorf("job %s: task %d counts twice among those that wait for calls", by.job.id, by.task)
		}
	}
	out, guests, there, asked := map[*neighbour]int{}, map[*neighbour]int{}, map[*neighbour]int{}, map[*neighbour]int{}
	for id, at := range c.away {
		j, o := at.job, at.row().out
		if o == nil || o.grant != id || c.byJob[j.id] != j || j.at(at.task).state != tAway {
			return fmt.Errorf("call %s has ended, or is here, and counts as one of another agent", j.rowName(at.task))
		}
		out[o.host]++
		if o.counted {
			there[o.host]++
		}
		if o.asked {
			asked[o.host]++
		}
		if !o.host.up && o.host.missed.IsZero() {
			return fmt.Errorf("call %s waits for agent %s, whose link is not awaited", j.rowName(at.task), o.host.name)
		}
	}
	for k, at := range c.hosts {
		if c.byJob[at.job.id] != at.job || at.job.hosted() == nil || at.row().grant != k.grant || at.job.dyn.host.owner.name != k.owner {
			return fmt.Errorf("grant %d of agent %s is not among the jobs", k.grant, k.owner)
		}
		guests[at.job.dyn.host.owner]++
	}
	for _, s := range c.refs.open {
		out[s.host]++
	}
	for _, n := range c.neighbours {
		if n.out != out[n] || n.guests != guests[n] {
			return fmt.Errorf("agent %s has %d calls and has sent %d here, counted %d and %d", n.name, out[n], guests[n], n.out, n.guests)
		}
		if w := &n.window; w.there != there[n] || w.asked != asked[n] {
			return fmt.Errorf("agent %s has %d calls that go on, of which %d are asked back, counted %d and %d", n.name, there[n], asked[n], w.there, w.asked)
		}
		delete(out, n)
		delete(guests, n)
	}
	if len(out)+len(guests) > 0 {
		return fmt.Errorf("calls go to or come from agents that are not known")
	}
	for k, at := range c.copies {
		w := at.row()
		d := at.job.data[comms.DatasetRef{Task: at.task}]
		if c.byJob[at.job.id] != at.job || w.copyOf == nil || *w.copyOf != k || len(w.readers) == 0 && (d == nil || !d.sealed || c.loans[at.job.key(d)] == nil) {
			return fmt.Errorf("dataset %v of agent %s is kept, and no task reads it", k.of, k.from)
		}
	}
	return nil
}

// checkRows compares the rows of dynamic jobs with their callers, and what holds the datasets that
// they read in memory.
func (c *Core) checkRows() error {
	lent, deps := map[*loan]int{}, map[rowRef]uint32{}
	for _, j := range c.jobs {
		for _, d := range j.data {
			if d.lent != nil {
				lent[d.lent]++
			}
		}
		for t, by := range j.callers {
			if by.run == nil && j.at(t).state.over() && !by.left {
				return fmt.Errorf("job %s: task %d has ended, and what it has called goes on", j.id, t)
			}
			for ref, at := range by.calls.all {
				if c.byJob[at.job.id] != at.job || at.row().ref != ref || at.job.dyn.by != by || !at.row().value && at.row().shape == nil {
					return fmt.Errorf("job %s: task %d has call %v, which is not there", j.id, by.task, ref)
				}
			}
			for _, rd := range by.reads {
				if by.run == nil || rd.held && (c.requests[rd.req] == nil || !slices.Contains(by.run.more, rd.req)) {
					return fmt.Errorf("job %s: what call %v returned counts as held in memory for who calls, and is not", j.id, rd.ref)
				}
			}
		}
		if j.dyn == nil {
			continue
		}
		kept := 0
		for t := range j.dyn.rows.n {
			w := j.dyn.rows.at(taskIndex(t))
			if w.shape == nil && !w.value {
				continue
			}
			kept++
			for i := range w.args {
				if from := w.args[i].from; from != nil && from.row.job != nil {
					deps[from.row]++
				}
			}
		}
		if kept != j.dyn.kept {
			return fmt.Errorf("job %s: %d rows are kept, counted %d", j.id, kept, j.dyn.kept)
		}
	}
	if err := c.actors.check(&c.refs); err != nil {
		return err
	}
	if err := c.refs.check(c.byJob); err != nil {
		return err
	}
	if err := c.checkRemotes(); err != nil {
		return err
	}
	for _, j := range c.jobs {
		if j.dyn == nil || j.dropped {
			continue
		}
		if err := j.checkLineage(deps); err != nil {
			return fmt.Errorf("job %s: %w", j.id, err)
		}
	}
	for k, l := range c.loans {
		if l.n != lent[l] || l.key != k || l.n == 0 {
			return fmt.Errorf("dataset %v is lent to %d arguments, counted %d", k, lent[l], l.n)
		}
		if _, ok := c.led.Dataset(k); !ok && !l.lost {
			return fmt.Errorf("dataset %v is lent, and is not in memory", k)
		}
	}
	return nil
}

// checkPeers compares what a job knows of its other fragments.
func (c *Core) checkPeers(j *job) error {
	p := j.peers
	if p == nil {
		return nil
	}
	for ref, all := range p.out {
		if d := j.data[ref]; d == nil || d.copy || len(all) == 0 {
			return fmt.Errorf("dataset %v has %d agents that read it, and is not here or a copy", ref, len(all))
		}
	}
	for ref, d := range p.old {
		if _, found := c.dataset(j.key(d)); found != d {
			return fmt.Errorf("a copy of dataset %v waits to be told again, and is not found by its name", ref)
		}
	}
	flying, coming := map[taskIndex]int{}, map[taskIndex]uint32{}
	for ref, h := range p.heard {
		if h.expected {
			j.eachReader(ref, func(t taskIndex, whole bool) {
				if !whole {
					coming[t]++
				}
			})
		}
		if h.flying {
			flying[ref.Task]++
		}
		d := j.data[ref]
		switch {
		case (h.state == hearHere) != (d != nil && d.copy):
			return fmt.Errorf("dataset %v of a peer is in state %d, here: %v", ref, h.state, d != nil)
		case (h.state == hearRoom || h.state == hearPulled) != (h.pull != nil):
			return fmt.Errorf("dataset %v of a peer is in state %d, fetched: %v", ref, h.state, h.pull != nil)
		case (h.state == hearTold && !h.stale && j.stopped == nil) != h.queued:
			return fmt.Errorf("dataset %v of a peer is in state %d, to be fetched: %v", ref, h.state, h.queued)
		case !h.stale && h.flying == (h.state == hearHere):
			return fmt.Errorf("dataset %v of a peer is in state %d, on its way: %v", ref, h.state, h.flying)
		}
	}
	for t := range p.flying {
		if flying[t] != p.flying[t] {
			return fmt.Errorf("%d datasets of task %d are on their way, counted %d", p.flying[t], t, flying[t])
		}
	}
	if !maps.Equal(coming, p.coming) {
		return fmt.Errorf("tasks wait for %v datasets that are fetched, counted %v", coming, p.coming)
	}
	for i := range j.needs.heard.Len() {
		h := j.needs.heard.At(i)
		if h.at != i || h.rests || !h.queued || i > 0 && (heardOrder{}).Before(h, j.needs.heard.At((i-1)/2)) {
			return fmt.Errorf("dataset %v is to be fetched and out of order", h.desc.Ref)
		}
		if n := c.needOf(h); n.before(h.need) {
			return fmt.Errorf("dataset %v is needed as %v, and is to be fetched as %v", h.desc.Ref, n, h.need)
		}
	}
	for t, e := range p.ending {
		if e.how != 0 && flying[t] == 0 {
			return fmt.Errorf("task %d of a peer has ended, and its end was not announced", t)
		}
	}
	return nil
}

func (c *Core) checkMemory(sealed int) error {
	// The ledger may keep more datasets than jobs do: those freed while pinned.
	if s := c.led.Stats(); s.Datasets < sealed {
		return fmt.Errorf("%d datasets in the ledger, %d in jobs", s.Datasets, sealed)
	}
	leases := 0
	for _, ex := range c.execs {
		leases += len(ex.leases)
	}
	asked := 0
	for _, q := range c.requests {
		if q.lease != nil || q.pull != nil {
			asked++
		}
	}
	if s := c.led.Stats(); s.Leases < leases || s.Leases > asked {
		return fmt.Errorf("%d leases in the ledger, %d with executors, %d asked for", s.Leases, leases, asked)
	}
	return nil
}

func (c *Core) checkExecutors() error {
	free := slices.Clone(c.total)
	if b := c.reservation; b != nil {
		for k, n := range b.held {
			if !ofDevices(k) {
				free[k] -= n
			}
		}
	}
	runs, behind := 0, 0
	for _, ex := range c.execs {
		if c.byExec[ex.id] != ex || !slices.Contains(ex.pool.execs, ex) {
			return fmt.Errorf("executor %d is not in its tables", ex.id)
		}
		for i, r := range ex.queue {
			runs++
			if c.runs[r.id] != r || r.ex != ex {
				return fmt.Errorf("run %d of executor %d is not in the table of runs", r.id, ex.id)
			}
			if r.gs.generator && (i > 0 || len(ex.queue) > 1) {
				return fmt.Errorf("a generator shares executor %d", ex.id)
			}
			for k, n := range r.gs.need {
				if ex.grant[k] < n && !(k == resCPU && ex.held()) {
					return fmt.Errorf("run %d needs %d of resource %d, its executor was granted %d", r.id, n, k, ex.grant[k])
				}
			}
			if s := r.job.tasks[r.task].state; !r.orphan && s != tQueued && s != tRunning {
				return fmt.Errorf("run %d of task %d in state %d", r.id, r.task, s)
			}
			behind += len(r.rest)
			for _, s := range r.rest {
				if t := r.job.tasks[s.task]; t.state != tQueued || t.attempt != s.attempt || r.orphan {
					return fmt.Errorf("task %d waits in run %d as attempt %d, it is in state %d, attempt %d", s.task, r.id, s.attempt, t.state, t.attempt)
				}
			}
		}
		for k, n := range ex.grant {
			if ofDevices(k) {
				continue // see checkDevices
			}
			free[k] -= n
			if len(ex.queue) == 0 && n != 0 {
				return fmt.Errorf("executor %d is idle and holds %d of resource %d", ex.id, n, k)
			}
		}
	}
	for k := range free {
		if free[k] != c.free[k] || free[k] < 0 {
			return fmt.Errorf("%d of resource %d are free, counted %d", c.free[k], k, free[k])
		}
	}
	if err := c.checkDevices(); err != nil {
		return err
	}
	if behind != c.behind {
		return fmt.Errorf("%d tasks wait in runs, counted %d", c.behind, behind)
	}
	if runs += c.pinning + len(c.pinned); runs != len(c.runs) {
		return fmt.Errorf("%d runs in the table, counted %d", len(c.runs), runs)
	}
	return nil
}

func (c *Core) checkTasks(j *job) error {
	unended := 0
	active := map[taskIndex]int{}
	for _, r := range c.runs {
		if r.job == j && !r.orphan {
			active[r.task]++
			for _, s := range r.rest {
				active[s.task]++
			}
		}
	}
	waits := map[taskIndex]bool{}
	for _, cl := range j.classes {
		if err := checkLine(cl); err != nil {
			return err
		}
		for e := range cl.rows.All() {
			for i := range e.n {
				waits[e.task+taskIndex(i)] = true
			}
		}
	}
	for _, g := range j.gangs {
		for t := range g.ready {
			waits[t] = true
		}
		if g.complete() && !g.listed {
			return fmt.Errorf("the gang of task %d could start and waits for no turn", g.first)
		}
	}
	for i := range j.tasks {
		t, s := taskIndex(i), &j.tasks[i]
		if s.state != tAbsent && !s.state.over() {
			unended++
		}
		runs := 0
		switch s.state {
		case tPinning, tQueued, tRunning:
			runs = 1
		case tReady:
			if !waits[t] || s.missing != 0 {
				return fmt.Errorf("task %d is ready, in its class: %v, with %d inputs missing", t, waits[t], s.missing)
			}
		case tWaiting:
			missing, failed := c.countMissing(j, t)
			if missing != s.missing && !failed || missing == 0 && !failed && c.submits.of(rowRef{j, t}) == nil {
				return fmt.Errorf("task %d waits for %d inputs, counted %d", t, s.missing, missing)
			}
		case tAway:
			if j.dyn == nil || j.dyn.rows.at(t).out == nil && j.dyn.rows.at(t).copyOf == nil && !slices.Contains(c.strange, rowRef{j, t}) {
				return fmt.Errorf("task %d is away and no agent is to have it", t)
			}
		case tDelayed:
			if !slices.ContainsFunc(slices.Collect(c.delayed.All()), func(d delay) bool { return d.job == j && d.task == t }) {
				return fmt.Errorf("task %d is delayed for ever", t)
			}
		}
		if active[t] != runs {
			return fmt.Errorf("task %d in state %d has %d runs", t, s.state, active[t])
		}
	}
	if unended != j.unended {
		return fmt.Errorf("%d tasks have not ended, counted %d", j.unended, unended)
	}
	return nil
}

func (c *Core) checkStreams(j *job) error {
	for s := range j.slots {
		sl := &j.slots[s]
		n := j.countSlot(s)
		if n.ended != sl.ended || n.bad != sl.bad || n.released != sl.released {
			return fmt.Errorf("slot %d: %d instances ended, %d badly, %d committed; counted %d, %d, %d", s, sl.ended, sl.bad, sl.released, n.ended, n.bad, n.released)
		}
		if sl.bad > 0 && (!j.overAt(sl.badAt) || j.tasks[sl.badAt].state == tFinished) {
			return fmt.Errorf("slot %d: task %d is said not to have ended well", s, sl.badAt)
		}
	}
	for k, st := range j.streams {
		for e, n := range st.open {
			if want := j.openConsumers(comms.DatasetRef{Task: k.task, Output: k.output, Element: e}); want != n {
				return fmt.Errorf("element %d of output %d of task %d has %d unended consumers, counted %d", e, k.output, k.task, n, want)
			}
		}
	}
	return nil
}

// openConsumers counts the consumers of an element of their own that have not ended.
func (j *job) openConsumers(ref comms.DatasetRef) int {
	n := 0
	for i := range j.instances(ref) {
		if !j.overAt(i) {
			n++
		}
	}
	if j.peers != nil {
		for _, f := range j.peers.out[ref] {
			if j.counts(ref, f) {
				n++
			}
		}
	}
	for _, e := range ofElement(ofOutput(j.edgesOf(ref.Task), ref.Output), ref.Element) {
		if e.Kind == dag.SourceElement && !j.overAt(e.Consumer) && j.awayAt(e.Consumer) == nil {
			n++
		}
	}
	return n
}

// checkLine finds a class in its line, in order, or the reason why it is in none.
func checkLine(cl *class) error {
	j, q := cl.job, cl.queue
	size := 0
	for r := range cl.rows.All() {
		size += int(r.n)
	}
	if size != cl.size {
		return fmt.Errorf("%d tasks are ready, counted %d", cl.size, size)
	}
	if q == nil {
		if cl.rows.Len() > 0 && !cl.offered && !j.session && !cl.door && !j.held && j.stopped == nil && cl.env.state == envReady {
			return fmt.Errorf("%d ready tasks stand in no line", cl.rows.Len())
		}
		return nil
	}
	l := q.line
	if cl.rows.Len() == 0 || j.held || j.stopped != nil || q.classes.At(cl.at) != cl || l.queues.At(q.at) != q || q.priority != j.priority || q.tenant != j.tenant {
		return fmt.Errorf("a class with %d ready tasks stands in a wrong line", cl.rows.Len())
	}
	if cl.at > 0 && sooner(cl, q.classes.At((cl.at-1)/2)) || q.at > 0 && sooner(q.classes.First(), l.queues.At((q.at-1)/2).classes.First()) {
		return fmt.Errorf("a class stands behind one that comes later")
	}
	return nil
}
