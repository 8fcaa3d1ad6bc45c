package comms

import "github.com/cascade-run/cascade/dag"

// Messages between controller and agent, in both directions. The controller
// moves tasks; the agent owns those it was assigned, at an epoch.

// Register gives an agent's host and its resources to a controller.
type Register struct {
	Agent       string    // its name, as in the link's greeting
	Incarnation uint64    // of its process, as in the link's greeting
	Addresses   []string  // where clients and other agents reach it
	Total       Resources // that tasks may occupy together
	BootID      string    // of the host: shared memory of another boot is gone
	LastEvent   uint64    // highest event number that the agent has used
	Takes       bool      // it runs calls that other agents forward to it
	Gathers     bool      // it starts members of gangs together with other agents, as GangCommand says
	Platform    string    // for which binaries run there, such as "linux/amd64"; empty from older agents, which cannot read jobs that name platforms
	Store       int64     // bytes of shared memory for datasets; 0 from older agents: plans do not count its contents
	Sessions    string    // address on its host at which programs say Hello with a session; empty from older agents, which take none
}

// Snapshot gives an agent's jobs and datasets to a new controller incarnation, or
// to the first after the agent started: state, not history. It may come in pieces;
// Done marks the last.
type Snapshot struct {
	Jobs []JobState // those not sent before
	Done bool       // the snapshot is complete
}

// JobState is one job's part of a Snapshot.
type JobState struct {
	Job            JobID           // which job
	Epoch          uint64          // of the last Assign that counted
	Datasets       []Desc          // final here
	Finished       []Range         // tasks known here to have finished
	Running        []dag.TaskIndex // tasks that an executor runs, sorted
	JobIncarnation uint64          // of the job, as in its Assign
	Drained        bool            // nothing of it runs or will, and the event that says so is durable
}

// Events is a batch of events numbered First, First+1, ... in the order of its jobs' events.
type Events struct {
	First uint64      // number of the first event of the batch
	Jobs  []JobEvents // each job at most once
	Load  *Load       // the agent's load; none from older agents
	Flows []Flow      // transfers from other agents since the batch before; none from older agents
}

// Flow is a transfer from one agent to another without a break, of all datasets: from
// the first requested piece to the piece after which none was owed, or for about a
// second. Pieces are at most 32 MiB, most of 4 MiB.
type Flow struct {
	From   string  // the sending agent
	Bytes  uint64  // that came
	Pieces uint64  // in which they came
	Nanos  uint64  // that it took
	Beside uint64  // bytes that came from others meanwhile
	Others float64 // agents that owed pieces meanwhile, on average
}

// Load is how much an agent has to do and how fast it does it. The averages are
// exponential: each new value counts an eighth.
type Load struct {
	Waiting   uint64  // tasks that have all they need and have not begun
	Running   uint64  // tasks that have begun
	Seconds   float64 // that a task takes; 0 when none has ended yet
	Bandwidth float64 // bytes a second at which a dataset comes from another agent; 0 when none has come yet
}

// Assign gives an agent an assignment of a job at an epoch. A second Assign of the
// same job with a higher epoch replaces the tasks that have not run; one with the
// same or a lower epoch is ignored. An Assign of another incarnation of the job,
// which was refused or deleted and submitted again, is independent of the one
// before: that is dropped first.
type Assign struct {
	Job            JobID        // which job
	Epoch          uint64       // grows with every Assign of the job, from 1
	Graph          []byte       // encoded dag.Graph; empty when GraphHash names a blob sent before, or the agent has the job
	GraphHash      Hash         // BLAKE3 of the encoded graph, when it came as a blob
	Dir            string       // folder that relative paths of the job refer to
	Run            []Range      // tasks to run; none means all
	Attempts       []uint32     // for each task of Run in order the first attempt number to use; none means 1
	Datasets       []Desc       // outputs of tasks that are not in Run: where they are
	Ends           []StreamEnd  // streams of tasks that are not in Run
	Ranks          []byte       // upward rank in seconds of each static task of the graph: columns; none means equal
	Fuse           []byte       // planned paths, tasks to run one after another on one executor: columns
	Priority       int64        // higher goes first
	Weight         uint32       // share of this job's tenant; 0 means 1
	Tenant         string       // jobs of one tenant share its weight
	Hold           bool         // start nothing until released
	Registry       []FuncSig    // functions that the submitting program has registered; none when it is not a Go driver
	Seconds        []float64    // predicted duration of each group of the graph; 0 unknown
	JobIncarnation uint64       // one number for each time that the job's ID was submitted and not found
	Ended          []Ended      // tasks that have ended and do not run again, sorted; none of a job that begins
	Peers          []Assignment // agents of the tasks that are neither in Run nor Ended, but for those that no agent can run now; none of a job on one agent
	Fetch          []Desc       // datasets to fetch and hold from now on, as their holder is drained; each is answered with EventAdopted
	Adopt          []Adoption   // datasets to copy from other jobs that are here, and to hold; each is answered with EventAdopted
	Tried          []GangTries  // gangs among Run that others have members of, too, and that were tried before; sorted
	Enlarged       []Enlarged   // tasks among Run that were ended because they exceeded their memory reservation; sorted
	Larger         uint64       // bytes of memory that tasks may occupy together on the largest agent of the cluster; 0: none has more than this one
	Memory         []uint64     // bytes with which tasks of each group of the graph begin, as most needed more than its request; 0: its request. At most the host's memory
}

// Enlarged is the raised memory reservation of a task that was ended because it
// exceeded the one before.
type Enlarged struct {
	Task   dag.TaskIndex // which task
	Memory uint64        // bytes that are reserved for its next attempt
	Times  uint32        // how often that grew
}

// Adoption names a dataset of another job that becomes one of this job, and its place here.
type Adoption struct {
	Data    Desc      // as it is to be known in this job
	From    DatasetID // the dataset of which it is a copy
	Attempt uint32    // that made From
}

// StreamEnd says how many elements an open generator's output has.
type StreamEnd struct {
	Task   dag.TaskIndex // the generator
	Output uint32        // which of its outputs
	Count  uint64        // elements, numbered from 0
	Failed bool          // the generator ended badly: there would have been more
}

// Outcome is how a task has ended.
type Outcome uint8

// The outcomes of a task.
const (
	OutcomeDone      Outcome = iota + 1 // it succeeded
	OutcomeFailed                       // it failed finally
	OutcomeSkipped                      // it never ran: something it needs failed, or its job was stopped
	OutcomeCancelled                    // it was stopped
)

// Ended says of the tasks First to Last, both included, how they have ended.
type Ended struct {
	First, Last dag.TaskIndex // both included
	How         Outcome       // all of them
}

// SteerAction is what a Steer asks for.
type SteerAction uint8

// The actions of Steer and Control.
const (
	SteerCancel  SteerAction = iota + 1 // stop running tasks, start nothing more
	SteerHold                           // start nothing more until released
	SteerRelease                        // continue after a hold
	SteerForget                         // the job is over: free all of its datasets
	SteerRerun                          // client only: run Task again, and its dependents
	SteerRank                           // a better plan was found: Ranks orders the tasks that have not started
)

// Steer changes the course of a job on an agent.
type Steer struct {
	Job            JobID       // which job
	Action         SteerAction // what to do
	Reason         string      // for people
	JobIncarnation uint64      // of the job: a Steer of another incarnation is ignored
	Epoch          uint64      // SteerRank: that the ranks are for; another is ignored
	Ranks          []byte      // SteerRank: of each static task of the graph, as in Assign: columns
}

// Committed tells an agent that its events up to a number are durable; only
// then may it drop them, and free the datasets that they ended the need for.
type Committed struct {
	UpTo uint64 // highest number of an event that is durable with all before it
}

// Retain replaces the set of datasets of an ended job that an agent keeps; all others are freed.
type Retain struct {
	Job            JobID        // which job
	Keep           []DatasetRef // datasets to keep
	JobIncarnation uint64       // of the job: a Retain of another incarnation is ignored
}

// Type returns TypeRegister.
func (*Register) Type() Type { return TypeRegister }

// Type returns TypeSnapshot.
func (*Snapshot) Type() Type { return TypeSnapshot }

// Type returns TypeEvents.
func (*Events) Type() Type { return TypeEvents }

// Type returns TypeAssign.
func (*Assign) Type() Type { return TypeAssign }

// Type returns TypeSteer.
func (*Steer) Type() Type { return TypeSteer }

// Type returns TypeCommitted.
func (*Committed) Type() Type { return TypeCommitted }

// Type returns TypeRetain.
func (*Retain) Type() Type { return TypeRetain }

func (m *Register) code(c *Coder) {
	c.Struct(11, func(c *Coder) {
		String(c, &m.Agent)
		Uint(c, &m.Incarnation)
		Slice(c, &m.Addresses, String[string])
		m.Total.code(c)
		String(c, &m.BootID)
		Uint(c, &m.LastEvent)
		c.Bool(&m.Takes)
		c.Bool(&m.Gathers)
		String(c, &m.Platform)
		Int(c, &m.Store)
		String(c, &m.Sessions)
	})
}

func (m *Snapshot) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Slice(c, &m.Jobs, func(c *Coder, j *JobState) {
			c.Struct(7, func(c *Coder) {
				c.ID((*[16]byte)(&j.Job))
				Uint(c, &j.Epoch)
				Slice(c, &j.Datasets, func(c *Coder, d *Desc) { d.code(c) })
				Slice(c, &j.Finished, func(c *Coder, r *Range) { r.code(c) })
				Slice(c, &j.Running, Uint[dag.TaskIndex])
				Uint(c, &j.JobIncarnation)
				c.Bool(&j.Drained)
			})
		})
		c.Bool(&m.Done)
	})
}

func (m *Events) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.First)
		Slice(c, &m.Jobs, func(c *Coder, j *JobEvents) { j.code(c) })
		Pointer(c, &m.Load, func(c *Coder, l *Load) { l.code(c) })
		Slice(c, &m.Flows, func(c *Coder, f *Flow) { f.code(c) })
	})
}

func (f *Flow) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		String(c, &f.From)
		Uint(c, &f.Bytes)
		Uint(c, &f.Pieces)
		Uint(c, &f.Nanos)
		Uint(c, &f.Beside)
		c.Float(&f.Others)
	})
}

func (l *Load) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &l.Waiting)
		Uint(c, &l.Running)
		c.Float(&l.Seconds)
		c.Float(&l.Bandwidth)
	})
}

func (m *Assign) code(c *Coder) {
	c.Struct(26, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.Epoch)
		c.Bytes(&m.Graph)
		c.Hash(&m.GraphHash)
		String(c, &m.Dir)
		Slice(c, &m.Run, func(c *Coder, r *Range) { r.code(c) })
		Slice(c, &m.Attempts, Uint[uint32])
		Slice(c, &m.Datasets, func(c *Coder, d *Desc) { d.code(c) })
		Slice(c, &m.Ends, func(c *Coder, e *StreamEnd) { e.code(c) })
		c.Bytes(&m.Ranks)
		c.Bytes(&m.Fuse)
		Int(c, &m.Priority)
		Uint(c, &m.Weight)
		String(c, &m.Tenant)
		c.Bool(&m.Hold)
		Slice(c, &m.Registry, func(c *Coder, f *FuncSig) { f.code(c) })
		Slice(c, &m.Seconds, func(c *Coder, f *float64) { c.Float(f) })
		Uint(c, &m.JobIncarnation)
		Slice(c, &m.Ended, func(c *Coder, e *Ended) { e.code(c) })
		Slice(c, &m.Peers, func(c *Coder, f *Assignment) { f.code(c) })
		Slice(c, &m.Fetch, func(c *Coder, d *Desc) { d.code(c) })
		Slice(c, &m.Adopt, func(c *Coder, a *Adoption) {
			c.Struct(3, func(c *Coder) {
				a.Data.code(c)
				c.Struct(2, func(c *Coder) {
					c.ID((*[16]byte)(&a.From.Job))
					a.From.DatasetRef.code(c)
				})
				Uint(c, &a.Attempt)
			})
		})
		Slice(c, &m.Tried, func(c *Coder, t *GangTries) { t.code(c) })
		Slice(c, &m.Enlarged, func(c *Coder, r *Enlarged) { r.code(c) })
		Uint(c, &m.Larger)
		Slice(c, &m.Memory, Uint[uint64])
	})
}

func (r *Enlarged) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &r.Task)
		Uint(c, &r.Memory)
		Uint(c, &r.Times)
	})
}

func (e *Ended) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &e.First)
		Uint(c, &e.Last)
		Uint(c, &e.How)
	})
}

func (e *StreamEnd) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &e.Task)
		Uint(c, &e.Output)
		Uint(c, &e.Count)
		c.Bool(&e.Failed)
	})
}

func (m *Steer) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.Action)
		String(c, &m.Reason)
		Uint(c, &m.JobIncarnation)
		Uint(c, &m.Epoch)
		c.Bytes(&m.Ranks)
	})
}

func (m *Committed) code(c *Coder) {
	c.Struct(1, func(c *Coder) { Uint(c, &m.UpTo) })
}

func (m *Retain) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Slice(c, &m.Keep, func(c *Coder, r *DatasetRef) { r.code(c) })
		Uint(c, &m.JobIncarnation)
	})
}
