package comms

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// Desc describes one dataset: its name, its codec, and where its bytes lie. Codec, dtype
// and shape are here and never in the bytes.
type Desc struct {
	Ref     DatasetRef // its name within the job
	Attempt uint32     // of the task, that made this copy
	Codec   string     // how the bytes are read: "raw", "array", "msgpack", "arrow", or a user's codec
	DType   string     // of an array: "f64", "f32", "i64", ...; little-endian
	Shape   []uint64   // of an array, row-major
	Size    uint64     // bytes
	Hash    Hash       // content hash; empty when not computed, as that of bytes in the message
	Place   Place      // where the bytes are
}

// PlaceKind says where a dataset's bytes lie.
type PlaceKind uint8

// The kinds of Place.
const (
	PlaceNone    PlaceKind = iota // nowhere: not yet produced, or lost
	PlaceInline                   // in the message itself
	PlaceSegment                  // in a shared-memory segment of the agent's host
	PlaceDisk                     // in a file of the agent; Where names it to an executor that is to read it
	PlaceLive                     // in the executor's memory: the output of an earlier run on the same executor
	PlaceAgent                    // on another agent
)

// Place says where bytes lie.
type Place struct {
	Kind    PlaceKind // which of the other fields count
	Bytes   []byte    // PlaceInline: all of them
	Segment uint32    // PlaceSegment: number that a Segment or Lease announced
	Offset  uint64    // PlaceSegment: of the first byte, in the segment
	Run     RunID     // PlaceLive: the run whose output it is
	Where   string    // PlaceDisk: file; PlaceSegment, to a client on its host: the segment's file; PlaceAgent: agent
}

// FuncSig describes a registered function, so that registries can be compared.
type FuncSig struct {
	Name string // under which jobs call it
	Sig  string // inputs, parameters and outputs with their types, as text
}

// Resources is a set of amounts: cores and devices in thousandths, memory in bytes.
type Resources struct {
	CPU, Memory, GPU int64    // thousandths of a core, bytes, thousandths of a device
	Custom           []Amount // sorted by name
	Devices          []Device // of a host: GPU is their sum; none when its agent is of an older version, which counts that sum alone
}

// Device is one of the devices of a host, which tasks get whole or in shares.
type Device struct {
	Name   string // as the host tells them apart
	Memory int64  // bytes; 0 when unknown: then tasks' needs of it are not counted
}

// Amount is a quantity of a custom resource, in thousandths.
type Amount struct {
	Name string // of the resource
	N    int64  // thousandths
}

// Range is the tasks First to Last, both included.
type Range struct {
	First, Last dag.TaskIndex // both included
}

// Ranges packs tasks that are sorted and differ.
func Ranges(tasks []dag.TaskIndex) (out []Range) {
	for _, t := range tasks {
		if n := len(out); n > 0 && out[n-1].Last+1 == t {
			out[n-1].Last = t
		} else {
			out = append(out, Range{First: t, Last: t})
		}
	}
	return out
}

// Usage is the cost of a run. Times are nanoseconds; Start is wall-clock time since the epoch,
// Duration is measured with the monotonic clock of the executor's host.
type Usage struct {
	Start    int64  // wall-clock nanoseconds since 1970
	Duration int64  // nanoseconds by a monotonic clock
	CPU      int64  // nanoseconds of all threads, of a command with its children
	PeakRSS  uint64 // private memory (RssAnon) at its peak, bytes; 0 when unknown
	BytesIn  uint64 // sizes of all inputs
	BytesOut uint64 // sizes of all outputs
	Copied   uint64 // bytes that had to be copied on the way in or out

	Device *DeviceUse // its values in the memory of devices; nil: none
}

// DeviceUse counts values in the memory of a device, such as a GPU, that runs publish or read.
type DeviceUse struct {
	Copies uint64 `json:"copies" msgpack:"copies"` // values that were copied to the memory of the host
	Bytes  uint64 `json:"bytes" msgpack:"bytes"`   // of those
	Kept   uint64 `json:"kept" msgpack:"kept"`     // values that a run before had left on a device, and that stayed there
}

// Add adds those of another run.
func (d *DeviceUse) Add(o *DeviceUse) {
	if o != nil {
		d.Copies, d.Bytes, d.Kept = d.Copies+o.Copies, d.Bytes+o.Bytes, d.Kept+o.Kept
	}
}

// ErrorKind says what went wrong with an attempt.
type ErrorKind uint8

// The kinds of TaskError.
const (
	ErrorTask      ErrorKind = iota + 1 // the function returned an error, or the task used the API wrongly
	ErrorPanic                          // the function panicked
	ErrorExit                           // the command ended with a non-zero status or by a signal
	ErrorTimeout                        // the time-out passed
	ErrorCancelled                      // it was cancelled
	ErrorCrash                          // the executor died under it: tried again, the task is not blamed at first
	ErrorMemory                         // it used more memory than granted or than there is
	ErrorReadOnly                       // it wrote to an input
	ErrorInput                          // an input could not be read or decoded
	ErrorSetup                          // its environment could not be made, or lacks the function
	ErrorSkipped                        // it never ran: something it needs failed
	ErrorPoison                         // it killed its executor too often
	ErrorStore                          // its outputs could not be stored: memory and disk are full
)

// Retryable tells whether the attempt says nothing about the task: it is tried
// again without counting against the task's retries.
func (k ErrorKind) Retryable() bool { return k == ErrorCrash }

func (k ErrorKind) String() string {
	names := [...]string{"", "error", "panic", "exit", "timeout", "cancelled", "crash", "out of memory",
		"wrote to input", "input", "setup", "skipped", "poison", "store"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("ErrorKind(%d)", k)
}

// TaskError is the error of one attempt at a task.
type TaskError struct {
	Kind     ErrorKind  // what went wrong
	Message  string     // for people: what was tried, why it failed, how to fix it
	Codes    []string   // registered error codes in the chain, outermost first
	Stack    string     // of a panic
	Task     string     // name
	Attempt  uint32     // number of the attempt
	Agent    string     // name of the agent
	Executor ExecutorID // 0 when it came to none
	ExitCode int32      // ErrorExit; -1 when ended by a signal
	Signal   string     // ErrorExit: name of the signal that ended it
	LogTail  []byte     // last bytes of the task's output
	Function string     // that a called task runs; "" of other tasks, whose name says enough
}

// Codes that stand for a kind of error in the chain of another, and for what becomes of an actor.
const (
	CodeCancelled      = "cascade.cancelled"
	CodeTimeout        = "cascade.timeout"
	CodeActorDead      = "cascade.actor-dead"
	CodeActorRestarted = "cascade.actor-restarted"
)

// AllCodes returns the registered codes, and that of the kind, if it has one.
func (e *TaskError) AllCodes() []string {
	switch e.Kind {
	case ErrorCancelled:
		return append(slices.Clip(e.Codes), CodeCancelled)
	case ErrorTimeout:
		return append(slices.Clip(e.Codes), CodeTimeout)
	default:
		return e.Codes
	}
}

func (e *TaskError) Error() string {
	if e.Task == "" { // of the job as a whole
		return e.Text()
	}
	name := e.Task
	if e.Function != "" {
		name += " (" + e.Function + ")"
	}
	return fmt.Sprintf("task %s, attempt %d on agent %s: %s", name, e.Attempt, e.Agent, e.Text())
}

// Text is kind and message: "panic: boom". Messages of the runtime that begin with
// the kind do not say it twice.
func (e *TaskError) Text() string {
	kind := e.Kind.String() + ": "
	return kind + strings.TrimPrefix(e.Message, kind)
}

// EventKind says what happened to a task or dataset.
type EventKind uint8

// The kinds of Event. The agent numbers events; the controller commits them in order.
const (
	EventReady     EventKind = iota + 1 // all inputs are there
	EventStarted                        // an executor runs it; left out when the finish is in the same batch
	EventPublished                      // a dataset of a running generator became visible
	EventFinished                       // success: outputs are sealed
	EventRetry                          // an attempt failed, another follows
	EventFailed                         // failed finally
	EventSkipped                        // will not run: something it needs failed, or the job was stopped
	EventCancelled                      // was stopped
	EventStreamEnd                      // an open generator's output has Count elements and no more
	EventLost                           // a dataset's last copy is gone
	EventDrained                        // nothing of this job runs here or will: the assignment has ended
	EventReclaimed                      // dispatched and taken back before it started
	EventThrottled                      // a generator waits for its consumers
	EventSpilled                        // a dataset went to disk
	EventEnv                            // an environment was built or failed; Cause.Text names it
	EventBuilding                       // an environment is being built; Cause.Text names it, Error says why the build waits
	EventSteps                          // tasks finished one after another in one executor, without outputs to tell: Steps. Task and Attempt are the first's
	EventBlock                          // on the wire only: many events, in Steps as columns
	EventAdopted                        // a dataset that another agent produced and no longer holds for all: this one does
	EventCall                           // a task that Task called, or one that that has called, has ended, Count tries after it began: Called
	EventTorn                           // a task cannot start over here: the controller has it do so. A member of a gang that several agents have, then all of it; or one that needs more memory than is here
)

// CauseKind says what led to an event.
type CauseKind uint8

// The kinds of Cause.
const (
	CauseNone     CauseKind = iota
	CauseSubmit             // the job was assigned
	CauseDataset            // Ref was published
	CauseTask               // task Ref.Task finished or failed
	CauseExecutor           // executor Number started, freed or died
	CauseUser               // a user asked: Text says for what
	CauseMemory             // memory pressure
	CauseTime               // a time-out
	CauseRun                // the run itself ended, after its start was reported
)

// Cause says what led to an event. Together the causes of a task's events are its story.
type Cause struct {
	Kind   CauseKind  // which of the other fields count
	Ref    DatasetRef // CauseDataset: the dataset; CauseTask: its Task alone counts
	Number uint64     // CauseExecutor: the executor; EventDrained: tasks that did not finish well; EventFinished, and EventSteps for its first task: the hash of the inputs that it has read, see Read; 0: none, or not known
	Text   string     // for people
}

// Event is one transition of a task or dataset, as the agent reports it and the store keeps it.
// Actor and Sequence are reserved for actors.
type Event struct {
	Kind     EventKind     // what happened
	Task     dag.TaskIndex // to which task, or to a dataset of which
	Attempt  uint32        // of the task
	At       int64         // wall-clock nanoseconds
	Executor ExecutorID    // where; 0 nowhere
	Cause    Cause         // why
	Outputs  []Desc        // EventPublished, EventFinished: as they are final; EventAdopted: where it is now
	Usage    *Usage        // EventFinished, EventRetry, EventFailed, EventCancelled: the cost of the attempt; EventCall: that of the last one
	Error    *TaskError    // EventRetry, EventFailed, EventSkipped, EventCancelled; EventCall, EventEnv and EventDrained when it failed; EventBuilding while the build waits; EventTorn when the attempt failed
	Output   uint32        // EventStreamEnd, EventLost, EventSpilled: which output
	Count    uint64        // EventStreamEnd: elements; EventDrained: tasks that finished; EventSpilled: bytes; EventEnv: bytes that were made for it; EventCall: tries; EventRetry: bytes of memory for the next attempt, when it gets more than this one had
	Parent   []byte        // EventCall: the name of the task that made it
	Actor    []byte        // reserved. Stateful edge: the actor
	Sequence uint64        // reserved. Stateful edge: place in the actor's order
	Steps    []byte        // EventSteps: the tasks, and the cost of each: columns, see End. EventBlock: the events
	Called   *Called       // EventCall: the task; none of older agents, whose Cause.Text names it
}

// JobEvents is the events of one job, in order. JobIncarnation and Epoch are those of the
// job's Assign that counted when they happened: the receiver can tell which events
// are from before the agent knew of a later one.
type JobEvents struct {
	Job            JobID   // whose events they are
	Events         []Event // in the order in which they happened
	JobIncarnation uint64  // of the job, as in its Assign
	Epoch          uint64  // of its last Assign
}

func (d *Desc) code(c *Coder) {
	c.Struct(8, func(c *Coder) {
		d.Ref.code(c)
		Uint(c, &d.Attempt)
		String(c, &d.Codec)
		String(c, &d.DType)
		Slice(c, &d.Shape, Uint[uint64])
		Uint(c, &d.Size)
		c.Hash(&d.Hash)
		d.Place.code(c)
	})
}

func (r *DatasetRef) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &r.Task)
		Uint(c, &r.Output)
		Uint(c, &r.Element)
	})
}

func (p *Place) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		Uint(c, &p.Kind)
		c.Bytes(&p.Bytes)
		Uint(c, &p.Segment)
		Uint(c, &p.Offset)
		Uint(c, &p.Run)
		String(c, &p.Where)
	})
}

func (f *FuncSig) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		String(c, &f.Name)
		String(c, &f.Sig)
	})
}

func (r *Resources) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		Int(c, &r.CPU)
		Int(c, &r.Memory)
		Int(c, &r.GPU)
		Slice(c, &r.Custom, func(c *Coder, a *Amount) {
			c.Struct(2, func(c *Coder) {
				String(c, &a.Name)
				Int(c, &a.N)
			})
		})
		Slice(c, &r.Devices, func(c *Coder, d *Device) {
			c.Struct(2, func(c *Coder) {
				String(c, &d.Name)
				Int(c, &d.Memory)
			})
		})
	})
}

func (r *Range) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &r.First)
		Uint(c, &r.Last)
	})
}

func (u *Usage) code(c *Coder) {
	c.Struct(8, func(c *Coder) {
		Int(c, &u.Start)
		Int(c, &u.Duration)
		Int(c, &u.CPU)
		Uint(c, &u.PeakRSS)
		Uint(c, &u.BytesIn)
		Uint(c, &u.BytesOut)
		Uint(c, &u.Copied)
		Pointer(c, &u.Device, func(c *Coder, d *DeviceUse) { d.code(c) })
	})
}

func (d *DeviceUse) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &d.Copies)
		Uint(c, &d.Bytes)
		Uint(c, &d.Kept)
	})
}

func (e *TaskError) code(c *Coder) {
	c.Struct(12, func(c *Coder) {
		Uint(c, &e.Kind)
		String(c, &e.Message)
		Slice(c, &e.Codes, String[string])
		String(c, &e.Stack)
		String(c, &e.Task)
		Uint(c, &e.Attempt)
		String(c, &e.Agent)
		Uint(c, &e.Executor)
		Int(c, &e.ExitCode)
		String(c, &e.Signal)
		c.Bytes(&e.LogTail)
		String(c, &e.Function)
	})
}

func (e *Cause) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &e.Kind)
		e.Ref.code(c)
		Uint(c, &e.Number)
		String(c, &e.Text)
	})
}

func (e *Event) code(c *Coder) {
	c.Struct(16, func(c *Coder) {
		Uint(c, &e.Kind)
		Uint(c, &e.Task)
		Uint(c, &e.Attempt)
		Int(c, &e.At)
		Uint(c, &e.Executor)
		e.Cause.code(c)
		Slice(c, &e.Outputs, func(c *Coder, d *Desc) { d.code(c) })
		Pointer(c, &e.Usage, func(c *Coder, u *Usage) { u.code(c) })
		Pointer(c, &e.Error, func(c *Coder, e *TaskError) { e.code(c) })
		Uint(c, &e.Output)
		Uint(c, &e.Count)
		c.Bytes(&e.Parent)
		c.Bytes(&e.Actor)
		Uint(c, &e.Sequence)
		c.Bytes(&e.Steps)
		Pointer(c, &e.Called, func(c *Coder, t *Called) { t.code(c) })
	})
}

func (j *JobEvents) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		c.ID((*[16]byte)(&j.Job))
		blocks(c, &j.Events, (*block).events)
		Uint(c, &j.JobIncarnation)
		Uint(c, &j.Epoch)
	})
}
