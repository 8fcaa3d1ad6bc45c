package core

import (
	"strconv"
	"time"

	"github.com/cascade-run/cascade/tune/space"
)

// Verdict is what becomes of a trial after a result.
type Verdict int

// The verdicts.
const (
	Continue  Verdict = iota
	Pause             // save, and free the slot
	Terminate         // the trial has ended
)

// Decision is a scheduler's answer to a result.
type Decision struct {
	Verdict Verdict
	Reason  string // for people, with the numbers that decided
	Save    bool   // with Continue: save now
	Clone   *Clone // with Pause: run on as a copy of another trial, without saving
}

// Clone has a trial take over the checkpoint of another, with another configuration.
type Clone struct {
	Donor  ID     `json:"donor"`
	Config Values `json:"config"`
	Tag    string `json:"tag"` // is appended to the trial's, for people
}

// Scheduler decides which trials run, pause and end. It is called by the core alone, and is deterministic: it has no
// state but what the calls have told it, reads no clock, and draws random numbers from Board.Stream. A trial is
// told once to Add, and once to End; one that runs again after its end is added again.
type Scheduler interface {
	// Add tells of a new trial, which is PENDING.
	Add(b *Board, t *Trial)
	// Result tells of a result, and is answered with what becomes of the trial.
	Result(b *Board, t *Trial, r *Result) Decision
	// Rewind tells that the trial failed or was lost, and runs again behind its first n results.
	Rewind(b *Board, t *Trial, n int)
	// End tells that the trial has ended.
	End(b *Board, t *Trial, how End)
	// Choose returns the trial to run next: one that is queued, or PAUSED and waiting. Board.Next is the default.
	Choose(b *Board) (*Trial, bool)
	// Stuck is called when nothing runs, nothing can be chosen and there are PAUSED trials. It may wake or stop
	// some. Trials that stay are terminated.
	Stuck(b *Board)
}

// Forecaster is a Scheduler that knows ahead how far a trial may train before it could decide anything but
// Continue. Trials of others wait for a decision after each result.
type Forecaster interface {
	Credit(b *Board, t *Trial) Credit
}

// FIFO runs trials in the order in which they were suggested, to their ends.
type FIFO struct{ Default }

// Credit has no end.
func (FIFO) Credit(*Board, *Trial) Credit { return Credit{} }

// Default is what a Scheduler embeds for what it leaves as it is.
type Default struct{}

// Add does nothing.
func (Default) Add(*Board, *Trial) {}

// Result continues.
func (Default) Result(*Board, *Trial, *Result) Decision { return Decision{} }

// Rewind does nothing.
func (Default) Rewind(*Board, *Trial, int) {}

// End does nothing.
func (Default) End(*Board, *Trial, End) {}

// Choose returns the next trial of the run queue.
func (Default) Choose(b *Board) (*Trial, bool) { return b.Next() }

// Stuck does nothing.
func (Default) Stuck(*Board) {}

// Board is what a scheduler sees of the experiment, and what it can do to trials other than the one that it is asked about.
type Board struct{ c *Core }

// Now returns for how long the experiment has run.
func (b *Board) Now() time.Duration { return b.c.now }

// Trial returns a trial by its number.
func (b *Board) Trial(id ID) *Trial { return b.c.trials[id] }

// Trials returns all trials. The slice is the core's own.
func (b *Board) Trials() []*Trial { return b.c.trials }

// Next returns the first trial of the run queue: interrupted ones, then new ones in their order.
func (b *Board) Next() (*Trial, bool) { return b.c.first() }

// Count returns how many trials have a status.
func (b *Board) Count(s Status) int { return b.c.counts[s] }

// Others tells whether more trials wait than there are free slots.
func (b *Board) Others() bool {
	c := b.c
	return c.counts[Pending]-c.placing+c.counts[Paused] > c.slots-c.counts[Running]-c.placing
}

// Closed tells that no further trial will be added.
func (b *Board) Closed() bool { return !b.c.more() && b.c.asked == 0 }

// Better tells whether score x is better than y by the mode of the experiment. NaN is the worst.
func (b *Board) Better(x, y float64) bool { return b.c.better(x, y) }

// Metric returns the metric of a result.
func (b *Board) Metric(r *Result) (float64, bool) { return r.Value(b.c.opts.Metric) }

// Stream returns random numbers with a name: it is the same stream whenever it is asked for.
func (b *Board) Stream(parts ...string) *space.Stream {
	return space.NewStream(b.c.opts.Seed, parts...)
}

// StreamOf returns random numbers named after a trial and a number.
func (b *Board) StreamOf(t *Trial, what string, n int) *space.Stream {
	return b.Stream(what, strconv.Itoa(int(t.ID)), strconv.Itoa(n))
}

// Stop ends another trial. One that has ended stays as it is.
func (b *Board) Stop(t *Trial, reason string) { b.c.halt(t, EndScheduler, reason) }

// Wake puts a PAUSED trial into the run queue.
func (b *Board) Wake(t *Trial) {
	if t.Phase == Waiting {
		b.c.enqueue(t, true)
	}
}
