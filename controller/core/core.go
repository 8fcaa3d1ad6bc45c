package core

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Core is the controller's state. It belongs to one goroutine.
type Core struct {
	cfg     Config
	now     time.Time
	out     []Action
	started bool   // every job is loaded
	paused  string // why the store commits nothing; empty: it does

	links   map[LinkID]*link
	agents  map[string]*agent
	roster  roster // of agents
	jobs    map[comms.JobID]*job
	running map[comms.JobID]*job // those that have not ended
	kept    retention
	graph   comms.Hash // of the last submit: equal ones share it
	token   uint64
	lives   uint64             // of jobs, given out
	builds  map[uint64]float64 // seconds that environments took, by planner.EnvironmentID
	learned []uint64           // of builds, the one learned longest ago first
	pending map[uint64]pending

	turn     *gathering // the gang that holds what it needs; nil: none
	turns    uint64     // given so far
	mustered bool       // gangs may be ready that were not

	departs bool      // agents leave that are not dismissed yet
	expects bool      // tasks wait for an agent with more memory that may come
	touched []*job    // since the last Step began
	late    []*watch  // have something to tell, and must wait until it is due
	due     time.Time // the first of them
	wake    time.Time
	sweep   time.Time // when ended jobs are looked at next
	evenAt  time.Time // when idle agents may have work of jobs that are left alone until then
}

// pending is what to do when something slow has ended.
type pending struct {
	what   what
	job    *job // it may be gone by then, and another have its ID
	agent  string
	batch  *batch
	link   LinkID
	req    uint64
	send   *orders // with onRow: only now may the agents be told
	former []*part // with onRow: so may these, that the job is theirs no more
	retire bool    // with onDeleted: the rule of retention asked for it
	watch  *watch  // with onAnswered: the store is asked how the job ended
}

type what uint8

const (
	onCreated   what = iota + 1 // a job is durable
	onCommitted                 // a batch, or part of one, is durable
	onEnded                     // and with it the end of its job
	onDeleted
	onRow      // a row is durable; the request, if there is one, is answered
	onAnswered // a client waits for the answer
)

// New returns a core that knows nothing.
func New(cfg Config) *Core {
	cfg.Grace = cmp.Or(cfg.Grace, DefaultGrace)
	cfg.WatchEvery = cmp.Or(cfg.WatchEvery, 100*time.Millisecond)
	cfg.MaxUnread = cmp.Or(cfg.MaxUnread, 10_000)
	cfg.MaxEvents = cmp.Or(cfg.MaxEvents, 10_000)
	cfg.Thrift = cmp.Or(cfg.Thrift, thrift)
	return &Core{cfg: cfg, links: map[LinkID]*link{}, agents: map[string]*agent{}, jobs: map[comms.JobID]*job{},
		running: map[comms.JobID]*job{}, pending: map[uint64]pending{}}
}

// Step takes one event in and returns what must be done, in order. Equal events
// give equal actions. The slice is valid until the next Step.
func (c *Core) Step(now time.Time, ev Event) []Action {
	c.now, c.out = now, c.out[:0]
	switch ev := ev.(type) {
	case LinkUp:
		c.linkUp(ev)
	case LinkDown:
		c.linkDown(ev)
	case Received:
		c.received(ev)
	case Full:
		if l := c.links[ev.Link]; l != nil {
			l.full = true
		}
	case Free:
		c.linkFree(ev.Link)
	case Prepared:
		c.prepared(&ev)
	case Improved:
		c.improved(&ev)
	case Departed:
		c.departed(ev.Job)
	case Stored:
		c.stored(ev)
	case Answered:
		c.answered(ev)
	case Loaded:
		c.loaded(&ev)
	case Known:
		c.expect(&ev.Row)
	case Started:
		c.started = true
		c.kept.sort()
		c.retire()
		for _, j := range c.sortedJobs() {
			c.place(j)
		}
	case Paused:
		c.paused = ev.Why
		for _, j := range c.sortedJobs() {
			c.touch(j)
		}
	case Tick:
		c.wake = time.Time{}
		c.tick()
	default:
		panic(fmt.Sprintf("controller/core: unknown event %T", ev))
	}
	c.gather()
	c.dismissAll()
	c.tellWatchers()
	c.setWake()
	return c.out
}

func (c *Core) emit(a Action) { c.out = append(c.out, a) }

// await returns a token for something slow.
func (c *Core) await(p pending) uint64 {
	c.token++
	c.pending[c.token] = p
	return c.token
}

func (c *Core) received(ev Received) {
	l := c.links[ev.Link]
	if l == nil {
		return
	}
	if l.agent {
		c.fromAgent(l, ev.Msg)
	} else {
		c.fromClient(l, ev.Msg)
	}
}

func (c *Core) stored(ev Stored) {
	p := c.pending[ev.Token]
	delete(c.pending, ev.Token)
	j := p.job
	if j != nil && j.gone {
		j = nil
	}
	switch p.what {
	case onCreated:
		if j != nil && j.live != nil {
			j.rec.Stored += ev.Bytes
			c.created(j, ev)
		}
	case onEnded:
		if j != nil && j.live != nil {
			j.rec.Stored += ev.Bytes
			c.ended(j)
		}
		c.batchStored(p)
	case onCommitted:
		if j != nil && j.live != nil {
			j.rec.Stored += ev.Bytes
		}
		c.batchStored(p)
	case onDeleted:
		if p.retire {
			c.kept.deleting--
		}
		c.retire()
		if j != nil {
			c.deleted(j, p)
		}
	case onRow:
		c.forgetFormer(p.job, p.former)
		if j != nil && j.live != nil && p.send != nil && j.assign == p.send {
			j.assign = nil
			c.sendKept(j, p.send)
			if p.send.spare != nil {
				c.moved(j, p.send.spare)
			}
			if j.rec.Cancel != "" && j.stage == stageActive && j.ending == nil && j.stopped() {
				c.endUnassigned(j) // its agents have said that they have nothing of it
			}
		}
		if l := c.links[p.link]; l != nil {
			c.reply(l, p.req, comms.CodeOK, "")
		}
	case onAnswered:
	}
}

func (c *Core) answered(ev Answered) {
	p := c.pending[ev.Token]
	delete(c.pending, ev.Token)
	l := c.links[p.link]
	if l == nil {
		return
	}
	switch m := ev.Msg.(type) {
	case *comms.Located:
		c.addresses(m)
	case *comms.Progress:
		if !m.Phase.Final() { // it ran again before the store was read
			c.watchJob(l, m.Job, p.watch)
			return
		}
	}
	c.send(l, ev.Msg)
}

func (c *Core) tick() {
	c.giveUpAway()
	c.reconsider()
	if !c.evenAt.IsZero() && !c.now.Before(c.evenAt) {
		c.even()
	}
	if !c.sweep.IsZero() && !c.now.Before(c.sweep) {
		c.sweep = time.Time{}
		c.retire()
	}
}

// setWake asks for the next Tick when the time has changed.
func (c *Core) setWake() {
	var at time.Time
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if !c.due.IsZero() {
		earlier(c.due)
	}
	if !c.evenAt.IsZero() {
		earlier(c.evenAt)
	}
	if away := c.ofAll().away; !away.IsZero() {
		earlier(away.Add(c.cfg.Grace))
	}
	if c.cfg.TTL > 0 {
		if c.sweep.IsZero() {
			c.sweep = c.now.Add(min(c.cfg.TTL, time.Minute))
		}
		earlier(c.sweep)
	}
	if !at.IsZero() && !at.Equal(c.wake) {
		c.wake = at
		c.emit(Wake{at})
	}
}
