package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// poolKey says which executors can take each other's place.
type poolKey struct {
	env, dir string
	devices  demand
}

// pool is the executors of one environment and folder, with what they have of devices.
type pool struct {
	key      poolKey
	base     *pool // the one without devices; nil for that itself
	execs    []*executor
	warm     int                                                     // executors to have also without work
	wanted   int                                                     // executors that the last scheduling pass missed
	failures int                                                     // starts in a row that led to nothing
	funcs    dag.Functions                                           // nil until the first Hello, then they do not change
	check    func(g *dag.Group, where string) (message, hint string) // of funcs
	fits     map[*dag.Group]struct{}                                 // that were found to fit funcs: many jobs have the same graph
	ask      bool                                                    // a job wants to know funcs before its tasks are ready
}

// execState is where an executor stands. Idle and busy are told apart by its queue.
type execState uint8

const (
	exStarting execState = iota // spawned, no Hello yet
	exUp
	exStopping // asked to end
	exKilled   // its process is being ended; its memory is not free before it is known dead
)

// executor is one worker process.
type executor struct {
	id      comms.ExecutorID
	pool    *pool
	state   execState
	full    bool
	hello   *Spawned
	greeted bool    // it said Hello
	queue   []*run  // sent, in order; the first holds the grant
	grant   amounts // what queue[0], or any run behind it, needs at most
	holds   holding // its devices, for its life
	load    float64 // predicted seconds of the queue
	heard   time.Time
	turn    time.Time // since when queue[0] is the first: it began then at the earliest
	crew    bool      // kept for a gang, or a program: it gets nothing else
	session *session  // of the program that it is; nil of a process that the agent started
	idle    time.Time // since when the queue is empty
	kinds   map[uint32]bool
	closing []uint32          // kinds that it may forget, when it is told something else
	segs    map[uint32]uint64 // size under which each segment was announced
	leases  []*lease
	// recalled is the latest request when its shared lease was asked back.
	recalled ledger.RequestID
	wants    int         // its requests for memory that wait
	asked    bool        // a Reclaim is not answered yet
	batch    []comms.Run // to be sent at the end of this step
	batched  int         // runs in the last batch
	why      string      // why it was killed
}

// held tells whether its first run is a generator that waits for its consumers, or
// waits for a call. Of a generator it is the only one.
func (ex *executor) held() bool { return len(ex.queue) > 0 && ex.queue[0].back }

// envState is where an environment stands.
type envState uint8

const (
	envUnknown envState = iota
	envBuilding
	envReady
	envFailed
)

// environment is one of a job.
type environment struct {
	job      *job
	name     string
	commands bool // what runs in it are commands, where they have executors of their own
	state    envState
	err      string
	begun    bool   // it is built, and that was told
	pool     *pool  // when ready
	dir      string // where its tasks start, when that is not the job's folder
	asked    bool   // its functions are to be checked before its first task runs
	told     bool   // they were
}

// envKey names an environment of a job. An executor of Python functions runs no
// commands: those of its environment have another, and so an entry of their own.
type envKey struct {
	name     string
	commands bool
}

// functional returns the pool that knows what functions a pool's executors have: they
// are the same with devices and without.
func (p *pool) functional() *pool {
	if p.base != nil {
		return p.base
	}
	return p
}

func (c *Core) pool(k poolKey) *pool {
	p := c.byPool[k]
	if p == nil {
		p = &pool{key: k}
		c.byPool[k] = p
		c.pools = append(c.pools, p)
	}
	return p
}

func (c *Core) environment(j *job, run *dag.Run) *environment {
	declared := j.declared(run.Environment)
	key := envKey{run.Environment, run.Command != nil && declared != nil && declared.Python != nil}
	e := j.envs[key]
	if e == nil {
		e = &environment{job: j, name: key.name, commands: key.commands}
		if key.name == "" {
			e.state, e.pool = envReady, c.pool(poolKey{dir: j.dir})
		}
		j.envs[key] = e
	}
	return e
}

// declared returns an environment of the job's graph; nil when it has none of this name.
func (j *job) declared(name string) *dag.Environment {
	for i := range j.graph.Environments {
		if e := &j.graph.Environments[i]; e.Name == name {
			return e
		}
	}
	return nil
}

// undeclared is the error of what is to run in an environment that the job does not have.
func (j *job) undeclared(name string) string {
	names := make([]string, len(j.graph.Environments))
	for i := range names {
		names[i] = strconv.Quote(j.graph.Environments[i].Name)
	}
	if len(names) == 0 {
		return fmt.Sprintf("its job has no environment %q: it declares none", name)
	}
	return fmt.Sprintf("its job has no environment %q: it declares %s", name, strings.Join(names, ", "))
}

// buildEnv asks for an environment.
func (c *Core) buildEnv(e *environment) {
	e.state = envBuilding
	c.building++
	env := e.job.declared(e.name)
	if env == nil {
		c.envDone(e, EnvReady{Err: e.job.undeclared(e.name)})
		return
	}
	c.emit(BuildEnv{Job: e.job.id, Env: *env, Commands: e.commands, Dir: e.job.dir})
}

// beingBuilt returns an environment of a job that is being built; nil when it is not.
func (c *Core) beingBuilt(id comms.JobID, key envKey) *environment {
	if j := c.byJob[id]; j != nil && j.envs[key] != nil && j.envs[key].state == envBuilding {
		return j.envs[key]
	}
	return nil
}

// building counts the environments of a job that are being built.
func (j *job) building() (n int) {
	for _, e := range j.envs {
		if e.state == envBuilding {
			n++
		}
	}
	return n
}

func (c *Core) envReady(ev EnvReady) {
	if e := c.beingBuilt(ev.Job, envKey{ev.Name, ev.Commands}); e != nil {
		c.envDone(e, ev)
	}
}

// envWaits notes that an environment is built, as it was not found, or what the build waits for: whoever looks at the job is told.
func (c *Core) envWaits(ev EnvWaits) {
	e := c.beingBuilt(ev.Job, envKey{ev.Name, ev.Commands})
	if e == nil || ev.Why == "" && e.begun {
		return
	}
	e.begun = true
	note := comms.Event{Kind: comms.EventBuilding, Cause: comms.Cause{Kind: comms.CauseNone, Text: e.name}}
	if ev.Why != "" {
		note.Error = &comms.TaskError{Kind: comms.ErrorSetup, Message: ev.Why, Agent: c.cfg.Agent}
	}
	c.note(e.job, note)
}

func (c *Core) envDone(e *environment, ready EnvReady) {
	defer c.offerUsers(e)
	c.building--
	ev := comms.Event{Kind: comms.EventEnv, Count: ready.Bytes, Cause: comms.Cause{Kind: comms.CauseNone, Text: e.name}}
	if ready.Err == "" {
		e.state, e.pool, e.dir = envReady, c.pool(poolKey{env: ready.Key, dir: e.job.dir}), ready.Dir
		c.note(e.job, ev)
		c.checkFunctions(e)
		return
	}
	e.state, e.err = envFailed, ready.Err
	ev.Error = &comms.TaskError{Kind: comms.ErrorSetup, Message: ready.Err, Agent: c.cfg.Agent}
	c.note(e.job, ev)
	c.checkFunctions(e)
}

// offerUsers has the classes looked at that use an environment: those of its job, and of what was called in it.
func (c *Core) offerUsers(e *environment) {
	for _, j := range c.jobs {
		if j != e.job && j.dyn == nil {
			continue
		}
		for _, cl := range j.classes {
			if cl.env == e {
				c.offer(cl)
			}
		}
	}
}

// environmentFailed fails the ready tasks of a class whose environment cannot be had.
func (c *Core) environmentFailed(cl *class, why string) {
	for {
		e, ok := c.head(cl)
		if !ok || cl.job.stopped != nil {
			return
		}
		c.pop(cl)
		c.fail(cl.job, e.task, nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: why}, cl.job.cause(e), true)
	}
}

// counted tells how many executors stand against the limit: all but programs, the dying
// and those whose generator is held back, which must not keep its consumers from running.
func (c *Core) counted() int {
	n := 0
	for _, ex := range c.execs {
		if !ex.held() && ex.session == nil && ex.state != exKilled && ex.state != exStopping {
			n++
		}
	}
	return n
}

// spawnWanted starts executors that are missed, within the limit, in order. Idle ones of
// other pools make room.
func (c *Core) spawnWanted() {
	if c.leaving != nil {
		return
	}
	for _, p := range c.wanting {
		c.spawnFor(p, c.makeRoom)
		p.wanted = 0
	}
	c.wanting = c.wanting[:0]
	for _, p := range c.pools {
		up := p.up()
		if p.ask && p.functional().funcs == nil && up == 0 {
			p.wanted = 1
			c.spawnFor(p, c.makeRoom)
			p.wanted = 0
		}
		for ; up < p.warm && c.owed == nil && c.counted() < c.cfg.MaxExecutors; up++ { // without work they drive no other out
			c.spawn(p)
		}
	}
}

// up counts the executors of a pool that are there, or start.
func (p *pool) up() (n int) {
	for _, ex := range p.execs {
		if ex.state <= exUp {
			n++
		}
	}
	return n
}

// want notes that a pool has work for n more executors. The first pool in a pass gets
// devices and executors first: two pools would else take them from each other for ever.
func (c *Core) want(p *pool, n int) {
	if n <= 0 {
		return
	}
	if p.wanted == 0 {
		c.wanting = append(c.wanting, p)
	}
	p.wanted = max(p.wanted, n)
	c.equipNow(p)
}

// spawnFor starts the executors of a pool that are missed, within the limit, or where
// there is room for one more.
func (c *Core) spawnFor(p *pool, room func(p *pool) bool) {
	want := p.wanted
	for _, ex := range p.execs {
		if ex.state == exStarting && !ex.crew {
			want--
		}
	}
	for ; want > 0 && c.equipped(p, want) && (c.counted() < c.cfg.MaxExecutors || room(p)); want-- {
		c.spawn(p)
	}
}

// makeRoom ends the longest idle executor of another pool. It makes room at
// once: it has nothing left to do but to end.
func (c *Core) makeRoom(p *pool) bool {
	var victim *executor
	for _, ex := range c.execs {
		if ex.pool != p && ex.state == exUp && len(ex.queue) == 0 && !ex.crew && (victim == nil || ex.idle.Before(victim.idle)) {
			victim = ex
		}
	}
	if victim == nil {
		return false
	}
	c.stopExecutor(victim)
	return true
}

func (c *Core) stopExecutor(ex *executor) {
	ex.state = exStopping
	ex.heard = c.now
	c.emit(ToExecutor{ex.id, &comms.Stop{}})
}

func (c *Core) spawn(p *pool) *executor {
	c.lastExec++
	ex := &executor{id: c.lastExec, pool: p, grant: make(amounts, len(c.total)), heard: c.now, idle: c.now,
		kinds: map[uint32]bool{}, segs: map[uint32]uint64{}}
	p.execs = append(p.execs, ex)
	c.execs = append(c.execs, ex)
	c.byExec[ex.id] = ex
	c.equip(ex)
	c.emit(Spawn{ex.id, p.key.env, p.key.dir, c.devices.names(ex.holds)})
	return ex
}

func (c *Core) spawned(ev Spawned) {
	ex := c.byExec[ev.Executor]
	if ex == nil {
		return
	}
	if ex.session != nil {
		c.admitted(ex, ev)
		return
	}
	if ev.Err != "" {
		c.removeExecutor(ex)
		c.startFailed(ex.pool, ev.Err)
		return
	}
	ex.hello = &ev
}

// startFailed counts an executor that ended before it said Hello. Three in a row
// are enough to tell the tasks that wait for one.
func (c *Core) startFailed(p *pool, why string) {
	if p.failures++; p.failures < 3 {
		return
	}
	p.failures, p.ask = 0, false
	for _, j := range c.jobs {
		for _, cl := range j.classes {
			if c.poolOf(cl) == p {
				c.environmentFailed(cl, fmt.Sprintf("three executors in a row did not start; the last: %s", why))
			}
		}
	}
	for _, g := range slices.Clone(c.gangs) {
		if c.poolOf(g.gs.class) == p && g.complete() {
			c.refuseGang(g, fmt.Sprintf("three executors in a row did not start; the last: %s", why))
		}
	}
	if p.warm > 0 {
		p.warm = 0 // do not try for ever without anybody asking
	}
}

func (c *Core) helloExecutor(ex *executor, m *comms.Hello) {
	if ex.state != exStarting {
		return
	}
	ex.state, ex.greeted = exUp, true
	ex.pool.failures = 0
	of := ex.pool.functional()
	if of.funcs == nil {
		of.funcs = dag.Functions{}
		for _, f := range m.Functions {
			of.funcs[f.Name] = f.Sig
		}
		of.check = of.funcs.Checker()
	}
	w := &comms.Welcome{Executor: ex.id, Agent: c.cfg.Agent, InlineMax: inlineMax, Calls: true}
	if ex.hello != nil {
		w.ControlPage, w.Scratch, w.ShmDir = ex.hello.ControlPage, ex.hello.Scratch, ex.hello.ShmDir
	}
	c.emit(ToExecutor{ex.id, w})
	for _, j := range c.jobs {
		for _, cl := range j.classes { // in order
			if cl.env.pool == of {
				c.checkFunctions(cl.env)
			}
		}
	}
}

func (c *Core) executorBroken(ev ExecutorBroken) {
	switch ex := c.byExec[ev.Executor]; {
	case ex == nil:
	case ex.session != nil:
		c.programGone(ex, ev.Why)
	default:
		c.kill(ex, ev.Why)
	}
}

// kill ends an executor's process. All that it holds stays its own until it is known dead.
func (c *Core) kill(ex *executor, why string) {
	if ex.state == exKilled {
		return
	}
	ex.state = exKilled
	ex.why = why
	c.emit(Kill{ex.id, why})
}

func (c *Core) removeExecutor(ex *executor) {
	same := func(o *executor) bool { return o == ex }
	c.execs = slices.DeleteFunc(c.execs, same)
	ex.pool.execs = slices.DeleteFunc(ex.pool.execs, same)
	delete(c.byExec, ex.id)
	c.unequip(ex)
}
