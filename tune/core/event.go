package core

import "time"

// ID is the number of a trial, from 0 in the order in which they were suggested.
type ID int

// EventKind names what happened.
type EventKind string

// The events of an experiment.
const (
	Begun     EventKind = "begun"     // a runner has started: of what ran before nothing runs any more. Slots, Redo
	Suggested EventKind = "suggested" // the searcher has answered an Ask. N, Configs, Cause
	Reported  EventKind = "reported"  // a worker sent results. Trial, Attempt, Seq, Results, CanSave, Waiting, Done
	Saved     EventKind = "saved"     // a worker has saved, or could not. Trial, Attempt, Name, Error
	Exited    EventKind = "exited"    // a worker has ended. Trial, Attempt, Cause, Error
	Ticked    EventKind = "ticked"    // time has passed. At
	Ordered   EventKind = "ordered"   // a user wants something. Order, Trial, N
)

// Causes of Suggested and Exited.
const (
	CauseFinished = "finished" // Suggested: there is no further configuration
	CauseNotNow   = "not now"  // Suggested: there may be one later
	CauseStopped  = "stopped"  // Exited: it was told to stop
	CauseError    = "error"    // Exited: of the trainable, counted as a failure
	CauseRestore  = "restore"  // Exited: the checkpoint could not be loaded
	CauseLost     = "lost"     // Exited: with its host; no failure of the trial
)

// Orders of users.
const (
	OrderStopTrial = "stop trial"
	OrderStop      = "stop"    // all trials
	OrderSamples   = "samples" // N more
	OrderSlots     = "slots"   // N from now on
)

// Event is one thing that happened, with all that a decision may depend on.
type Event struct {
	At      time.Duration `json:"at"` // for how long the experiment has run, without the time between two runners
	Kind    EventKind     `json:"kind"`
	Trial   ID            `json:"trial"`
	Attempt int           `json:"attempt,omitempty"`
	Seq     int           `json:"seq,omitempty"` // of the first of Results in its attempt, from 1
	Results []Result      `json:"results,omitempty"`
	CanSave bool          `json:"can_save,omitempty"` // the worker saves when it is told to
	Waiting bool          `json:"waiting,omitempty"`  // its credit is used
	Done    bool          `json:"done,omitempty"`     // the trainable has returned: no result will follow
	Name    string        `json:"name,omitempty"`     // of the checkpoint
	Configs []Values      `json:"configs,omitempty"`
	Cause   string        `json:"cause,omitempty"`
	Error   string        `json:"error,omitempty"`
	Order   string        `json:"order,omitempty"`
	N       int           `json:"n,omitempty"`
	Slots   int           `json:"slots,omitempty"`
	Redo    Redo          `json:"redo,omitzero"`
}

// Redo says which ended trials run on when an experiment is resumed.
type Redo struct {
	Errored bool `json:"errored,omitempty"` // those with errors, from their last checkpoint
	Restart bool `json:"restart,omitempty"` // those with errors, from the beginning
	Stopped bool `json:"stopped,omitempty"` // those that ended because the experiment was stopped
}

// ActionKind names what the driver has to do.
type ActionKind string

// The actions of a core.
const (
	Ask      ActionKind = "ask"      // the searcher for N configurations
	Start    ActionKind = "start"    // a worker: Config, From, Credit
	Go       ActionKind = "go"       // on, with Credit
	Save     ActionKind = "save"     // Name
	Stop     ActionKind = "stop"     // the worker; it answers with Exited
	Delete   ActionKind = "delete"   // checkpoints Names
	Tell     ActionKind = "tell"     // searcher, callbacks and loggers: Results from number Index of the trial's history
	Complete ActionKind = "complete" // tell searcher, callbacks and loggers: the trial has ended as End. N 1: the searcher has heard of an end before
	Recover  ActionKind = "recover"  // tell callbacks and loggers: it failed, and runs again
	Warn     ActionKind = "warn"     // callbacks and loggers of something that is probably not meant: Reason
	Finish   ActionKind = "finish"   // the experiment has ended
)

// Derived tells whether a journal leaves the action out, because it repeats events and changes nothing.
func (k ActionKind) Derived() bool { return k == Tell || k == Warn }

// End says how a trial ended.
type End string

// The ends of a trial.
const (
	EndDone      End = "done"      // its trainable returned, or a stop condition held
	EndScheduler End = "scheduler" // the scheduler stopped it
	EndOrder     End = "order"     // a user, the time budget or the end of the experiment stopped it
	EndError     End = "error"
)

// Action is one thing that the driver has to do.
type Action struct {
	Kind    ActionKind  `json:"kind"`
	Trial   ID          `json:"trial"`
	Attempt int         `json:"attempt,omitempty"`
	N       int         `json:"n,omitempty"`
	Config  Values      `json:"config,omitempty"`
	From    *Checkpoint `json:"from,omitempty"`
	Credit  *Credit     `json:"credit,omitempty"`
	Name    string      `json:"name,omitempty"`
	Names   []string    `json:"names,omitempty"`
	Index   int         `json:"index,omitempty"`
	End     End         `json:"end,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	Results []Result    `json:"-"` // they are in the event
	Last    *Result     `json:"-"`
}
