package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/memnet"
	"github.com/cascade-run/cascade/internal/eventqueue"
)

// Result is how a run went.
type Result struct {
	Seed  uint64
	Err   error         // the first thing that did not hold; nil: all is well
	Story []Line        // with Options.Story
	Jobs  int           // jobs submitted
	Steps int           // steps of cores and executors
	Time  time.Duration // virtual
	Job   comms.JobID   // that Err concerns; zero: none in particular
	Parts []string      // groups of jobs, each as JOB.GROUP; programs and their acts, as they ran
}

// Bounds of a run. One that passes them never ends.
const (
	maxSteps = 200_000
	patience = 3 * time.Minute // virtual, after all is well again
)

// epoch is the wall-clock time at virtual time 0.
var epoch = time.Unix(1_800_000_000, 0).UTC()

// world is all there is.
type world struct {
	rnd     *rand.Rand
	seed    uint64
	now     time.Duration
	stepped time.Duration // by which the wall clock was set forward
	agenda  eventqueue.Agenda[func()]
	net     *memnet.Net[comms.Message] // controller, agents, client
	lan     *memnet.Net[comms.Message] // agents with their executors: a broken link is an end
	steps   int

	without    []string
	ran        map[uint64]bool // programs, by their numbers
	referred   []referred      // what references must yield
	runParts   []string        // of those
	fate       fates
	drawn      fates // what fate was before all was well
	controller *controller
	agents     []*agent
	executors  map[string]*executor // by node name, also dead ones
	moves      []*move              // transfers between agents
	wire       *wire                // what carries their bytes; nil: they take a random time
	apart      map[[2]string]bool   // nodes that cannot reach each other
	halfway    map[[2]string]bool   // of which one cannot reach the other
	silent     map[[2]string]bool   // for so long that they have ended their links
	client     *client
	oracle     *oracle
	healed     bool
	done       bool

	heard func(who, way string, m comms.Message) // of tests; may be nil

	failed    error
	failedJob comms.JobID
	keep      bool
	story     []Line
}

// Run simulates one seed. A panic of a core is a finding like any other.
func Run(opt Options) (res Result) {
	w := newWorld(opt)
	defer func() {
		if p := recover(); p != nil {
			w.fail(comms.JobID{}, "panic: %v", p)
		}
		res = Result{Seed: opt.Seed, Err: w.failed, Story: w.story, Jobs: len(w.client.jobs), Steps: w.steps, Time: w.now, Job: w.failedJob, Parts: append(w.parts(), w.runParts...)}
	}()
	w.run()
	return res
}

func newWorld(opt Options) *world {
	w := &world{rnd: rand.New(rand.NewPCG(opt.Seed, 1)), keep: opt.Story, without: opt.Without, executors: map[string]*executor{}, apart: map[[2]string]bool{},
		halfway: map[[2]string]bool{}, silent: map[[2]string]bool{}, ran: map[uint64]bool{}}
	w.fate = drawFates(w.rnd)
	if opt.Seed%5 == 3 { // not drawn: the other seeds stay what they were
		w.fate.improves = 1 + int(opt.Seed/5%30)
	}
	if opt.Gangs {
		w.fate.gangs, w.fate.spans = 500, 500
	}
	w.fate.drains, w.fate.late, w.fate.calls, w.seed = drawDrains(opt.Seed), drawLate(opt.Seed), drawCalls(opt.Seed), opt.Seed
	w.fate.seen = drawSeen(opt.Seed)
	w.fate.hosts = drawBandwidth(opt.Seed)
	w.fate.shards = drawShards(opt.Seed)
	w.fate.drawOneWay(opt.Seed)
	w.fate.drawHunger(opt.Seed)
	w.fate.drawPrograms(opt.Seed)
	if opt.Devices {
		w.fate.drawDevices(opt.Seed)
	}
	if opt.Steals {
		w.fate.drawSteals(opt.Seed)
	}
	if opt.Forwards {
		w.fate.drawForwards(opt.Seed)
	}
	if opt.Rots {
		w.fate.drawRots(opt.Seed)
	}
	if opt.Varies {
		w.fate.drawVaries(opt.Seed)
	}
	if opt.Programs {
		w.fate.drawManyPrograms(opt.Seed)
	}
	for _, t := range tamings() {
		if slices.Contains(opt.Without, t.name) {
			t.tame(&w.fate)
		}
	}
	w.drawn = w.fate
	w.net = network(opt.Seed, w.fate.slowest, true, w.fate)
	w.lan = network(opt.Seed+1, min(w.fate.slowest, time.Millisecond), false, w.fate)
	w.oracle = newOracle(w)
	w.controller = newController(w)
	for i := range w.fate.agents {
		w.agents = append(w.agents, newAgent(w, fmt.Sprintf("agent%d", i)))
	}
	if w.fate.hosts != nil {
		w.wire = newWire(w)
	}
	w.client = newClient(w)
	return w
}

// parts names the groups of all jobs.
func (w *world) parts() (names []string) {
	for _, j := range w.client.jobs {
		for i := range j.graph.Groups {
			names = append(names, j.graph.Name+"."+j.graph.Groups[i].Name)
		}
	}
	return names
}

func network(seed uint64, slowest time.Duration, replay bool, f fates) *memnet.Net[comms.Message] {
	cfg := memnet.Config[comms.Message]{
		Seed: seed, Replay: replay, MinDelay: 10 * time.Microsecond, MaxDelay: slowest, ResumeWindow: f.resume, QueueMessages: f.queue, Silence: f.silence,
		Encode: func(m comms.Message) (head, body []byte, err error) { return comms.Encode(m), nil, nil },
		Decode: func(head, _ []byte) (comms.Message, error) { return comms.Decode(head) },
	}
	n, err := memnet.New(cfg)
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err)) // a mistake of this package
	}
	return n
}

// run is the loop of the world: the earliest of agenda and networks goes first.
func (w *world) run() {
	w.controller.boot()
	w.bootAgents()
	w.client.boot()
	w.disturb()
	w.at(w.fate.heal, w.heal)
	for w.failed == nil && !w.done {
		if w.steps > maxSteps {
			w.fail(comms.JobID{}, "it never settles: %d steps", w.steps)
		}
		if w.now > w.fate.heal+patience && w.client.stage < stageOver {
			w.unfinished()
			return
		}
		w.next()
	}
}

func (w *world) next() {
	const never = time.Duration(1<<63 - 1)
	when := func(n *memnet.Net[comms.Message]) time.Duration {
		if at, ok := n.When(); ok {
			return at
		}
		return never
	}
	net, lan, own := when(w.net), when(w.lan), never
	if due, ok := w.agenda.Due(); ok {
		own = due
	}
	switch {
	case own == never && net == never && lan == never:
		w.unfinished()
	case own <= net && own <= lan:
		at, do := w.agenda.Take()
		w.now = max(w.now, at)
		do()
	case net <= lan:
		w.deliver(w.net, net, false)
	default:
		w.deliver(w.lan, lan, true)
	}
}

// deliver lets one step of a network happen.
func (w *world) deliver(n *memnet.Net[comms.Message], at time.Duration, lan bool) {
	w.now = max(w.now, at)
	_, d, ok := n.Next(w.now)
	if !ok {
		return
	}
	if d.Kind == memnet.Message && d.Err != nil {
		w.fail(comms.JobID{}, "a message from %s to %s cannot be decoded: %v", d.From, d.To, d.Err)
		return
	}
	if d.Kind != memnet.Message && d.Kind != memnet.Credit {
		w.tell(d.To, nil, "link with %s: %s, resumed %v, final %v", d.From, d.Kind, d.Resumed, d.Final)
	}
	if x := w.executors[d.To]; lan && x != nil {
		x.deliver(d)
		return
	}
	if d.To == w.controller.name {
		w.controller.deliver(d)
		return
	}
	if d.To == w.client.name {
		w.client.deliver(d)
		return
	}
	for _, a := range w.agents {
		if a.name == d.To && lan {
			a.fromLan(d)
		} else if a.name == d.To {
			a.deliver(d)
		}
	}
}

// fail notes the first thing that does not hold.
func (w *world) fail(job comms.JobID, format string, args ...any) {
	if w.failed != nil {
		return
	}
	w.failed, w.failedJob = fmt.Errorf(format, args...), job
	w.tell("oracle", []comms.JobID{job}, "FAILED: %v", w.failed)
}

// unfinished tells what has not come to its end.
func (w *world) unfinished() {
	job, text := w.client.waitsFor()
	w.fail(job, "%v after all was well again: %s", patience, text)
}

// wall is the time that cores are told: as time.Now does, it tells the wall clock,
// which may be set, and the monotonic one, which goes on.
func (w *world) wall() time.Time { return clock(epoch.Add(w.now+w.stepped), w.now) }

// chance is true n times of 1000. It always draws, so that fates do not depend on n.
func (w *world) chance(n int) bool { return w.rnd.IntN(1000) < n }

// between draws a duration.
func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rnd.Int64N(int64(max(to-from, 0))+1))
}

// at plans a step.
func (w *world) at(t time.Duration, do func()) {
	w.agenda.Add(max(t, w.now), do)
}

func (w *world) after(d time.Duration, do func()) { w.at(w.now+d, do) }

// process is what controller, agents, executors and clients have in common: an
// inbox that is worked off in turns, a life that may end, and freezes.
type process struct {
	w       *world
	name    string
	life    uint64 // counts starts: what was planned in an earlier life is void
	running bool
	inbox   []func()
	due     bool
	frozen  time.Duration // until
	idle    func()        // at the end of a turn; may be nil
}

func (p *process) begin() {
	p.life++
	p.running, p.inbox, p.due, p.frozen = true, nil, false, 0
}

func (p *process) end() { p.running, p.inbox, p.due = false, nil, false }

// post puts something into the inbox.
func (p *process) post(do func()) {
	if !p.running {
		return
	}
	p.inbox = append(p.inbox, do)
	p.rouse()
}

// rouse plans a turn.
func (p *process) rouse() {
	if p.due {
		return
	}
	p.due = true
	p.after(p.w.between(0, 30*time.Microsecond), p.turn)
}

// turn works off the inbox; what is posted meanwhile comes with the next turn.
func (p *process) turn() {
	p.due = false
	items := p.inbox
	p.inbox = nil
	life := p.life
	for _, do := range items {
		if do(); p.life != life || !p.running || p.w.failed != nil {
			return
		}
	}
	if p.idle != nil && len(p.inbox) == 0 {
		p.idle()
	}
}

// after plans something within this life; it waits for the end of a freeze.
func (p *process) after(d time.Duration, do func()) {
	life := p.life
	p.w.after(d, func() {
		switch {
		case p.life != life || !p.running:
		case p.frozen > p.w.now:
			p.after(p.frozen-p.w.now, do)
		default:
			do()
		}
	})
}

// outbox is what a driver keeps of a link that is full.
type outbox struct {
	held []comms.Message
	news int // links that have begun of which the core has not heard: it sends over the one before, which has ended
}

// send sends a message or keeps it. full is true when it is the first that has to wait.
func (o *outbox) send(w *world, n *memnet.Net[comms.Message], from, to string, m comms.Message) (full bool) {
	if o.news > 0 {
		return false
	}
	if len(o.held) > 0 {
		o.held = append(o.held, m)
		return false
	}
	switch err := n.Send(w.now, from, to, m); {
	case err == nil || errors.Is(err, memnet.ErrNoLink): // its end is on the way
	case errors.Is(err, memnet.ErrFull):
		o.held = append(o.held, m)
		return true
	default:
		w.fail(comms.JobID{}, "%s cannot send %T to %s: %v", from, m, to, err)
	}
	return false
}

// begins notes that another link has begun. The core hears of it later, by heard.
func (o *outbox) begins() { o.news++ }

// heard drops what waits: it was for the link before.
func (o *outbox) heard() { *o = outbox{news: o.news - 1} }

// ends drops what waits for a link that has ended.
func (o *outbox) ends() { *o = outbox{news: o.news} }

// credit sends what was kept; it tells whether there was something and now is nothing.
func (o *outbox) credit(w *world, n *memnet.Net[comms.Message], from, to string) bool {
	if len(o.held) == 0 {
		return false
	}
	held := o.held
	o.held = nil
	for i, m := range held {
		if o.send(w, n, from, to, m) {
			o.held = append(o.held, held[i+1:]...)
			return false
		}
	}
	return true
}
