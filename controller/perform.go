package controller

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/failpoint"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// perform does one action. It never waits.
func (c *Controller) perform(a core.Action) {
	switch a := a.(type) {
	case core.Send:
		c.send(a)
	case core.CloseLink:
		if p := c.peers[a.Link]; p != nil {
			c.log.Warn().Str("peer", p.link.Peer().Name).Str("why", a.Why).Msg("link is closed")
			p.link.Abort(errors.New(a.Why))
		}
	case core.Prepare:
		if ev, ok := c.graphs.prepared(&a, time.Now(), c.blobs.all); ok {
			c.local = append(c.local, ev)
			return
		}
		c.slow(func() { c.prepare(a) })
	case core.Improve:
		c.improve(a)
	case core.Warn:
		c.warn(a)
	case core.Differs:
		c.counts.differs.Add(uint64(a.Datasets))
		c.log.Warn().Stringer("job", a.Job).Str("name", a.Name).Int("datasets", a.Datasets).Msg(a.Text)
	case core.Create:
		done := &creation{c, a.Token, a.Row.ID, a.Row.Name, a.Row.Totals.Tasks, ""}
		if len(a.Graph) > inlineGraph {
			done.blob = a.Row.GraphHash
		}
		c.sizes[a.Token] = c.store.Create(&a.Row, a.Request, a.Graph, done.created)
	case core.Store:
		if a.Commit.Batch != nil {
			failpoint.Hit("controller.received")
		}
		done := &commit{c: c, token: a.Token, job: a.Commit.Job, row: a.Commit.Row, graph: a.Graph}
		if a.Commit.Batch != nil {
			done.events = a.Commit.Batch.Events
			done.moved, done.restarted, done.reason = tasksOf(a.Commit.Batch.Moved), tasksOf(a.Commit.Batch.Reset), a.Reason
		}
		c.sizes[a.Token] = c.store.Commit(a.Commit, done.committed)
		if b := a.Commit.Batch; b != nil && len(b.Lost) > 0 {
			c.restarted(a.Commit.Job, b)
		}
	case core.Measured:
		c.measured(a)
	case core.GaveUp:
		c.givenUp(a.Agent, time.Now())
	case core.StoreAgent:
		c.store.PutAgent(&a.Row, c.mustStore)
	case core.Delete:
		c.store.Delete(a.Job, func(err error) {
			c.mustStore(err)
			c.done(core.Stored{Token: a.Token})
		})
	case core.Ask:
		c.ask(a)
	case core.Wake:
		c.timer.Reset(max(0, time.Until(a.At)))
	default:
		panic(fmt.Sprintf("controller: unknown action %T", a))
	}
}

// slow runs work beside the loop, a few at a time.
func (c *Controller) slow(f func()) {
	c.work.Go(func() {
		select {
		case c.slots <- struct{}{}:
		case <-c.quit:
			return
		}
		defer func() { <-c.slots }()
		f()
	})
}

// mustStore ends the controller when a write failed: going on would acknowledge
// what is not durable.
func (c *Controller) mustStore(err error) {
	if err != nil && !errors.Is(err, gcs.ErrClosed) {
		c.log.Error().Err(err).Msg("the store has failed")
		c.fail(err)
	}
}

// creation is what is left to do when a job is stored, or was refused. It holds
// no more than that: many may be under way.
type creation struct {
	c     *Controller
	token uint64
	job   comms.JobID
	name  string
	tasks uint64
	blob  comms.Hash // that brought the graph; the store has it now
}

func (d *creation) created(err error) {
	ev := core.Stored{Token: d.token}
	if err != nil {
		ev.Err, ev.Code = err.Error(), comms.CodeUnavailable
		if !errors.Is(err, gcs.ErrNoSpace) {
			d.c.mustStore(err)
		}
	} else {
		d.c.counts.submitted.Add(1)
		if log := d.c.log.Info(); log != nil {
			log.Stringer("job", d.job).Str("name", d.name).Uint64("tasks", d.tasks).Msg("job is stored")
		}
		d.c.blobs.remove(d.blob)
	}
	d.c.inbox.Put(ev) // the store says when all of a group are there
}

// commit is the same for a change of a job.
type commit struct {
	c         *Controller
	token     uint64
	job       comms.JobID
	row       *records.Job
	graph     *dag.Graph
	events    []comms.Event
	moved     uint64 // tasks that were reassigned
	restarted uint64 // tasks that were restarted
	reason    core.RestartReason
}

func (d *commit) committed(err error) {
	if err != nil {
		d.c.mustStore(err)
		return
	}
	failpoint.Hit("controller.stored")
	d.c.counts.moved.Add(d.moved)
	d.c.counts.restarted[d.reason].Add(d.restarted)
	if d.graph != nil && len(d.events) > 0 {
		if d.c.record(d.job, d.graph, d.events, d.row != nil && d.row.Phase.Final()) {
			d.c.done(core.Departed{Job: d.job})
		}
	}
	if d.row != nil && d.row.Phase.Final() {
		d.c.counts.ended(d.row.Phase)
		if d.c.audit.file != nil {
			d.c.audit.log.Log().Str("what", "end").Stringer("job", d.row.ID).Str("name", d.row.Name).Str("tenant", d.row.Tenant).
				Str("outcome", d.row.Phase.String()).Send()
		}
		if log := d.c.log.Info(); log != nil {
			log.Stringer("job", d.row.ID).Str("name", d.row.Name).Stringer("phase", d.row.Phase).Msg("job has ended")
		}
	}
	d.c.inbox.Put(core.Stored{Token: d.token}) // as above
}

// record feeds what durable events say of costs into the profiles: at the end of
// the job, or when it is of many tasks. It tells whether tasks of a job that goes on
// take so much longer or less than was thought that it should be planned again.
func (c *Controller) record(id comms.JobID, g *dag.Graph, events []comms.Event, final bool) (departed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.samples[g]
	if of == nil {
		of = &costs{seen: make([]uint8, len(g.Groups))}
		c.samples[g] = of
	}
	if of.drift == nil {
		of.drift = c.newDrift(g)
	}
	near, finished := 0, uint64(0)
	defer func() { c.counts.finished.Add(finished) }()
	add := func(t dag.TaskIndex, u *comms.Usage) {
		finished++
		near = g.GroupNear(t, near)
		of.memory.ended(id, g, near, t, u)
		if of.drift != nil {
			of.drift.add(near, float64(u.Duration)/1e9)
		}
		if of.wants(near, t) {
			of.samples = append(of.samples, sample{near, sampleOf(u)})
		}
	}
	cut := func(e *comms.Event) {
		if e.Error != nil && e.Error.Kind == comms.ErrorMemory && e.Usage != nil && e.Usage.PeakRSS > 0 {
			of.samples = append(of.samples, sample{g.GroupIndex(e.Task), profiles.Sample{Memory: float64(e.Usage.PeakRSS), Cut: true}})
		}
	}
	ends := c.ends
	for i := range events {
		switch e := &events[i]; {
		case e.Kind == comms.EventRetry:
			c.counts.retried.Add(1)
			of.memory.grew(id, g, e)
			cut(e)
		case e.Kind == comms.EventFailed:
			c.counts.failedTasks.Add(1)
			cut(e)
		case e.Kind == comms.EventFinished && e.Usage != nil:
			add(e.Task, e.Usage)
		case e.Kind == comms.EventCall:
			c.counts.countCall(of, e)
		case e.Kind == comms.EventSteps:
			ends, _ = comms.ReadEnds(e.Steps, ends[:0]) // what cannot be read counts for nothing
			for k := range ends {
				add(ends[k].Task, &ends[k].Usage)
			}
		}
	}
	c.ends = ends
	departed = !final && of.drift != nil && of.drift.departed(g)
	if final {
		of.drift = nil // the next job with the graph has its own
	}
	// The costs of ended jobs are folded in when a client asks for profiles, or there are
	// many of them: for many jobs with one graph that is done once.
	if of.ended = of.ended || final; len(of.samples)+of.calls.n < maxSamples {
		return departed
	}
	c.foldAll(g, of)
	c.saveProfiles(100_000)
	return departed
}

// foldEnded takes what ended jobs cost, and all called tasks, into the profiles: a session may
// go on for long. c.mu is held.
func (c *Controller) foldEnded() {
	for g, of := range c.samples {
		if of.ended {
			c.foldAll(g, of)
		} else {
			c.dirty += of.calls.fold(c.book, g.Name)
		}
	}
}

// foldAll takes what is known of the tasks of a graph into the profiles.
func (c *Controller) foldAll(g *dag.Graph, of *costs) {
	c.fold(g, of.samples)
	c.dirty += of.calls.fold(c.book, g.Name)
	if of.samples = of.samples[:0]; of.ended {
		of.memory.fold(c.book, g)
		delete(c.samples, g)
	}
}

func sampleOf(u *comms.Usage) profiles.Sample {
	s := profiles.Sample{Seconds: float64(u.Duration) / 1e9, Bytes: float64(u.BytesOut), Memory: float64(u.PeakRSS), In: float64(u.BytesIn)}
	if u.Duration > 0 {
		s.CPU = float64(u.CPU) / float64(u.Duration)
	}
	return s
}

// costs is what is known of the tasks of a graph and not in the profiles yet.
type costs struct {
	ended   bool // a job with the graph has: the samples are of whole jobs
	samples []sample
	seen    []uint8 // of each group, up to manySamples
	drift   *drift  // nil of jobs that are not planned again
	memory  memories
	calls   callCosts
}

// A mean looks back on 50 runs: of a group that has had more some are enough.
const (
	manySamples = 64
	oneIn       = 64 // of the tasks after those
)

// wants tells whether what a task cost is to be recorded. Which of the later ones
// are depends on their indices as if by chance: the tasks of a group may come in any order.
func (cs *costs) wants(group int, t dag.TaskIndex) bool {
	if cs.seen[group] < manySamples {
		cs.seen[group]++
		return true
	}
	const golden = 0x9E3779B1 // 2^32 over the golden ratio: Knuth, The Art of Computer Programming 3, 6.4
	return uint32(t)*golden < 1<<32/oneIn
}

// maxSamples is how many runs of one job wait to be folded into the profiles.
const maxSamples = 1 << 15

// fold takes samples of a job into the profiles. c.mu is held.
func (c *Controller) fold(g *dag.Graph, samples []sample) {
	groups := byGroup(len(g.Groups), samples)
	for len(groups) > 0 {
		n := 1
		for n < len(groups) && groups[n].group == groups[0].group {
			n++
		}
		version := c.versionOf(g, groups[0].group)
		c.book.RecordAll(planner.SignatureOf(g, groups[0].group), func(yield func(profiles.Sample) bool) {
			for i := range groups[:n] {
				s := groups[i].Sample
				if s.Version = version; !yield(s) {
					return
				}
			}
		})
		groups = groups[n:]
	}
	c.dirty += len(samples)
}

// versionOf is planner.VersionOf, remembered for the last graph: the same comes
// again and again. c.mu is held.
func (c *Controller) versionOf(g *dag.Graph, group int) uint64 {
	if c.versioned != g {
		c.versioned, c.versions = g, make([]uint64, len(g.Groups))
	}
	if c.versions[group] == 0 {
		c.versions[group] = planner.VersionOf(g, group)
	}
	return c.versions[group]
}

// sample is what a task of a group cost.
type sample struct {
	group int
	profiles.Sample
}

// byGroup orders samples by group, those of one group as they came: a profile is
// looked up once for many of them.
func byGroup(groups int, samples []sample) []sample {
	at := make([]int, groups+1)
	for i := range samples {
		at[samples[i].group+1]++
	}
	for i := range groups {
		at[i+1] += at[i]
	}
	out := make([]sample, len(samples))
	for i := range samples {
		k := &at[samples[i].group]
		out[*k] = samples[i]
		*k++
	}
	return out
}

// saveProfiles stores the profiles when more than so many runs are not in the
// store. c.mu is held; storing does not wait.
func (c *Controller) saveProfiles(moreThan int) {
	if c.dirty > moreThan {
		c.dirty = 0
		c.store.PutProfiles(c.book.Dirty(), c.mustStore)
	}
}

// saveAll stores what is known of costs, also of jobs that go on.
func (c *Controller) saveAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g, of := range c.samples {
		c.foldAll(g, of)
	}
	clear(c.samples)
	c.saveProfiles(0)
	c.saveLinks(0)
}

// snapshot is what is known of the tasks of a graph.
func (c *Controller) snapshot(g *dag.Graph) profiles.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.foldEnded()
	return c.book.SnapshotOf(signatures(g))
}

// prepare decodes and plans a graph, and reads the past of its job.
func (c *Controller) prepare(a core.Prepare) {
	ev := core.Prepared{Token: a.Token, Job: a.Job, Graph: a.Graph}
	err := c.prepareGraph(&a, &ev)
	if err == nil && a.Submit != nil {
		err = c.claim(&ev)
	}
	if err == nil && a.Past {
		ev.Past, err = c.past(a.Job, ev.Graph)
	}
	if err == nil && a.Resume != nil {
		ev.Earlier, err = c.earlier(ev.Graph, ev.Past.Request.Contents, a.Resume)
	}
	if err == nil {
		plan := planner.Order
		if c.cfg.Spread {
			plan = planner.Spread
		}
		ev.Plan, err = plan(ev.Graph, c.snapshot(ev.Graph), a.Cluster)
	}
	if err == nil && a.Submit != nil {
		ev.Plan = c.graphs.better(a.Submit.GraphHash, ev.Plan, &a.Cluster)
		c.graphs.keep(a.Submit.GraphHash, &ev, a.Cluster, time.Now())
	}
	if err != nil {
		ev.Err = err.Error()
		if ev.Code == comms.CodeOK {
			ev.Code = comms.CodeInternal
		}
	}
	c.done(ev)
}

// claim looks whether the packages of a submit are here; from then on they wait
// for it to be stored.
func (c *Controller) claim(ev *core.Prepared) error {
	hashes := core.PackagesOf(ev.Graph)
	missing := c.blobs.missing(hashes)
	if len(missing) == 0 {
		return nil
	}
	ev.Code = comms.CodeNotFound
	first := ev.Graph.Packages()[slices.Index(hashes, missing[0])]
	return fmt.Errorf("submit: %d packages are not here, send them first: %s", len(missing), first)
}

func (c *Controller) prepareGraph(a *core.Prepare, ev *core.Prepared) (err error) {
	switch {
	case a.Submit != nil:
		if ev.Graph, ev.Bytes = c.graphs.decoded(a.Submit.GraphHash); ev.Graph != nil {
			return nil
		}
		ev.Code = comms.CodeBadRequest
		if ev.Bytes = a.Submit.Graph; len(ev.Bytes) == 0 {
			if ev.Bytes, err = c.graphByHash(a.Submit.GraphHash); err != nil {
				if ev.Code = comms.CodeNotFound; !errors.Is(err, gcs.ErrNotFound) {
					ev.Code = comms.CodeInternal
				}
				return fmt.Errorf("submit: the graph is not here, send it first: %w", err)
			}
		}
	case a.Graph != nil:
		return nil
	default:
		if ev.Bytes, err = c.store.Graph(a.Job); err != nil {
			return err
		}
	}
	if ev.Graph, err = c.cfg.Graphs.Decode(ev.Bytes); err != nil {
		return fmt.Errorf("graph: %w", err)
	}
	ev.Code = comms.CodeOK
	return nil
}

// graphByHash returns an encoded graph that was sent as a blob, or that an earlier job had.
func (c *Controller) graphByHash(h comms.Hash) ([]byte, error) {
	b, err := c.blobs.read(h)
	if errors.Is(err, fs.ErrNotExist) {
		return c.store.GraphByHash(h)
	}
	return b, err
}

// past reads a job's past after everything that was stored for it before.
func (c *Controller) past(job comms.JobID, g *dag.Graph) (*core.Past, error) {
	if err := c.barrier(job); err != nil {
		return nil, err
	}
	d, err := c.store.Load(job)
	if err != nil {
		return nil, err
	}
	r := core.NewReplay(g, true)
	for b, err := range c.store.Batches(job) {
		if err != nil {
			return nil, err
		}
		r.Add(&b)
	}
	return &core.Past{Row: d.Row, Request: d.Request, States: r.States, Data: r.Data(), Seen: d.Seen, Batches: r.Batches, Given: r.Given}, nil
}

// barrier waits until all that was stored for a job before is durable. That may take long on a full
// disk, so slow work gives its slot to others meanwhile.
func (c *Controller) barrier(job comms.JobID) error { return c.barrierUntil(job, nil) }

// barrierUntil is barrier, which a closed channel ends.
func (c *Controller) barrierUntil(job comms.JobID, end <-chan struct{}) error {
	done := make(chan error, 1)
	c.store.Barrier(job, func(err error) { done <- err })
	select {
	case <-c.slots:
		defer func() { c.slots <- struct{}{} }()
	default: // while jobs are loaded there is no slow work
	}
	select {
	case err := <-done:
		return err
	case <-end:
		return nil
	case <-c.quit: // a full disk may hold the store's writes up for longer than we live
		return gcs.ErrClosed
	}
}

// load brings every agent and every job out of the store into the core.
func (c *Controller) load() error {
	agents, err := c.store.Agents()
	if err != nil {
		return fmt.Errorf("load agents: %w", err)
	}
	for _, row := range agents {
		c.step(core.Known{Row: row})
	}
	kept, err := c.store.Kept()
	if err != nil {
		return fmt.Errorf("load datasets: %w", err)
	}
	for row, err := range c.store.Jobs() {
		if err != nil {
			return fmt.Errorf("load jobs: %w", err)
		}
		ev := core.Loaded{Row: row}
		if row.Phase.Final() {
			if data := kept[row.ID]; data != nil {
				ev.Past = &core.Past{Data: data}
			}
		} else if err := c.loadActive(&ev); err != nil {
			return fmt.Errorf("load job %s: %w", row.ID, err)
		}
		c.step(ev)
	}
	c.step(core.Started{})
	return nil
}

func (c *Controller) loadActive(ev *core.Loaded) (err error) {
	if ev.Bytes, err = c.store.Graph(ev.Row.ID); err != nil {
		return err
	}
	if ev.Graph, err = c.cfg.Graphs.Decode(ev.Bytes); err != nil {
		return err
	}
	if ev.Past, err = c.past(ev.Row.ID, ev.Graph); err != nil {
		return err
	}
	ev.Request = ev.Past.Request
	c.log.Info().Stringer("job", ev.Row.ID).Str("name", ev.Row.Name).Uint64("open", ev.Past.States.Open()).Msg("job goes on")
	return nil
}
