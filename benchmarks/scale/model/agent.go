package model

import (
	"fmt"
	"time"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
)

// agent drives an agent core as package agent does, where nothing fails.
type agent struct {
	server
	w    *world
	cfg  *Config
	name string
	core *core.Core

	controller *controller
	link       uint64
	up, down   wire // to and from the controller

	executors []*executor
	timer     time.Time
	ended     int // tasks, since the controller was told
	messages  int // to and from executors
	local     []core.Event
}

const (
	spawnTime = 5 * time.Millisecond
	memory    = 1 << 30
	eventsFor = time.Millisecond // as agents have it
)

func newAgent(w *world, on *machine, cfg *Config, i int, c *controller) *agent {
	a := &agent{server: server{on: on}, w: w, cfg: cfg, name: fmt.Sprintf("host%d", i), controller: c, link: uint64(i + 1)}
	a.idle = func() { a.step(core.Idle{}) }
	perByte := 0.0
	if cfg.Costs.Bandwidth > 0 {
		perByte = 1 / cfg.Costs.Bandwidth
	}
	a.up = wire{w: w, delay: cfg.Costs.Delay, perByte: perByte}
	a.down = a.up
	a.core = core.New(core.Config{
		Agent: a.name, Incarnation: 1, BootID: "boot", Total: comms.Resources{CPU: int64(cfg.Slots) * 1000, Memory: memory},
		EventsFor: eventsFor, Warm: cfg.Slots, MaxExecutors: cfg.Slots, Memory: memory,
	})
	return a
}

func (a *agent) boot() {
	a.controller.linkUp(a)
	a.post(0, func() { a.step(core.ControllerUp{}) })
}

func (a *agent) step(ev core.Event) {
	a.local = append(a.local, ev)
	if len(a.local) > 1 {
		return // called while actions are performed
	}
	for len(a.local) > 0 {
		for _, act := range a.core.Step(a.w.wall(), a.local[0]) {
			a.perform(act)
		}
		a.local = a.local[1:]
	}
}

func (a *agent) perform(act core.Action) {
	switch act := act.(type) {
	case core.ToController:
		a.charge(a.cfg.Costs.Agent.Message)
		n := 0
		if _, ok := act.Msg.(*comms.Events); ok {
			n, a.ended = a.ended, 0
		}
		bytes, m := size(a.w, act.Msg)
		a.up.send(bytes, func() { a.controller.received(a, m, n) })
	case core.ToExecutor:
		a.charge(a.cfg.Costs.Agent.Message)
		x := a.executors[act.Executor-1]
		_, m := size(a.w, act.Msg)
		a.messages++
		a.w.after(0, func() { x.received(m) })
	case core.Spawn:
		x := newExecutor(a, act.Executor)
		a.executors = append(a.executors, x)
		a.w.after(spawnTime, func() {
			a.post(0, func() { a.step(core.Spawned{Executor: x.id, PID: int64(x.id), ShmDir: "/shm"}) })
			x.tell(&comms.Hello{PID: int64(x.id), Language: "go", Functions: []comms.FuncSig{{Name: function}}}, 0)
		})
	case core.SetTimer:
		at := act.At
		a.timer = at
		a.w.after(at.Sub(a.w.wall()), func() {
			if a.timer.Equal(at) {
				a.timer = time.Time{}
				a.post(0, func() { a.step(core.Tick{}) })
			}
		})
	case core.Memory, core.DropJob, core.AppendLog:
	default:
		a.w.fail(fmt.Errorf("%s asks for %T, which a cluster without faults does not need", a.name, act))
	}
}

// hear takes a message of the controller.
func (a *agent) hear(m comms.Message) {
	ev := core.FromController{Msg: m}
	if as, ok := m.(*comms.Assign); ok {
		ev.Graph, as.Graph = a.controller.graph, nil
	}
	a.post(a.cfg.Costs.Agent.Message, func() { a.step(ev) })
}

// executor is a process that runs tasks one after the other.
type executor struct {
	server
	a     *agent
	id    comms.ExecutorID
	queue []comms.Run
	runs  bool

	first comms.RunID // of the runs that have ended and are not told
	ends  []comms.Usage
	since time.Duration
}

// As package executor joins its reports.
const (
	reportAge = 100 * time.Microsecond
	maxWait   = 200 * time.Microsecond
	maxJoined = 256 // runs of no length that the model does in one turn
)

func newExecutor(a *agent, id comms.ExecutorID) *executor {
	return &executor{server: server{on: a.on}, a: a, id: id}
}

func (x *executor) received(m comms.Message) {
	x.post(x.a.cfg.Costs.Executor.Message, func() {
		d, ok := m.(*comms.Dispatch)
		if !ok {
			return
		}
		for i := range d.Runs {
			all, err := d.Runs[i].All()
			if err != nil {
				x.a.w.fail(fmt.Errorf("a Dispatch cannot be read: %w", err))
				return
			}
			x.queue = append(x.queue, all...)
		}
		x.goOn()
	})
}

// goOn runs what is at the head of the queue: several, when they take no time.
func (x *executor) goOn() {
	if x.runs || len(x.queue) == 0 {
		return
	}
	x.runs = true
	cfg, n := x.a.cfg, 1
	if cfg.Task == 0 {
		n = max(1, min(len(x.queue), maxJoined, int(reportAge/max(cfg.Costs.Executor.Task, 1))))
	}
	d := time.Duration(n) * cfg.Costs.Executor.Task
	x.used += d
	if cfg.Task > 0 && !cfg.Sleep {
		d += cfg.Task
	}
	began := x.a.w.now
	x.on.use(d, func() {
		if cfg.Task > 0 && cfg.Sleep {
			x.a.w.after(cfg.Task, func() { x.over(n, began) })
			return
		}
		x.over(n, began)
	})
}

func (x *executor) over(n int, began time.Duration) {
	w := x.a.w
	took := (w.now - began) / time.Duration(n)
	for i := range n {
		r := &x.queue[i]
		if len(x.ends) > 0 && (x.first+comms.RunID(len(x.ends)) != r.ID || len(x.ends) == comms.MaxSteps) {
			x.flush()
		}
		if len(x.ends) == 0 {
			x.first, x.since = r.ID, w.now
		}
		x.ends = append(x.ends, comms.Usage{Start: epoch.Add(began + time.Duration(i)*took).UnixNano(), Duration: int64(took)})
	}
	x.queue = x.queue[n:]
	x.runs = false
	switch {
	case len(x.queue) == 0 || w.now-x.since > reportAge:
		x.flush()
	case x.a.cfg.Task > 0:
		first := x.first
		w.after(x.since+maxWait-w.now, func() {
			if x.first == first {
				x.flush()
			}
		})
	}
	x.goOn()
}

func (x *executor) flush() {
	if len(x.ends) == 0 {
		return
	}
	n := len(x.ends)
	it := comms.ReportItem{Kind: comms.ReportSteps, Run: x.first, At: x.a.w.wall().UnixNano(), Steps: comms.AppendUsages(nil, x.ends)}
	if n == 1 {
		it = comms.ReportItem{Kind: comms.ReportFinished, Run: x.first, At: it.At, Usage: &x.ends[0]}
	}
	x.tell(&comms.Report{Items: []comms.ReportItem{it}}, n)
	x.ends, x.first = nil, 0
}

// tell sends to the agent; n tasks have ended.
func (x *executor) tell(m comms.Message, n int) {
	x.charge(x.a.cfg.Costs.Executor.Message)
	a := x.a
	a.messages++
	_, got := size(a.w, m)
	a.w.after(0, func() {
		a.post(a.cfg.Costs.Agent.of(1, n), func() {
			a.ended += n
			a.step(core.FromExecutor{Executor: x.id, Msg: got})
		})
	})
}
