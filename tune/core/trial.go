package core

import (
	"math"
	"time"
)

// Status is what users see of a trial's state.
type Status string

// The statuses of a trial.
const (
	Pending    Status = "PENDING"
	Running    Status = "RUNNING"
	Paused     Status = "PAUSED"
	Errored    Status = "ERRORED"
	Terminated Status = "TERMINATED"
)

// Statuses are all statuses, in the order in which tables show them.
var Statuses = []Status{Running, Terminated, Paused, Pending, Errored}

// Final tells whether a trial with the status has ended.
func (s Status) Final() bool { return s == Errored || s == Terminated }

// Phase is the part of a status that a trial is in.
type Phase string

// The phases of trials that have not ended.
const (
	Queued   Phase = "queued"   // PENDING: it waits for a slot
	Placing  Phase = "placing"  // PENDING: its worker starts, and loads the checkpoint
	Stepping Phase = "stepping" // RUNNING: its worker trains
	Saving   Phase = "saving"   // RUNNING: its worker saves
	Draining Phase = "draining" // RUNNING: its worker was told to stop
	Waiting  Phase = "waiting"  // PAUSED: until the scheduler chooses it
	Awaiting Phase = "awaiting" // PAUSED: until the trial that it takes over has saved
)

// goal is what happens to a trial when its worker has stopped; the higher one wins.
type goal int

const (
	goOn goal = iota
	pause
	stop
	fail
)

// Trial is what the core knows of one trial. A scheduler reads it and changes nothing.
type Trial struct {
	ID      ID
	Config  Values
	Tag     string // how the configuration was changed since
	Status  Status
	Phase   Phase
	Attempt int // rises with each placement
	Seq     int // how many results of this attempt were accepted

	Failures, Losses int
	Last             *Result
	Scores           []float64    // the metric of each result of the history; NaN if it is missing
	Iterations       []int64      // of each result of the history
	Checkpoints      []Checkpoint // that are kept, the oldest first
	CanSave          bool
	End              End
	Reason           string // why it ended, was paused or stopped
	Error            string
	Unsaved          int    // checkpoints that could not be saved
	SaveError        string // of the last of them
	Created          time.Duration
	Started          time.Duration // the last time
	Ended            time.Duration

	told    bool // the searcher knows of its end
	want    goal
	end     End
	resume  *Checkpoint  // that the next placement loads
	donor   *Trial       // whose checkpoint it runs from, which is pinned until it has one of its own
	saving  string       // name of the checkpoint that the worker writes
	asked   int          // at which Seq it was asked to save, to save once for one result
	done    bool         // its worker has ended its training
	clone   *Clone       // to carry out when the worker has stopped
	queue   int          // entries in the run queue that are stale are told apart by it
	donated []ID         // trials that await its checkpoint
	lent    []Checkpoint // that only trials need that have taken it over
}

// Latest returns the newest checkpoint.
func (t *Trial) Latest() *Checkpoint {
	if len(t.Checkpoints) == 0 {
		return nil
	}
	return &t.Checkpoints[len(t.Checkpoints)-1]
}

// HasWorker tells whether a worker has the trial.
func (t *Trial) HasWorker() bool { return t.Status == Running || t.Phase == Placing }

// Saveable tells whether the trial has a checkpoint or is about to.
func (t *Trial) Saveable() bool { return t.saving != "" || len(t.Checkpoints) > 0 }

// Score returns a summary of the metric's history: last, min, max, avg, last-5-avg or last-10-avg.
func (t *Trial) Score(scope string) float64 {
	n := len(t.Scores)
	if n == 0 {
		return math.NaN()
	}
	mean := func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		return sum / float64(len(x))
	}
	switch scope {
	case "min", "max":
		best := math.NaN()
		for _, v := range t.Scores {
			if math.IsNaN(best) || scope == "min" && v < best || scope == "max" && v > best {
				best = v
			}
		}
		return best
	case "avg":
		return mean(t.Scores)
	case "last-5-avg":
		return mean(t.Scores[max(0, n-5):])
	case "last-10-avg":
		return mean(t.Scores[max(0, n-10):])
	}
	return t.Scores[n-1]
}

// cut drops the results behind the checkpoint from which the trial runs on, and tells whether there were any.
func (t *Trial) cut() bool {
	n, last := 0, (*Result)(nil)
	if t.resume != nil {
		n, last = t.resume.Results, t.resume.last
	}
	if n >= len(t.Scores) {
		return false
	}
	t.Scores, t.Iterations, t.Last = t.Scores[:n], t.Iterations[:n], last
	return true
}
