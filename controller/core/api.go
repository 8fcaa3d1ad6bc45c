package core

import (
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// Config is what the core must know from the start. Zero fields take their default.
type Config struct {
	Incarnation uint64         // of this process: must grow by more with each start than jobs are submitted to one
	Passive     bool           // answer questions only: jobs that have not ended wait for a controller that is not passive
	TTL         time.Duration  // ended jobs are deleted after this; 0 means never; see retention.go
	MaxEnded    int            // most ended jobs that stay; 0 means no bound
	MaxStored   uint64         // most bytes that the store was given for them; 0 means no bound
	Grace       time.Duration  // a lost agent's jobs wait this long before another agent takes them; default DefaultGrace
	WatchEvery  time.Duration  // shortest pause between two Progress of a Submit with Watch; default 100ms
	MaxUnread   int            // messages that a client may leave unread before its link is closed; default 10000
	Spread      bool           // jobs may be cut into fragments for several agents
	Bandwidth   float64        // bytes a second between hosts, for plans; 0: see planner.Cluster
	MaxEvents   int            // events kept for one Progress of a watcher that asked for them; default 10000
	Effort      planner.Effort // to look for a better plan of each job; zero: what planner.Worth says
	Steal       time.Duration  // with Spread: idle agents take work of others that saves at least this; 0: never
	Thrift      float64        // and at least so many times the duration of a move; default 4
}

// DefaultGrace is how long a lost agent is waited for.
const DefaultGrace = 30 * time.Second

// LinkID names a connection of the driver. Numbers are not used again.
type LinkID uint64

// Event is what happened. It is one of the types below.
type Event interface{ event() }

type (
	// LinkUp: a peer can be spoken to. A link that comes up again without its
	// past is announced as a new one, after LinkDown of the old.
	LinkUp struct {
		Link        LinkID
		Agent       bool // else a client
		Name        string
		Incarnation uint64
		Tenant      string // of a client: whose jobs alone it may steer; "" for any
		Build       string // of the peer: the version of its program
	}
	// LinkDown: nothing goes to the link any more.
	LinkDown struct {
		Link  LinkID
		Since time.Time // when its connection broke; zero: now
		Heard time.Time // when the peer was heard last; zero: when its connection broke
		Why   records.LossCause
	}
	// Received brings a message. The driver has set Submit.GraphHash.
	Received struct {
		Link LinkID
		Msg  comms.Message
	}
	// Full: a Send of this link did not fit; the driver keeps it. Send no more until Free.
	Full struct{ Link LinkID }
	// Free: the link has room, and what the driver kept is sent.
	Free struct{ Link LinkID }
	// Prepared answers Prepare.
	Prepared struct {
		Token   uint64
		Job     comms.JobID
		Graph   *dag.Graph
		Bytes   []byte // encoded
		Plan    *planner.Plan
		Past    *Past    // when asked for
		Earlier *Earlier // when asked for and to be had
		Code    comms.Code
		Err     string // not empty: it cannot be, and why
	}
	// Improved answers Improve. Plan is nil when there is none, for whatever reason:
	// then the first one stays.
	Improved struct {
		Token uint64
		Job   comms.JobID
		Plan  *planner.Plan
	}
	// Departed: tasks of a job take other times than was thought.
	Departed struct{ Job comms.JobID }
	// Stored answers Create, Store and Delete. Only Create may fail: when another
	// write fails the driver ends.
	Stored struct {
		Token uint64
		Bytes uint64 // that the store was given
		Code  comms.Code
		Err   string
	}
	// Answered answers Ask with the message for the client.
	Answered struct {
		Token uint64
		Msg   comms.Message
	}
	// Loaded brings a job out of the store, before anything else happens. Graph
	// and Request are nil when the job has ended; Past is then nil or has in Data what was kept.
	Loaded struct {
		Row     records.Job
		Request *comms.Submit
		Graph   *dag.Graph
		Bytes   []byte
		Past    *Past
	}
	// Known brings an agent that has ever registered out of the store, before Started.
	Known struct{ Row records.Agent }
	// Started: every job is loaded.
	Started struct{}
	// Paused: the store commits nothing for now, and why; an empty Why ends that.
	Paused struct{ Why string }
	// Tick: the time asked for with Wake has come.
	Tick struct{}
)

// Past is what the store knows of a job: see Replay.
type Past struct {
	Row     records.Job
	Request *comms.Submit
	States  *States
	Data    []records.Dataset       // every dataset published and not lost since, sorted
	Seen    map[string]records.Seen // by agent, of the job's shard
	Batches uint64                  // number of the next batch
	Given   []records.Assignment    // the last of the batches
}

// Earlier is what a job can take over of the one from which it resumes.
type Earlier struct {
	Same []Pair            // tasks that ended well there and are what they were, sorted by Task; instances too
	Ends []comms.StreamEnd // of open outputs of tasks in Same
	Why  []records.Reason  // of the other static tasks; of none when the past of the earlier job is not known
}

// Pair is a task and the task of the earlier job that it is.
type Pair struct{ Task, From dag.TaskIndex }

func (LinkUp) event()   {}
func (LinkDown) event() {}
func (Received) event() {}
func (Full) event()     {}
func (Free) event()     {}
func (Prepared) event() {}
func (Improved) event() {}
func (Departed) event() {}
func (Stored) event()   {}
func (Answered) event() {}
func (Loaded) event()   {}
func (Known) event()    {}
func (Started) event()  {}
func (Paused) event()   {}
func (Tick) event()     {}

// Action is what the driver must do, in order. It is one of the types below.
type Action interface{ action() }

type (
	// Send sends a message, with an optional body. Answer Full when it does not fit.
	Send struct {
		Link LinkID
		Msg  comms.Message
		Body []byte
	}
	// CloseLink ends a link whose peer makes no sense or does not read. Answer LinkDown.
	CloseLink struct {
		Link LinkID
		Why  string
	}
	// Prepare decodes and validates the graph of Submit, or takes Graph, or loads
	// it when both are nil; plans it for Cluster; and with Past reads the store
	// after everything stored for the job before. Answer Prepared.
	Prepare struct {
		Token   uint64
		Job     comms.JobID
		Submit  *comms.Submit
		Graph   *dag.Graph
		Past    bool
		Resume  *comms.Resume // compare with this earlier job, too
		Cluster planner.Cluster
	}
	// Improve looks for a better plan than the first for a cluster. Urgent: the job
	// waits for it, so that it is better answered with none than late. First nil: order
	// the job, which runs, by what its tasks are known to take by now. Answer Improved.
	Improve struct {
		Token   uint64
		Job     comms.JobID
		Hash    comms.Hash // of the graph
		Graph   *dag.Graph
		First   *planner.Plan
		Cluster planner.Cluster
		Effort  planner.Effort
		Urgent  bool
	}
	// Warn: a job is predicted to miss deadlines; no answer.
	Warn struct {
		Job    comms.JobID
		Name   string
		Tenant string
		Text   string
	}
	// Differs: recomputed datasets differ from the originals; no answer.
	Differs struct {
		Job      comms.JobID
		Name     string
		Tenant   string
		Text     string // which, or the first of several
		Datasets int
	}
	// Create stores a new job. Answer Stored.
	Create struct {
		Token   uint64
		Row     records.Job
		Request *comms.Submit
		Graph   []byte
	}
	// Store commits to a job. Graph says what its events' tasks are, for profiles; Reason why
	// those of Batch.Reset restart. Answer Stored.
	Store struct {
		Token  uint64
		Commit records.Commit
		Graph  *dag.Graph
		Reason RestartReason
	}
	// Measured says what an agent was sent by others: how fast the ways there are; no answer.
	Measured struct {
		Agent string
		Flows []comms.Flow
	}
	// GaveUp: an agent is waited for no more, and what it had of jobs restarts; no answer.
	GaveUp struct{ Agent string }
	// StoreAgent replaces the row of an agent; no answer.
	StoreAgent struct{ Row records.Agent }
	// Delete removes a job from the store. Answer Stored.
	Delete struct {
		Token uint64
		Job   comms.JobID
	}
	// Ask answers a Query, a Locate, or a Watch of a job that has ended (see
	// EndOf) from a snapshot of the store, after everything stored for the job
	// before. Graph is nil when it must be loaded; Agents are the rows of
	// QueryAgents, Uses those of QueryUse, Waits says for QueryJobs what jobs wait for, Cluster is what a
	// QueryPlan is answered for. Answer Answered.
	Ask struct {
		Token   uint64
		Msg     comms.Message
		Graph   *dag.Graph
		Agents  []comms.AgentRow
		Uses    []comms.UseRow
		Waits   map[comms.JobID]string
		Cluster planner.Cluster
	}
	// Wake asks for Tick at a time; it replaces the one before.
	Wake struct{ At time.Time }
)

func (Send) action()       {}
func (CloseLink) action()  {}
func (Prepare) action()    {}
func (Improve) action()    {}
func (Warn) action()       {}
func (Differs) action()    {}
func (Create) action()     {}
func (Store) action()      {}
func (Measured) action()   {}
func (GaveUp) action()     {}
func (StoreAgent) action() {}
func (Delete) action()     {}
func (Ask) action()        {}
func (Wake) action()       {}
