// Package records has what the controller's store keeps. Records are values: the core
// makes them, the store encodes them, and a restart reads them. A field is only ever
// added, at the end, so that older stores stay readable.
package records

import (
	"strings"

	"github.com/cascade-run/cascade/comms"
)

// Job is the row of a job. Times are wall-clock nanoseconds.
type Job struct {
	ID             comms.JobID
	Name           string
	Phase          comms.JobPhase
	Tenant         string `msgpack:"Owner"` // the name of older builds, as the other two of these tags
	Priority       int64
	Weight         uint32
	Dir            string
	Labels         []string
	GraphHash      comms.Hash
	Submitted      int64
	Started        int64
	Ended          int64
	Epoch          uint64 // of the last Assign
	Agent          string // that the job was assigned to; "" not yet
	Incarnation    uint64 // of that agent when it was assigned
	Batches        uint64 // batches stored; the next batch's number
	Cancel         string // why it is being cancelled; "" it is not
	Error          *comms.TaskError
	Totals         Totals
	JobIncarnation uint64              `msgpack:"Life"` // of the job's ID: another submit of it, after this job was deleted, is another life
	Groups         []comms.GroupCounts // only once the job has ended: until then they follow from the batches
	Stored         uint64              // bytes that the store was given for the job, without its graph
	Keep           bool                // it is never deleted by itself
	Assignments    []Assignment        `msgpack:"Fragments"` // of a job on several agents, or on one that came in later: who they are, without their tasks (see Batch.Given); the first is Agent
	Homeless       bool                // no agent that is there can run some of its tasks
	Ran            int64               // nanoseconds that it ran before it had ended and was run again; Started is of the last time
	Packages       []comms.Hash        // that its environments name: they are kept as long as the job is
	Fails          bool                // it is being cancelled because it fails
	Differs        uint64              // recomputed datasets that differ from the originals, also before the job ran again
	Differing      string              // the first of them
}

// Assignment is the tasks of a job that one of several agents runs.
type Assignment struct {
	Agent       string
	Incarnation uint64 // of that agent when it was assigned
	From        uint64 // epoch at which the agent came in: what it says of an earlier one is of an assignment that it lost
	Run         []comms.Range
}

// Totals sums up a job's tasks.
type Totals struct {
	Tasks, Done, Failed uint64
	BytesOut            uint64
	Copied              uint64
	Spilled             uint64 // bytes
	TaskTime            int64  // nanoseconds
	Device              comms.DeviceUse
}

// Batch is a run of events of one job as its agent reported them, or a
// decision of the controller: tasks that are to run again.
type Batch struct {
	Number      uint64 // within the job, from 0
	Agent       string
	Incarnation uint64
	Epoch       uint64        // that the agent was at; of a decision, the one that ends with it
	At          int64         // when it was received
	Reset       []comms.Range // tasks that start over before the events apply
	Why         string        // cause of the reset, but for that of Lost
	First       uint64        // agent's number of the first event
	Events      []comms.Event // of a decision: ends of tasks that are not needed any more
	Moved       []comms.Range // tasks that another agent gets: they start over there, and what was said of them up to Epoch counts no more
	Given       []Assignment  // who has which tasks from now on, when they are several
	Reasons     []Reason      // why tasks of a job that resumes from an earlier one run
	Granting    Granting      // how what starts over is numbered
	Cancelled   []comms.Range // tasks that end with their cancelled job, and Why: no agent does so
	Differs     []Difference  // datasets that were recomputed by Events and differ
	Lost        []string      // agents with which was lost what starts over
	Unbegun     []Assignment  // of Moved, the tasks that had not begun, by the agent that gets them; "": none has them yet
}

// Cause says why tasks start over.
func (b *Batch) Cause() string {
	switch {
	case b.Why != "" || len(b.Lost) == 0:
		return b.Why
	case len(b.Lost) == 1:
		return "lost with agent " + b.Lost[0]
	}
	return "lost with agent " + b.Lost[0] + " and others: " + strings.Join(b.Lost[1:], ", ")
}

// Granting is how attempts at tasks that start over are numbered.
type Granting uint8

// The ways of numbering; those but the last are of older builds.
const (
	GrantCounts Granting = iota // one after the other
	GrantTries                  // as comms.Grant does, each grant as a try
	GrantBegun                  // as comms.Grant does, only tries that have begun
)

// Why is why the job ended without success: the reason of who cancelled it, or the error of
// the first task that failed; nil when there is none.
func (r *Job) Why() *comms.TaskError {
	if r.Phase == comms.JobCancelled && r.Cancel != "" {
		return &comms.TaskError{Kind: comms.ErrorCancelled, Message: r.Cancel}
	}
	return r.Error
}

// Reason is why tasks run again although an earlier job has run them.
type Reason struct {
	Text  string
	Tasks []comms.Range
}

// Seen is how far an agent's events are durable in one shard.
type Seen struct {
	Incarnation uint64
	UpTo        uint64
}

// Dataset is a dataset that outlives its job's run, and the agent that has it.
type Dataset struct {
	Desc  comms.Desc
	Agent string
}

// Task is the row of a task that failed.
type Task struct {
	Task  uint32
	Error comms.TaskError
	At    int64
}

// Agent is the row of an agent.
type Agent struct {
	Name        string
	Incarnation uint64
	Addresses   []string
	Total       comms.Resources
	BootID      string
	Seen        int64  // wall-clock nanoseconds: when it registered; of one that is away, when it was heard last; 0: not by this controller
	Platform    string // as in Register
	Left        bool   // it drained first: its work does not wait for it
}

// Commit is one atomic change of a job in the store. Everything in it becomes
// durable together, or nothing does.
type Commit struct {
	Job      comms.JobID
	Row      *Job // replaces the job's row
	Batch    *Batch
	Tasks    []Task
	Datasets []Dataset          // rows that replace older ones
	Drop     []comms.DatasetRef // rows to remove
	Agent    string             // whose events up to UpTo are durable with this; "" none
	Seen     Seen
}

// Difference is a dataset that has other bytes than it had.
type Difference struct {
	Ref     comms.DatasetRef
	Attempt uint32 // that made it
	Was, Is uint64 // see comms.Desc.Sum
}
