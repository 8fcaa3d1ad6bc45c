package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// world is everything around a core, in memory: a controller that commits, and
// executors that run tasks, fail, crash and are slow as pick decides. It checks
// what executors may rely on: that inputs are there and hold the right bytes,
// and that no more runs at once than the host has.
type world struct {
	t     fataler
	c     *Core
	cfg   Config
	now   time.Time
	pick  func(n int, what string) int // 0 <= result < n
	inbox []Event
	log   []Action // every action, when keep is set
	keep  bool

	workers []*worker
	segs    map[uint64]int64 // size of each segment that exists
	bytes   map[spot]string  // name of the dataset last written at a place
	spilled map[[32]byte]string

	jobs     map[comms.JobID]*dag.Graph
	next     uint64 // number of the next event that the controller expects
	done     map[comms.TaskID]int
	ends     map[comms.TaskID]comms.EventKind
	fence    map[comms.TaskID]uint32 // events of lower attempts count no more
	drained  map[comms.JobID]int
	events   []comms.Event
	hold     bool // the controller commits nothing
	uncommit []uint64
	again    bool // a new incarnation: events that were seen come again

	trace func(Event, []Action)

	calls *calling // what a task calls, when one does
	net   *network // to other worlds, when there are any
	id    int      // there
	// gone: the host is lost.
	gone bool

	failures, crashes, spillRot, diskFull int // of 1000
	hungry                                int // of 1000: acts of tasks with a bound of their memory that take more
	portsFail                             int
	leased                                int // ports that were not returned
	lastPort                              uint16
	segment                               int // of 1000: outputs that go to shared memory
	timer                                 time.Time
}

type fataler interface {
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Helper()
}

type spot struct {
	seg uint64
	off uint64
}

func newWorld(t fataler, cfg Config, pick func(n int, what string) int) *world {
	return &world{t: t, c: New(cfg), cfg: cfg, now: time.Unix(1_000_000, 0), pick: pick, next: cfg.LastEvent + 1,
		segs: map[uint64]int64{}, bytes: map[spot]string{}, spilled: map[[32]byte]string{}, jobs: map[comms.JobID]*dag.Graph{},
		done: map[comms.TaskID]int{}, ends: map[comms.TaskID]comms.EventKind{}, fence: map[comms.TaskID]uint32{}, drained: map[comms.JobID]int{}}
}

func (w *world) step(ev Event) {
	w.t.Helper()
	if w.gone {
		return
	}
	out := w.c.Step(w.now, ev)
	if w.trace != nil {
		w.trace(ev, out)
	}
	if err := w.c.Check(); err != nil {
		w.t.Fatalf("after %T: %v", ev, err)
	}
	if w.keep {
		w.log = append(w.log, out...)
	}
	w.checkGangs(out)
	for _, a := range out {
		w.perform(a)
	}
	w.checkResources()
}

func (w *world) post(ev Event) {
	if !w.gone {
		w.inbox = append(w.inbox, ev)
	}
}

func (w *world) perform(a Action) {
	switch a := a.(type) {
	case ToController:
		if m, ok := a.Msg.(*comms.Events); ok {
			w.commit(m)
		}
	case ToExecutor:
		if x := w.worker(a.Executor); x != nil {
			x.take(a.Msg)
		}
	case Spawn:
		w.workers = append(w.workers, &worker{w: w, id: a.Executor, kinds: map[uint32]*comms.Kind{}, segs: map[uint32]uint64{},
			live: map[comms.RunID][]uint32{}, devices: a.Devices})
		w.post(Spawned{Executor: a.Executor, PID: int64(a.Executor)})
		w.post(FromExecutor{a.Executor, &comms.Hello{Language: "go", Functions: []comms.FuncSig{{Name: "F"}, {Name: "G"}}}})
	case Kill:
		if x := w.worker(a.Executor); x != nil {
			x.die("killed: " + a.Why)
		}
	case Admit:
		w.admit(a)
	case BuildEnv:
		w.post(EnvReady{Job: a.Job, Name: a.Env.Name, Commands: a.Commands, Key: "env-" + a.Env.Name})
	case Memory:
		w.memory(a.Effect)
	case LeasePorts:
		w.lease(a)
	case ReturnPorts:
		w.leased -= len(a.Ports)
	case SetTimer:
		w.timer = a.At
	case ServeChunk:
		w.post(ChunkServed{a.Client, a.Msg.Req})
	default:
		if w.net != nil {
			w.net.perform(w, a)
		}
	}
}

// lease gives ports to a gang, or none.
func (w *world) lease(a LeasePorts) {
	ev := PortsLeased{ID: a.ID, Err: "all are in use"}
	if w.pick(1000, "ports") >= w.portsFail {
		ev.Err = ""
		for range a.N {
			w.lastPort++
			ev.Ports = append(ev.Ports, w.lastPort)
		}
		w.leased += a.N
	}
	w.post(ev)
}

func (w *world) memory(e any) {
	switch e := e.(type) {
	case ledger.CreateSegment:
		if w.pick(1000, "shm") < w.diskFull {
			w.post(SegmentReady{Segment: uint64(e.Segment), Err: fmt.Errorf("no space left on device")})
			return
		}
		w.segs[uint64(e.Segment)] = e.Bytes
		w.post(SegmentReady{Segment: uint64(e.Segment), Path: fmt.Sprintf("/shm/%d", e.Segment)})
	case ledger.ResizeSegment:
		w.segs[uint64(e.Segment)] = e.Bytes
		w.post(SegmentReady{Segment: uint64(e.Segment), Path: fmt.Sprintf("/shm/%d", e.Segment)})
	case ledger.SealSegment:
		w.segs[uint64(e.Segment)] = e.Bytes
	case ledger.RemoveSegment:
		delete(w.segs, uint64(e.Segment))
	case ledger.Spill:
		if w.pick(1000, "disk") < w.diskFull {
			w.post(SpillDone{Key: e.Key, Err: fmt.Errorf("no space left on device")})
			return
		}
		w.spilled[e.Key] = w.bytes[spot{uint64(e.From.Segment), uint64(e.From.Offset)}]
		w.post(SpillDone{Key: e.Key, File: "spill"})
	case ledger.ReadBack:
		if w.pick(1000, "rot") < w.spillRot {
			w.post(ReadBackDone{Key: e.Key, Err: fmt.Errorf("checksum differs")})
			return
		}
		w.bytes[spot{uint64(e.To.Segment), uint64(e.To.Offset)}] = w.spilled[e.Key]
		w.post(ReadBackDone{Key: e.Key})
	case ledger.DropSpill:
		delete(w.spilled, e.Key)
	case ledger.FreedRange:
		for s := range w.bytes {
			if s.seg == uint64(e.Place.Segment) && s.off >= uint64(e.Place.Offset) && s.off < uint64(e.Place.Offset+e.Place.Bytes) {
				w.bytes[s] = "freed"
			}
		}
	}
}

func (w *world) worker(id comms.ExecutorID) *worker {
	for _, x := range w.workers {
		if x.id == id {
			return x
		}
	}
	return nil
}

// commit takes a batch of events and commits it, now or later.
func (w *world) commit(m *comms.Events) {
	if w.again && m.First < w.next {
		return
	}
	if m.First != w.next {
		w.t.Fatalf("events from %d, expected %d", m.First, w.next)
	}
	for _, je := range m.Jobs {
		for _, e := range je.Events {
			w.next++
			w.event(je.Job, e)
		}
	}
	w.uncommit = append(w.uncommit, w.next-1)
	if !w.hold {
		w.commitAll()
	}
}

func (w *world) commitAll() {
	for _, n := range w.uncommit {
		w.post(FromController{Msg: &comms.Committed{UpTo: n}})
	}
	w.uncommit = nil
}

func (w *world) event(job comms.JobID, e comms.Event) {
	if e.Kind == comms.EventSteps {
		e.Each(func(one *comms.Event) bool { w.event(job, *one); return true })
		return
	}
	w.events = append(w.events, e)
	if w.net != nil && w.net.master != nil {
		w.net.master.event(w.id, e)
	}
	id := comms.TaskID{Job: job, Index: e.Task}
	if e.Attempt != 0 && e.Attempt < w.fence[id] {
		return
	}
	switch e.Kind {
	case comms.EventFinished:
		if w.done[id]++; w.done[id] > 1 {
			w.t.Fatalf("task %v finished twice", id)
		}
		w.ends[id] = e.Kind
	case comms.EventFailed, comms.EventSkipped, comms.EventCancelled:
		if k := w.ends[id]; k != 0 {
			w.t.Fatalf("task %v ended as %d after it ended as %d", id, e.Kind, k)
		}
		w.ends[id] = e.Kind
		if e.Error == nil || e.Error.Message == "" {
			w.t.Fatalf("task %v ended as %d without a reason", id, e.Kind)
		}
	case comms.EventRetry, comms.EventLost:
		delete(w.done, id)
		delete(w.ends, id)
	case comms.EventDrained:
		w.drained[job]++
	}
}

func (w *world) assign(id byte, g *dag.Graph, m comms.Assign) comms.JobID {
	var job comms.JobID
	job[0] = id
	w.jobs[job] = g
	m.Job = job
	if m.Epoch == 0 {
		m.Epoch = 1
	}
	w.step(FromController{Msg: &m, Graph: g})
	return job
}

// runs lets the world go on until nothing is left to do.
func (w *world) run() {
	w.t.Helper()
	for range 2_000_000 {
		if !w.turn() {
			return
		}
	}
	w.t.Fatalf("it never ends")
}

// turn does one thing that can be done, as pick decides; false when there is nothing.
func (w *world) turn() bool {
	w.t.Helper()
	can := w.able()
	n := len(can)
	if len(w.inbox) > 0 {
		n++
	}
	if n == 0 {
		before := len(w.inbox)
		w.step(Idle{})
		if len(w.inbox) > before {
			return true
		}
		if !w.timer.IsZero() {
			w.now = maxTime(w.now, w.timer)
			w.timer = time.Time{}
			w.step(Tick{})
			return true
		}
		return false
	}
	w.one(can, n)
	return true
}

func (w *world) able() (can []*worker) {
	for _, x := range w.workers {
		if x.canAct() {
			can = append(can, x)
		}
	}
	return can
}

// one does one of the n things that can be done.
func (w *world) one(can []*worker, n int) {
	w.t.Helper()
	k := w.pick(n, "who")
	w.now = w.now.Add(10 * time.Microsecond)
	if k < len(can) {
		can[k].act()
	} else {
		ev := w.inbox[0]
		w.inbox = w.inbox[1:]
		w.step(ev)
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// checkGangs finds all members of each gang that starts in one step, each with a
// port of its own, and no member of an earlier start that could still speak.
func (w *world) checkGangs(out []Action) {
	w.t.Helper()
	starts := map[string][]string{} // members of one start, by their addresses
	for _, a := range out {
		m, ok := a.(ToExecutor)
		if !ok {
			continue
		}
		d, ok := m.Msg.(*comms.Dispatch)
		for i := 0; ok && i < len(d.Runs); i++ {
			env := map[string]string{}
			for _, kv := range d.Runs[i].Env {
				name, value, _ := strings.Cut(kv, "=")
				env[name] = value
			}
			if all := env["CASCADE_GANG_MEMBERS"]; all != "" {
				starts[all] = append(starts[all], env["CASCADE_GANG_RANK"]+" of "+env["CASCADE_GANG_SIZE"]+" on "+env["CASCADE_GANG_PORT"])
			}
		}
	}
	for all, members := range starts {
		if n := len(strings.Split(all, ",")); n != len(members) {
			w.t.Fatalf("%d of %d members of a gang start together: %v", len(members), n, members)
		}
		slices.Sort(members)
		if len(slices.Compact(members)) != len(strings.Split(all, ",")) {
			w.t.Fatalf("two members of a gang are one: %v", members)
		}
	}
}

// checkDevices finds with each process the devices that its tasks ask for, and none over
// its capacity by what the processes that live had: they may keep it as long as they do.
func (w *world) checkDevices() {
	used, memory := map[string]int64{}, map[string]int64{}
	for _, x := range w.workers {
		if x.dead {
			continue
		}
		for i := range x.queue {
			k := x.kinds[x.queue[i].Kind]
			if g := w.jobs[k.Job]; g != nil && int(x.queue[i].Task) < g.NumTasks() {
				x.memory = g.Group(x.queue[i].Task).Resources.GPUMemory
			}
			gpu := k.Resources.GPU
			n, each := demand{gpu: gpu}.count()
			if gpu == 0 {
				n = 0
			}
			if len(x.devices) != n || x.share != 0 && x.share != each.gpu {
				w.t.Fatalf("a task that needs %d gpu is given to executor %d, which has %d of each of %v", gpu, x.id, x.share, x.devices)
			}
			x.share = each.gpu
		}
		for _, name := range x.devices {
			if used[name] += x.share; used[name] > wholeDevice {
				w.t.Fatalf("processes that live have %d thousandths of device %s", used[name], name)
			}
			if memory[name] += x.memory; memory[name] > 8<<30 {
				w.t.Fatalf("processes that live were promised %d bytes of device %s", memory[name], name)
			}
		}
	}
}

// checkResources sums what runs now.
func (w *world) checkResources() {
	w.checkDevices()
	used := map[string]int64{}
	for _, x := range w.workers {
		r := x.cur
		if r == nil && len(x.queue) > 0 {
			r = &x.queue[0]
		}
		if r == nil || x.dead {
			continue
		}
		k := x.kinds[r.Kind]
		if !x.held {
			used["cpu"] += k.Resources.CPU
		}
		used["memory"] += k.Resources.Memory
		used["gpu"] += k.Resources.GPU
		for _, a := range k.Resources.Custom {
			used[a.Name] += a.N
		}
	}
	total := map[string]int64{"cpu": w.cfg.Total.CPU, "memory": w.cfg.Total.Memory, "gpu": w.cfg.Total.GPU}
	for _, a := range w.cfg.Total.Custom {
		total[a.Name] = a.N
	}
	for name, n := range used {
		if n > total[name] {
			w.t.Fatalf("%d of %s run at once, there are %d", n, name, total[name])
		}
	}
}
