package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/memnet"
	"github.com/cascade-run/cascade/dag"
)

// agent drives an agent core as package agent does.
type agent struct {
	process
	core     *core.Core
	cfg      core.Config
	incarn   uint64
	last     comms.ExecutorID // highest number used
	mem      *memory
	execs    []*executor // of this life, in order
	byID     map[comms.ExecutorID]*executor
	out      outbox
	toClient outbox
	local    []core.Event
	timer    time.Time
	lastPort uint16
	graphs   map[comms.JobID]*dag.Graph
	lives    map[comms.JobID]uint64 // that Assigns named last
	sent     map[uint64]sentEvent   // whose event a number is
	acked    uint64
	peers    map[string]*agentPeer
	offers   map[offerKey]*core.Offer // that other agents may read
	leaving  bool                     // it was told to end, with a grace
	ending   bool                     // and does
	away     time.Duration            // until it comes back
	left     uint64                   // incarnation that was told so last
}

// sentEvent is whose event a number is.
type sentEvent struct {
	job       comms.JobID
	life      uint64
	epoch     uint64
	forgotten bool // the agent was told to forget the job: it goes on elsewhere, or not at all
}

// numbersApart keeps the event numbers of incarnations apart.
const numbersApart = 1_000_000

func newAgent(w *world, name string) *agent {
	a := &agent{process: process{w: w, name: name}}
	a.idle = func() { a.step(core.Idle{}) }
	a.mem = newMemory(a)
	return a
}

func (a *agent) boot() {
	a.begin()
	w := a.w
	w.net.Start(w.now, a.name)
	w.lan.Start(w.now, a.name)
	a.incarn++
	a.leaving, a.ending = false, false
	a.execs, a.byID, a.graphs = nil, map[comms.ExecutorID]*executor{}, map[comms.JobID]*dag.Graph{}
	a.lives = map[comms.JobID]uint64{}
	a.out, a.local, a.timer = outbox{}, nil, time.Time{}
	a.sent, a.acked = map[uint64]sentEvent{}, a.incarn*numbersApart
	segments, adopted := a.mem.restart()
	a.offers = map[offerKey]*core.Offer{}
	a.cfg = core.Config{
		Agent: a.name, Incarnation: a.incarn, BootID: "boot", Host: a.name,
		Total:     comms.Resources{CPU: w.fate.cpu, Memory: w.memoryOf(a), GPU: int64(w.fate.devices) * 1000, Devices: w.devices(), Custom: w.custom(slices.Index(w.agents, a))},
		LastEvent: a.incarn * numbersApart, LastExecutor: a.last, Segments: segments, Adopted: adopted,
		EventsFor: time.Millisecond, ForwardAfter: w.fate.forward, Patience: w.fate.patience,
		Warm: 1, MaxExecutors: w.fate.executors, Memory: w.fate.shm, ArenaBytes: 64 << 10, LargeBytes: 32 << 10, CheckFrees: true,
	}
	a.core = core.New(a.cfg)
	w.tell(a.name, nil, "starts as incarnation %d and finds %d datasets and %d segments", a.incarn, len(adopted), len(segments))
	if err := w.net.Connect(w.now, a.name, w.controller.name); err != nil {
		w.fail(comms.JobID{}, "%v", err)
	}
	a.meetPeers()
	a.rouse()
}

// crash ends the process; its executors end with it. A gentle end leaves the
// outputs of jobs in spill files, and nothing in memory.
func (a *agent) crash(away time.Duration, gently bool) {
	if !a.running {
		return
	}
	a.w.tell(a.name, nil, "dies, back in %v, gently %v", away, gently)
	a.w.oracle.agentDied(a)
	if gently {
		for _, k := range a.core.Kept() {
			if !k.OnDisk {
				a.mem.keep(k)
			}
		}
		a.mem.clear()
	}
	for _, x := range a.living() {
		x.die("its agent is dead", "")
	}
	a.end()
	a.w.dropMoves(a)
	a.w.net.Stop(a.w.now, a.name)
	a.w.lan.Stop(a.w.now, a.name)
	a.w.after(away, a.boot)
	if a.w.fate.seen {
		a.w.controller.look(a)
	}
}

func (a *agent) living() (all []*executor) {
	for _, x := range a.execs {
		if x.running {
			all = append(all, x)
		}
	}
	return all
}

// deliver is what the goroutines of the links to controller and clients do.
func (a *agent) deliver(d memnet.Delivery[comms.Message]) {
	if d.From == a.w.client.name {
		switch d.Kind {
		case memnet.Message:
			a.post(func() { a.step(core.FromClient{Client: 1, Msg: d.Msg}) })
		case memnet.Credit:
			a.toClient.credit(a.w, a.w.net, a.name, d.From)
		case memnet.Up, memnet.Down:
		}
		return
	}
	if p := a.peers[d.From]; p != nil {
		a.fromAgent(p, d)
		return
	}
	switch d.Kind {
	case memnet.Up:
		if !d.Resumed {
			a.out.begins()
		}
		a.post(func() {
			if !d.Resumed {
				a.out.heard()
			}
			a.step(core.ControllerUp{Resumed: d.Resumed})
		})
	case memnet.Down:
		a.post(func() {
			if d.Final {
				a.out.ends()
			}
			a.step(core.ControllerDown{})
		})
	case memnet.Credit:
		a.post(func() {
			if a.out.credit(a.w, a.w.net, a.name, d.From) {
				a.step(core.Free{})
			}
		})
	case memnet.Message:
		a.post(func() { a.fromController(d.Msg) })
	}
}

func (a *agent) fromController(m comms.Message) {
	a.w.tellMessage(a.name, "from controller", m)
	ev := core.FromController{Msg: m}
	switch m := m.(type) {
	case *comms.Assign:
		g := a.graphs[m.Job]
		if len(m.Graph) > 0 {
			var err error
			if g, err = dag.Decode(m.Graph); err != nil {
				a.w.fail(m.Job, "%s is sent a graph that cannot be decoded: %v", a.name, err)
				return
			}
			a.graphs[m.Job] = g
		}
		ev.Graph, m.Graph, a.lives[m.Job] = g, nil, m.JobIncarnation
		a.w.oracle.decided(a, m.Job, m.Epoch)
		a.w.oracle.calls.lives[jobAt(a, m.Job)]++ // it may have tasks start over, without their calls
	case *comms.StealRequest:
		if m.Share == 0 {
			a.w.oracle.decided(a, m.Job, m.Epoch+1)
		}
	case *comms.Committed:
		a.w.oracle.acknowledged(a, m.UpTo)
	case *comms.Steer:
		if m.Action == comms.SteerForget {
			a.forgets(m)
		}
	}
	a.step(ev)
}

func (a *agent) forgets(m *comms.Steer) {
	for n, s := range a.sent {
		if s.job == m.Job && s.life == m.JobIncarnation {
			s.forgotten = true
			a.sent[n] = s
		}
	}
}

func (a *agent) step(ev core.Event) {
	a.local = append(a.local, ev)
	if len(a.local) > 1 {
		return // called while actions are performed
	}
	for len(a.local) > 0 {
		a.w.steps++
		for _, act := range a.core.Step(a.w.wall(), a.local[0]) {
			a.perform(act)
		}
		a.w.oracle.together(a)
		if err := a.core.Check(); err != nil {
			a.w.fail(comms.JobID{}, "core of %s after %T: %v", a.name, a.local[0], err)
		}
		if a.w.failed != nil {
			return
		}
		a.local = a.local[1:]
	}
	a.mayLeave()
}

func (a *agent) perform(act core.Action) {
	w := a.w
	switch act := act.(type) {
	case core.ToController:
		w.tellMessage(a.name, "to controller", act.Msg)
		w.oracle.toController(a, act.Msg)
		w.loseRoomy(act.Msg)
		if a.out.send(w, w.net, a.name, w.controller.name, act.Msg) {
			a.local = append(a.local, core.Full{})
		}
	case core.ToExecutor:
		w.oracle.gangs.dispatched(act.Msg)
		if x := a.byID[act.Executor]; x != nil && x.linked {
			w.tellMessage(a.name, "to "+x.name, act.Msg)
			w.oracle.toExecutor(x, act.Msg)
			if x.agentOut.send(w, w.lan, a.name, x.name, act.Msg) {
				a.local = append(a.local, core.Full{Executor: act.Executor})
			}
		}
	case core.ToClient:
		a.toClient.send(w, w.net, a.name, w.client.name, act.Msg)
	case core.ServeChunk:
		a.serve(act)
	case core.Spawn:
		a.spawn(act)
	case core.Kill:
		if x := a.byID[act.Executor]; x != nil {
			w.after(w.between(0, time.Millisecond), func() { x.die("killed: "+act.Why, "killed") })
		}
	case core.BuildEnv:
		a.after(w.between(0, 20*time.Millisecond), func() {
			ready := core.EnvReady{Job: act.Job, Name: act.Env.Name, Commands: act.Commands, Key: "env-" + act.Env.Name}
			if w.chance(w.fate.envFails) {
				w.oracle.blame(act.Job)
				ready.Key, ready.Err = "", "it cannot be built"
			}
			a.post(func() { a.step(ready) })
		})
	case core.Memory:
		a.mem.perform(act)
	case core.LeasePorts:
		a.lease(act)
	case core.ReturnPorts:
	case core.AppendLog:
	case core.Leave:
		a.leave(act.Grace, 0)
	case core.DropJob:
		delete(a.graphs, act.Job)
		w.oracle.calls.lives[jobAt(a, act.Job)]++
	case core.SetTimer:
		at := act.At
		a.timer = at
		a.after(max(0, at.Sub(w.wall())), func() {
			if a.timer.Equal(at) {
				a.timer = time.Time{}
				a.post(func() { a.step(core.Tick{}) })
			}
		})
	default:
		if a.performPeer(act) {
			return
		}
		w.fail(comms.JobID{}, "%s asks for %T, which its driver does not know", a.name, act)
	}
}

// lease gives ports to the members of a gang; no two are equal in the life of an agent.
func (a *agent) lease(act core.LeasePorts) {
	ev := core.PortsLeased{ID: act.ID}
	for range act.N {
		a.lastPort++
		ev.Ports = append(ev.Ports, a.lastPort)
	}
	a.after(a.w.between(0, time.Millisecond), func() { a.post(func() { a.step(ev) }) })
}

// serve reads bytes for a client.
func (a *agent) serve(act core.ServeChunk) {
	a.after(a.w.between(0, time.Millisecond), func() {
		a.w.client.served(a, act.Msg, a.mem.at(act.Path, act.At))
		a.toClient.send(a.w, a.w.net, a.name, a.w.client.name, act.Msg)
		a.post(func() { a.step(core.ChunkServed{Client: act.Client, Req: act.Msg.Req}) })
	})
}

func (a *agent) spawn(act core.Spawn) {
	w := a.w
	a.last = max(a.last, act.Executor)
	x := newExecutor(a, act.Executor)
	x.devices = act.Devices
	w.tell(a.name, nil, "starts %s, environment %q, devices %v", x.name, act.Env, act.Devices)
	a.after(w.between(0, 5*time.Millisecond), func() {
		if w.chance(w.fate.spawnFails) {
			w.oracle.starts[a.name]++
			a.post(func() { a.step(core.Spawned{Executor: x.id, Err: "fork: no more processes"}) })
			return
		}
		a.execs = append(a.execs, x)
		a.byID[x.id] = x
		w.executors[x.name] = x
		a.post(func() { a.step(core.Spawned{Executor: x.id, PID: int64(x.id), ShmDir: "/shm"}) })
		x.boot()
	})
}

// fromLan is what the goroutines of the links to executors do.
func (a *agent) fromLan(d memnet.Delivery[comms.Message]) {
	x := a.w.executors[d.From]
	if x == nil || x.a != a || a.byID[x.id] != x {
		return
	}
	switch d.Kind {
	case memnet.Up:
		a.post(func() { x.linked = true })
	case memnet.Message:
		a.post(func() {
			if x.reported {
				return
			}
			a.w.tellMessage(a.name, "from "+x.name, d.Msg)
			x.heard(d.Msg)
			a.step(core.FromExecutor{Executor: x.id, Msg: d.Msg})
		})
	case memnet.Credit:
		a.post(func() {
			if x.agentOut.credit(a.w, a.w.lan, a.name, x.name) {
				a.step(core.Free{Executor: x.id})
			}
		})
	case memnet.Down:
		a.post(func() { x.linked, x.unlinked = false, true })
		if !x.running {
			a.reportDead(x)
			return
		}
		const dyingTime = 500 * time.Millisecond
		a.after(dyingTime, func() {
			if x.running {
				a.post(func() { a.step(core.ExecutorBroken{Executor: x.id, Why: "connection reset"}) })
			} else {
				a.reportDead(x)
			}
		})
	}
}

// reportDead tells the core of a death, after the last message.
func (a *agent) reportDead(x *executor) {
	a.post(func() {
		if x.reported {
			return
		}
		x.reported = true
		delete(a.byID, x.id)
		a.w.tell(a.name, nil, "learns that %s is dead in run %d: %s", x.name, x.lastRun, x.why)
		x.buried()
		a.step(core.ExecutorDead{Executor: x.id, Run: x.lastRun, Why: x.why, Signal: x.signal, Memory: x.used > 0, Used: x.used})
	})
}

func (a *agent) path(segment uint64) string { return fmt.Sprintf("/shm/%s/%d", a.name, segment) }
