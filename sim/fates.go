package sim

import (
	"math/rand/v2"
	"time"

	"github.com/cascade-run/cascade/dag"
)

// fates are what a seed decides once for a whole run. Numbers without unit are of 1000.
type fates struct {
	agents int
	spread int // how jobs go to several agents

	improves int // evaluations in search of a better plan than the first
	jobs     int
	heal     time.Duration // when faults end
	slowest  time.Duration // delay of a message
	resume   time.Duration // how long a link may be away and come back
	grace    time.Duration // before a lost agent's jobs go elsewhere
	queue    int           // messages in a link's queue

	cpu       int64 // thousandths
	executors int
	shm       int64 // bytes
	segment   int   // outputs that go to shared memory
	commit    time.Duration
	shards    int // of the store

	taskFails, executorCrashes, executorHangs, spawnFails int // a chance at each act of a run
	spillRot, diskFull, moveFails                         int
	healsRot                                              bool // disks lose nothing any more when all is well
	createFails, commitFails                              int
	envFails                                              int
	cancelFailing                                         int // a client cancels a job of which a task has just failed
	timeouts                                              int // groups with a time-out

	cuts, outages, agentCrashes, controllerCrashes, freezes, steers int  // how many of each
	linkBreaks                                                      int  // of an agent with an executor
	rots                                                            int  // of all spill files that an agent has then
	clockSteps                                                      int  // of everybody's wall clock
	drains                                                          int  // agents that are told to leave
	gangs                                                           int  // families that are gangs
	spans                                                           int  // gangs that no agent has room for alone
	late                                                            bool // some agents start only while jobs run
	seen                                                            bool // that a dead agent's process has ended is seen before its link may not come back any more
	calls                                                           int  // tasks that call others, of a thousand
	programs                                                        programFates

	forward  time.Duration // after which calls that wait go to other agents; 0: none does
	patience time.Duration // of an agent with those to which it has no link
	far      int           // calls that need what one agent alone has, of a thousand

	hosts   []rate        // what they carry; nil: a transfer takes a random time
	oneWay  int           // one-way partitions
	silence time.Duration // after which who hears nothing ends a link

	steals time.Duration // that an idle agent's taking work must save; 0: none takes any

	devices, usesDevices int // of each agent; groups whose tasks ask for some, of a thousand

	hungry int // tasks with a bound of their memory that take more, of a thousand
	roomy  int // the agent that has more memory then, if there is one of that number

	roomyAway time.Duration // for which that is away when it is needed first; 0: it is not for this

	varies  int         // tasks that make other bytes in each attempt, of a thousand
	bare    int         // of what those make in shared memory, by their bytes: has no hash, of a thousand
	rebuilt dag.Rebuilt // what jobs say of that
}

// How jobs go to several agents.
const (
	spreadNot    = iota // each job runs on one
	spreadByPlan        // as the planner says, which knows no durations
	spreadWild          // each task anywhere
	spreadTurns         // by turns; of tests
)

// taming takes one kind of trouble out of a run.
type taming struct {
	name string
	tame func(*fates)
}

// tamings lists them; what makes a story short comes first.
func tamings() []taming {
	return append([]taming{
		{"agents", func(f *fates) { f.agents = 1 }},
		{"third-agent", func(f *fates) { f.agents = min(f.agents, 2) }},
		{"better-plans", func(f *fates) { f.improves = 0 }},
		{"spread", func(f *fates) { f.spread = spreadNot }},
		{"transfer-failures", func(f *fates) { f.moveFails = 0 }},
		{"jobs", func(f *fates) { f.jobs = 1 }},
		{"job3", func(f *fates) { f.jobs = min(f.jobs, 2) }},
		{"steals", func(f *fates) { f.steals = 0 }},
		{"devices", func(f *fates) { f.devices = 0 }},
		{"hunger", func(f *fates) { f.hungry = 0 }},
		{"roomy-away", func(f *fates) { f.roomyAway = 0 }},
		{"gangs", func(f *fates) { f.gangs = 0 }},
		{"spanning-gangs", func(f *fates) { f.spans = 0 }},
		{"drains", func(f *fates) { f.drains = 0 }},
		{"seen-deaths", func(f *fates) { f.seen = false }},
		{"late-agents", func(f *fates) { f.late = false }},
		{"calls", func(f *fates) { f.calls = 0 }},
		{"forwards", func(f *fates) { f.forward, f.far = 0, 0 }},
		{"far-calls", func(f *fates) { f.far = 0 }},
		{"bandwidth", func(f *fates) { f.hosts = nil }},
		{"one-way-partitions", func(f *fates) { f.oneWay = 0 }},
		{"agent-crashes", func(f *fates) { f.agentCrashes = 0 }},
		{"controller-crashes", func(f *fates) { f.controllerCrashes = 0 }},
		{"steers", func(f *fates) { f.steers = 0 }},
		{"freezes", func(f *fates) { f.freezes = 0 }},
		{"outages", func(f *fates) { f.outages = 0 }},
		{"cuts", func(f *fates) { f.cuts = 0 }},
		{"executor-crashes", func(f *fates) { f.executorCrashes = 0 }},
		{"executor-hangs", func(f *fates) { f.executorHangs = 0 }},
		{"task-failures", func(f *fates) { f.taskFails = 0 }},
		{"spawn-failures", func(f *fates) { f.spawnFails = 0 }},
		{"create-failures", func(f *fates) { f.createFails = 0 }},
		{"commit-failures", func(f *fates) { f.commitFails = 0 }},
		{"rot", func(f *fates) { f.spillRot = 0 }},
		{"rotten-files", func(f *fates) { f.rots = 0 }},
		{"link-breaks", func(f *fates) { f.linkBreaks = 0 }},
		{"clock-steps", func(f *fates) { f.clockSteps = 0 }},
		{"environments", func(f *fates) { f.envFails = 0 }},
		{"cancels", func(f *fates) { f.cancelFailing = 0 }},
		{"time-outs", func(f *fates) { f.timeouts = 0 }},
		{"full-disk", func(f *fates) { f.diskFull = 0 }},
		{"shared-memory", func(f *fates) { f.segment = 0 }},
		{"full-queues", func(f *fates) { f.queue = 0 }},
		{"delays", func(f *fates) { f.slowest = 20 * time.Microsecond }},
		{"shards", func(f *fates) { f.shards = 1 }},
		{"slow-commits", func(f *fates) { f.commit = 20 * time.Microsecond }},
		{"second-agent-crash", func(f *fates) { f.agentCrashes = min(f.agentCrashes, 1) }},
		{"second-controller-crash", func(f *fates) { f.controllerCrashes = min(f.controllerCrashes, 1) }},
		{"second-steer", func(f *fates) { f.steers = min(f.steers, 1) }},
	}, programTamings()...)
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// drawFates draws the weather. Many kinds of fault at once hide each other, so
// most are off in most runs.
func drawFates(r *rand.Rand) fates {
	ms := time.Millisecond
	f := fates{
		agents: pick(r, 1, 1, 2, 2, 3, 4), spread: pick(r, spreadNot, spreadByPlan, spreadWild, spreadWild), jobs: pick(r, 1, 1, 2, 3), heal: pick(r, 200*ms, 1000*ms, 5000*ms),
		slowest: pick(r, 20*time.Microsecond, ms, 20*ms), resume: pick(r, 100*ms, 1000*ms, 30_000*ms), grace: pick(r, 300*ms, 3000*ms),
		queue: pick(r, 0, 0, 0, 3),
		cpu:   pick(r, int64(2000), 3000, 4000), executors: pick(r, 1, 2, 3, 5), shm: pick(r, int64(128<<10), 512<<10, 8<<20),
		segment: pick(r, 0, 500, 1000), commit: pick(r, 20*time.Microsecond, ms, 50*ms),
	}
	some := func(n ...int) int {
		v := pick(r, n...)
		if r.IntN(3) == 0 {
			return v
		}
		return 0
	}
	f.taskFails, f.executorCrashes, f.executorHangs, f.spawnFails = some(20, 150), some(10, 80), some(10, 50), some(50)
	f.spillRot, f.diskFull, f.moveFails = some(200), some(100), some(100)
	f.createFails, f.commitFails = some(300), some(20)
	f.cuts, f.outages, f.agentCrashes, f.controllerCrashes = some(1, 5), some(1, 3), some(1, 2), some(1, 2, 4)
	f.freezes, f.steers = some(2, 5), some(1, 3, 6)
	f.envFails, f.cancelFailing, f.timeouts = some(300), some(300), some(200, 500)
	f.linkBreaks, f.rots, f.clockSteps = some(1, 4), some(1, 3), some(1, 4)
	return f
}

// disturb plans the faults that strike from outside.
func (w *world) disturb() {
	f := &w.fate
	when := func() time.Duration { return w.between(0, f.heal) }
	long := func() time.Duration {
		return pick(w.rnd, 2*time.Millisecond, 50*time.Millisecond, 800*time.Millisecond, 4*time.Second)
	}
	anyAgent := func() *agent { return w.agents[w.rnd.IntN(len(w.agents))] }
	for range f.cuts {
		a, b := w.anyPair(w.rnd)
		w.at(when(), func() { w.tell("fault", nil, "cut %s - %s", a, b); w.net.Cut(w.now, a, b) })
	}
	for range f.outages {
		a, b := w.anyPair(w.rnd)
		at, d := when(), long()
		w.at(at, func() { w.tell("fault", nil, "apart for %v: %s - %s", d, a, b); w.part(a, b) })
		w.at(min(at+d, f.heal), func() { w.join(a, b) })
	}
	for range f.agentCrashes {
		a := anyAgent()
		d, gently := long(), w.chance(250)
		w.at(when(), func() { a.crash(min(d, max(f.heal-w.now, 0)), gently) })
	}
	for range f.controllerCrashes {
		d := long()
		w.at(when(), func() { w.controller.crash(min(d, max(f.heal-w.now, 0)), "killed") })
	}
	for range f.freezes {
		p, d := w.anyProcess(), long()
		w.at(when(), func() {
			if p := p(); p != nil {
				w.tell("fault", nil, "%s is frozen for %v", p.name, d)
				p.frozen = max(p.frozen, min(w.now+d, f.heal)) // a shorter one does not end it: what waits would overtake
			}
		})
	}
	for range f.linkBreaks {
		a, n := anyAgent(), w.rnd.IntN(1000)
		w.at(when(), func() {
			if live := a.living(); len(live) > 0 {
				x := live[n%len(live)]
				w.tell("fault", nil, "cut %s - %s", a.name, x.name)
				w.lan.Cut(w.now, a.name, x.name)
			}
		})
	}
	for range f.rots {
		a := anyAgent()
		w.at(when(), func() { a.mem.rot() })
	}
	for range f.clockSteps {
		step := pick(w.rnd, -24*time.Hour, -time.Second, -time.Millisecond, time.Second, 24*time.Hour)
		w.at(when(), func() {
			w.tell("fault", nil, "the wall clock steps by %v", step)
			w.stepped += step
		})
	}
	for range f.steers {
		w.at(when(), w.client.steer)
	}
	w.disturbByLeaving(w.seed)
	w.disturbOneWay(w.seed)
}

// part keeps two nodes from reaching each other. Agents cannot send datasets then
// either; those on their way fail.
func (w *world) part(a, b string) {
	w.net.Break(w.now, a, b)
	w.apart[pairOf(a, b)] = true
}

func (w *world) join(a, b string) {
	w.net.Heal(w.now, a, b)
	delete(w.apart, pairOf(a, b))
}

func (w *world) anyPair(r *rand.Rand) (a, b string) {
	if len(w.agents) > 1 && r.IntN(1000) < 400 {
		k := r.IntN(len(w.agents))
		return w.agents[k].name, w.agents[(k+1+r.IntN(len(w.agents)-1))%len(w.agents)].name
	}
	a = w.client.name
	if r.IntN(1000) < 700 {
		a = w.agents[r.IntN(len(w.agents))].name
	}
	return a, w.controller.name
}

// anyProcess chooses a process; an executor only when the time has come, of those that live then.
func (w *world) anyProcess() func() *process {
	switch w.rnd.IntN(4) {
	case 0:
		return func() *process { return &w.controller.process }
	case 1:
		a := w.agents[w.rnd.IntN(len(w.agents))]
		return func() *process { return &a.process }
	}
	a, n := w.agents[w.rnd.IntN(len(w.agents))], w.rnd.IntN(1000)
	return func() *process {
		if live := a.living(); len(live) > 0 {
			return &live[n%len(live)].process
		}
		return nil
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.tell("fault", nil, "all is well from now on")
	w.healed = true
	f := &w.fate
	if f.healsRot {
		f.spillRot = 0
	}
	f.executorCrashes, f.executorHangs, f.spawnFails, f.diskFull, f.createFails, f.commitFails, f.moveFails, f.envFails = 0, 0, 0, 0, 0, 0, 0, 0
	w.client.heal()
}
