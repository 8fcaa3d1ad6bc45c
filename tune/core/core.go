package core

import (
	"fmt"
	"math"
	"time"
)

// Options are the rules of an experiment. They are the same for all runners of it.
type Options struct {
	Metric         string `json:"metric,omitempty"`          // that decides what is better; it may be empty if the scheduler needs none
	Max            bool   `json:"max,omitempty"`             // more of it is better
	SearcherMetric string `json:"searcher_metric,omitempty"` // that a searcher goes by, if it has one of its own
	Samples        int    `json:"samples,omitempty"`         // trials; -1: until the searcher has no more
	Ahead          int    `json:"ahead,omitempty"`           // so many trials are suggested before there is a slot for them
	Seed           int64  `json:"seed,omitempty"`

	MaxFailures int  `json:"max_failures,omitempty"` // failures of one trial after which it runs again; -1: no bound
	FailFast    bool `json:"fail_fast,omitempty"`    // the first trial that ends with an error ends all
	Lenient     bool `json:"lenient,omitempty"`      // a result without the metric is no error of its trial

	Keep    int    `json:"keep,omitempty"`              // checkpoints of a trial that are kept besides the newest; 0: all
	KeepBy  string `json:"keep_by,omitempty"`           // metric of the best checkpoints; empty: the newest are the best
	KeepMin bool   `json:"keep_min,omitempty"`          // less of KeepBy is better
	Every   int    `json:"checkpoint_freq,omitempty"`   // a worker that can saves after each so many results; 0: not
	AtEnd   bool   `json:"checkpoint_at_end,omitempty"` // and at its end

	Stop    []Condition   `json:"stop,omitempty"`   // the first that holds ends a trial
	Stopper Stopper       `json:"-"`                // nil: none
	Budget  time.Duration `json:"budget,omitempty"` // for which the experiment may run; 0: no bound
	Strict  bool          `json:"strict,omitempty"` // a decision for each result, no credit beyond it; a first result without a metric that a rule names is an error
}

// Stopper ends trials, or the experiment. It is deterministic, and its state is what it was told.
type Stopper interface {
	// Stop is called once for each accepted result, and tells whether the trial ends.
	Stop(trial ID, r *Result) (bool, string)
	// StopAll tells whether the experiment ends. It is called after Stop.
	StopAll() (bool, string)
}

// Core is the runner of one experiment. Step is all that changes it, and it is called by one goroutine.
type Core struct {
	opts   Options
	sched  Scheduler
	board  *Board
	now    time.Duration
	slots  int
	trials []*Trial
	counts map[Status]int

	interrupted, queue []entry // the run queue, its stale entries not yet removed
	placing            int     // trials that are PENDING and have a worker that starts
	samples            int     // how many trials there may be; -1: no bound
	asked              int     // configurations that the searcher owes
	notNow             bool    // it said that it has none now
	exhausted          bool    // it said that it has no more
	halted             string  // why the experiment stops; empty: it does not
	finished           bool
	pins               map[string]int // checkpoints that takeovers need, by name
	wanted             *wanted
	out                []Action
}

type entry struct {
	id    ID
	queue int
}

// New returns the core of an experiment to which nothing has happened.
func New(o Options, s Scheduler) *Core {
	if s == nil {
		s = FIFO{}
	}
	c := &Core{opts: o, sched: s, counts: map[Status]int{}, samples: o.Samples, pins: map[string]int{}, wanted: newWanted(&o, s)}
	c.board = &Board{c}
	return c
}

// Trials returns all trials by their number. They may be read between two steps.
func (c *Core) Trials() []*Trial { return c.trials }

// Count returns how many trials have a status.
func (c *Core) Count(s Status) int { return c.counts[s] }

// Finished tells that the experiment has ended.
func (c *Core) Finished() bool { return c.finished }

// Slots returns how many trials may run at once.
func (c *Core) Slots() int { return c.slots }

// Now returns the time of the last event.
func (c *Core) Now() time.Duration { return c.now }

// Missing says which metrics the rules name that no result has had; nothing before the first result.
func (c *Core) Missing() []string { return c.wanted.says() }

// Halted returns why the experiment stops, or an empty text.
func (c *Core) Halted() string { return c.halted }

// Step returns what is to be done because of an event. The caller has recorded the event, or records it before it does
// anything.
func (c *Core) Step(e *Event) []Action {
	c.out = nil
	c.now = max(c.now, e.At)
	switch e.Kind {
	case Begun:
		c.begin(e)
	case Suggested:
		c.suggested(e)
	case Reported, Saved, Exited:
		if int(e.Trial) < len(c.trials) && e.Trial >= 0 && c.trials[e.Trial].Attempt == e.Attempt && c.trials[e.Trial].HasWorker() {
			c.worker(c.trials[e.Trial], e)
		}
	case Ordered:
		c.ordered(e)
	}
	if b := c.opts.Budget; b > 0 && c.now >= b {
		c.haltAll(fmt.Sprintf("the time budget of %s is used", b))
	}
	c.fill()
	return c.out
}

func (c *Core) do(a Action) { c.out = append(c.out, a) }

// begin starts a runner: workers of the one before have ended with it.
func (c *Core) begin(e *Event) {
	c.slots, c.asked, c.notNow, c.exhausted, c.finished = e.Slots, 0, false, false, false
	if e.Redo.Stopped {
		c.halted = ""
	}
	for _, t := range c.trials {
		switch {
		case t.HasWorker():
			t.clone = nil
			if t.want >= stop {
				c.finish(t, t.end)
			} else {
				c.requeue(t)
			}
		case t.Phase == Awaiting: // the save that it awaits has ended with its worker
			c.await(t)
		case t.Status == Errored && (e.Redo.Errored || e.Redo.Restart), t.Status == Terminated && t.End == EndOrder && e.Redo.Stopped:
			c.revive(t, e.Redo.Restart && t.Status == Errored)
		}
	}
}

func (c *Core) revive(t *Trial, restart bool) {
	if restart {
		c.unpin(t)
		c.discard(t)
		t.resume = nil
	}
	t.Failures, t.Error, t.Reason, t.End, t.want, t.done = 0, "", "", "", goOn, false
	c.sched.Add(c.board, t)
	c.requeue(t)
}

func (c *Core) suggested(e *Event) {
	c.asked = max(0, c.asked-e.N)
	switch {
	case e.Cause == CauseFinished:
		c.exhausted = true
	case e.Cause == CauseNotNow:
		c.notNow = true
	case e.Error != "":
		c.haltAll("the searcher failed: " + e.Error)
	}
	for _, config := range e.Configs {
		t := &Trial{ID: ID(len(c.trials)), Config: config, Created: c.now, asked: -1}
		c.trials = append(c.trials, t)
		c.counts[Pending]++
		t.Status = Pending
		c.enqueue(t, false)
		c.sched.Add(c.board, t)
		if c.halted != "" {
			c.halt(t, EndOrder, c.halted)
		}
	}
}

func (c *Core) ordered(e *Event) {
	switch e.Order {
	case OrderStopTrial:
		if int(e.Trial) < len(c.trials) && e.Trial >= 0 {
			c.halt(c.trials[e.Trial], EndOrder, "a user stopped it")
		}
	case OrderStop:
		c.haltAll("a user stopped the experiment")
	case OrderSamples:
		if c.samples >= 0 {
			c.samples += e.N
		}
	case OrderSlots:
		c.slots = e.N
	}
}

// haltAll stops the experiment: all trials that have not ended.
func (c *Core) haltAll(reason string) {
	if c.halted != "" {
		return
	}
	c.halted = reason
	for _, t := range c.trials {
		c.halt(t, EndOrder, reason)
	}
}

func (c *Core) better(x, y float64) bool {
	switch {
	case math.IsNaN(x):
		return false
	case math.IsNaN(y):
		return true
	case c.opts.Max:
		return x > y
	}
	return x < y
}

// more tells whether the searcher may be asked for another trial.
func (c *Core) more() bool {
	return c.halted == "" && !c.exhausted && (c.samples < 0 || len(c.trials)+c.asked < c.samples)
}

// set changes the status and phase of a trial.
func (c *Core) set(t *Trial, s Status, p Phase) {
	c.counts[t.Status]--
	c.counts[s]++
	if t.Phase == Placing {
		c.placing--
	}
	if p == Placing {
		c.placing++
	}
	t.Status, t.Phase = s, p
}

func (c *Core) enqueue(t *Trial, interrupted bool) {
	c.set(t, Pending, Queued)
	t.queue++
	if interrupted {
		c.interrupted = append(c.interrupted, entry{t.ID, t.queue})
	} else {
		c.queue = append(c.queue, entry{t.ID, t.queue})
	}
}

// first returns the trial that is first in the run queue.
func (c *Core) first() (*Trial, bool) {
	for _, q := range []*[]entry{&c.interrupted, &c.queue} {
		for len(*q) > 0 {
			t := c.trials[(*q)[0].id]
			if t.Phase == Queued && t.queue == (*q)[0].queue {
				return t, true
			}
			*q = (*q)[1:]
		}
	}
	return nil, false
}

// fill starts trials while there are slots, asks for more, and finds out that all is over.
func (c *Core) fill() {
	if c.finished {
		return
	}
	free := func() int { return c.slots - c.counts[Running] - c.placing }
	for tried := false; ; {
		for free() > 0 {
			t, ok := c.sched.Choose(c.board)
			if !ok || t.Phase != Queued && t.Phase != Waiting {
				break
			}
			c.place(t)
		}
		if tried || c.counts[Running]+c.placing > 0 || c.asked > 0 || c.more() && !c.notNow || c.counts[Paused] == 0 || free() <= 0 {
			break
		}
		c.sched.Stuck(c.board) // nothing runs and none is chosen: only the scheduler can go on
		tried = true
	}
	queued := c.counts[Pending] - c.placing
	if n := max(0, free()) + c.opts.Ahead - queued - c.asked; n > 0 && c.more() && !c.notNow {
		if c.samples >= 0 {
			n = min(n, c.samples-len(c.trials)-c.asked)
		}
		c.asked += n
		c.do(Action{Kind: Ask, N: n})
	}
	if c.counts[Running]+c.placing > 0 || c.asked > 0 || queued > 0 || c.slots <= 0 {
		return
	}
	if c.notNow && c.more() && c.counts[Paused] == 0 { // it said so although nothing runs: it is asked after a while
		c.notNow = false
		c.asked++
		c.do(Action{Kind: Ask, N: 1, Reason: "later"})
		return
	}
	for _, t := range c.trials {
		if t.Status == Paused {
			c.halt(t, EndScheduler, "it was paused, and the scheduler has no way to go on with it")
		}
	}
	if c.more() { // one of them has made the searcher hold back
		c.fill()
		return
	}
	c.finished = true
	c.do(Action{Kind: Finish, Reason: c.halted})
}
