package model

import (
	"fmt"
	"slices"
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
			x.tell(&comms.Hello{PID: int64(x.id), Language: "go", Functions: []comms.FuncSig{{Name: function}, {Name: driverFunction}}}, 0)
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
	kinds map[uint32]*comms.Kind
	queue []comms.Run
	runs  int     // of the queue, that have begun
	drive *driver // it runs one

	items []comms.ReportItem // of runs that have ended and are not told
	told  int                // so many
	first comms.RunID        // of the runs without outputs behind them
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
	return &executor{server: server{on: a.on}, a: a, id: id, kinds: map[uint32]*comms.Kind{}}
}

func (x *executor) received(m comms.Message) {
	x.post(x.a.cfg.Costs.Executor.Message, func() {
		switch m := m.(type) {
		case *comms.Kind:
			if x.kinds[m.ID] = m; m.Close {
				delete(x.kinds, m.ID)
			}
		case *comms.Dispatch:
			for i := range m.Runs {
				all, err := m.Runs[i].All()
				if err != nil {
					x.a.w.fail(fmt.Errorf("a Dispatch cannot be read: %w", err))
					return
				}
				x.queue = append(x.queue, all...)
			}
			x.goOn()
		case *comms.Reclaim:
			x.reclaim(m)
		case *comms.CallEnds:
			x.callsEnded(m)
		case *comms.CallGo:
			if x.drive != nil {
				x.goesOn()
			}
		case *comms.Stop: // it was started beside one that waited, and has had nothing to do for long
			x.flush()
			x.a.post(0, func() { x.a.step(core.ExecutorDead{Executor: x.id}) })
		}
	})
}

// reclaim returns the runs that have not begun.
func (x *executor) reclaim(m *comms.Reclaim) {
	back := &comms.Reclaimed{}
	var stay []comms.Run
	for i := range x.queue {
		if r := &x.queue[i]; i >= x.runs && slices.Contains(m.Runs, r.ID) {
			back.Runs = append(back.Runs, r.ID)
		} else {
			stay = append(stay, *r)
		}
	}
	x.queue = stay
	x.tell(back, 0)
}

// goOn runs what is at the head of the queue: several, when they take no time.
func (x *executor) goOn() {
	if x.runs > 0 || len(x.queue) == 0 {
		return
	}
	cfg, n := x.a.cfg, 1
	if k := x.kinds[x.queue[0].Kind]; k != nil && k.Function == driverFunction {
		x.drives()
		return
	}
	if cfg.Task == 0 {
		n = max(1, min(len(x.queue), maxJoined, int(reportAge/max(cfg.Costs.Executor.Task, 1))))
	}
	x.runs = n
	d := time.Duration(n) * cfg.Costs.Executor.Task
	x.used += d
	if cfg.Task > 0 && !cfg.Sleep {
		d += cfg.Task
	}
	x.on.use(d, func() {
		began := x.a.w.now - d // when it got its core: a process that waits for one tells no time
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
		x.end(&x.queue[i], comms.Usage{Start: epoch.Add(began + time.Duration(i)*took).UnixNano(), Duration: int64(took)})
	}
	x.queue = x.queue[n:]
	x.runs = 0
	switch {
	case len(x.queue) == 0 || w.now-x.since > reportAge:
		x.flush()
	case x.a.cfg.Task > 0:
		since := x.since
		w.after(x.since+maxWait-w.now, func() {
			if x.since == since {
				x.flush()
			}
		})
	}
	x.goOn()
}

// end notes the end of a run. Consecutive ends that no process waits for are one item.
func (x *executor) end(r *comms.Run, u comms.Usage) {
	if x.told == 0 {
		x.since = x.a.w.now
	}
	x.told++
	if k := x.kinds[r.Kind]; k != nil && k.Function == function && len(k.Outputs) > 0 {
		x.endRow()
		d := comms.Desc{Ref: comms.DatasetRef{Task: r.Task}, Attempt: r.Attempt, Codec: "msgpack", Size: 1, Place: comms.Place{Kind: comms.PlaceInline, Bytes: []byte{0}}}
		x.items = append(x.items, comms.ReportItem{Kind: comms.ReportFinished, Run: r.ID, At: x.a.w.wall().UnixNano(), Usage: &u, Outputs: []comms.Desc{d}})
		return
	}
	if len(x.ends) > 0 && (x.first+comms.RunID(len(x.ends)) != r.ID || len(x.ends) == comms.MaxSteps) {
		x.endRow()
	}
	if len(x.ends) == 0 {
		x.first = r.ID
	}
	x.ends = append(x.ends, u)
}

// endRow makes an item of runs without outputs.
func (x *executor) endRow() {
	if len(x.ends) == 0 {
		return
	}
	it := comms.ReportItem{Kind: comms.ReportSteps, Run: x.first, At: x.a.w.wall().UnixNano(), Steps: comms.AppendUsages(nil, x.ends)}
	if len(x.ends) == 1 {
		it = comms.ReportItem{Kind: comms.ReportFinished, Run: x.first, At: it.At, Usage: &x.ends[0]}
	}
	x.items = append(x.items, it)
	x.ends = nil
}

func (x *executor) flush() {
	x.endRow()
	if len(x.items) == 0 {
		return
	}
	items, n := x.items, x.told
	x.items, x.told = nil, 0
	x.tell(&comms.Report{Items: items}, n)
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
