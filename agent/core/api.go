package core

import (
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Config is what the core must know from the start. Zero fields marked with a
// default take it.
type Config struct {
	Agent       string
	Incarnation uint64
	Addresses   []string // where clients reach the agent
	Sessions    string   // where programs of its host say Hello with a session
	Host        string   // name or number under which members of gangs on other hosts reach those here; default: 127.0.0.1
	BootID      string
	Total       comms.Resources // what tasks may occupy together; its devices are numbers by default, as many as GPU says
	Platform    string          // for which binaries run there, as in Register

	LastEvent    uint64           // highest event number that an earlier incarnation used
	LastExecutor comms.ExecutorID // highest executor number that an earlier incarnation used
	Adopted      []Adopted        // datasets that an earlier incarnation left; one entry for memory, one for disk
	Segments     []Segment        // segments that it left: those without a dataset are removed

	Dir          string // working folder of the warm executors
	Warm         int    // executors of the default environment to start before the first task
	MaxExecutors int    // most executors, those of held-back generators not counted; default: twice the cores, at least 4
	MaxWaiting   int    // most runs that wait for calls, each a process beside those; default: one for 16 MiB of memory, from 128 to 1,024

	Memory     int64 // bytes of shared memory for datasets
	ArenaBytes int64 // size of one arena; default: the ledger's
	LargeBytes int64 // datasets from this size get a file of their own; default: the ledger's
	CheckFrees bool  // ask for FreedRange effects (poisoning)

	EventsFor    time.Duration // how long events that no process waits for may wait for others, while tasks run; default: not at all
	ForwardAfter time.Duration // how long calls wait here before the controller is asked for agents that could run them; 0: they never go elsewhere
	Patience     time.Duration // how long calls wait for an agent to which there is no link, before they run elsewhere; default 3s

	EventsKept int // most events kept uncommitted: above it no new run starts; default 1<<18

	RecordsKept int // bytes of records of called tasks kept uncommitted, about: above it ends of calls are told without; default 64 MiB

	// Unfused has a task wait for the end of what it reads from before it goes to an
	// executor, and has every output published: to see what fusion is worth.
	Unfused bool
}

// Event is what happened. It is one of the types below.
type Event interface{ event() }

type (
	// ControllerUp: the link to a controller is up. Submits: it takes jobs from agents. Resumed: the same
	// incarnation with which the agent spoke before, and the link lost nothing.
	ControllerUp struct{ Resumed, Submits bool }
	// ControllerDown: the link is gone, for now.
	ControllerDown struct{}
	// FromController brings what a controller sends and the core acts on. With Assign comes
	// the decoded graph, or Err when it could not be had; the core keeps no
	// encoded graph.
	FromController struct {
		Msg   comms.Message
		Graph *dag.Graph
		Err   string
	}

	// Spawned: the process of an executor started (Err empty) or could not. It answers Admit too.
	Spawned struct {
		Executor    comms.ExecutorID
		PID         int64
		ControlPage string // for Welcome
		Scratch     string // for Welcome
		ShmDir      string // for Welcome
		Err         string
	}
	// FromExecutor brings any message of an executor whose Hello's token the
	// driver has checked, Hello itself included. Log is turned into AppendLog.
	FromExecutor struct {
		Executor comms.ExecutorID
		Msg      comms.Message
	}
	// Printed: the process of an executor wrote text beside its messages, such as the trace of a crash. Task is the
	// name of the task of Job that it ran then.
	Printed struct {
		Executor comms.ExecutorID
		Run      comms.RunID
		Job      comms.JobID
		Task     string
		Text     []byte
	}
	// Attach: a program has said Hello with a session. Admit or Refuse answers, perhaps later.
	Attach struct {
		Key     uint64 // the driver's number of the link
		Session comms.JobID
		Output  bool // as in Hello
	}
	// ExecutorBroken: the link broke or was malformed. The core answers with
	// Kill; ExecutorDead must follow. Of a program that was admitted it tells the end of the
	// link, whoever ended it; Dismiss or Kill answers.
	ExecutorBroken struct {
		Executor comms.ExecutorID
		Why      string
	}
	// ExecutorDead: the process and its tree are known dead (waited for).
	ExecutorDead struct {
		Executor comms.ExecutorID
		Run      comms.RunID // from the control page: the run it was in; 0 none
		Why      string      // "signal: killed", "exit status 2"
		Signal   string      // name of the signal that ended it, or ""
		ReadOnly bool        // the crash output shows a write into a read-only mapping: Why says which
		Memory   bool        // the memory limit (cgroup or monitor) ended it: Why says how much
		Used     int64       // bytes of private memory that the run had then; 0 unknown
		Panic    string      // the crash output shows a panic that no caller could recover: its message
		Stack    string      // of that panic
		Tail     []byte      // last bytes it wrote
	}
	// EnvWaits says that an environment was not found and is built (Why is empty), or what its build waits for, such as a package index that does not
	// answer. EnvReady is still to come.
	EnvWaits struct {
		Job      comms.JobID
		Name     string
		Commands bool
		Why      string
	}
	// EnvReady answers BuildEnv. Key names what was built by its content: jobs
	// whose environments have the same Key share executors.
	EnvReady struct {
		Job      comms.JobID
		Name     string
		Commands bool // of BuildEnv
		Key      string
		Dir      string // where its tasks start; "" is the job's folder
		Err      string
		// Bytes is how much was made for it.
		Bytes uint64
	}

	// SegmentReady answers CreateSegment and ResizeSegment. Path is what executors map.
	SegmentReady struct {
		Segment uint64
		Path    string
		Err     error
	}
	// SpillDone answers Spill. File is where the bytes are, for readers of spilled datasets.
	SpillDone struct {
		Key  [32]byte
		File string
		Err  error
	}
	// ReadBackDone answers ReadBack.
	ReadBackDone struct {
		Key [32]byte
		Err error
	}

	// FromClient brings a Fetch of a dataset (Log unset; logs are the driver's), or a Query of references.
	FromClient struct {
		Client uint64 // the driver's number of the connection
		Msg    comms.Message
	}
	// ChunkServed: a ServeChunk was sent or given up; its pin ends.
	ChunkServed struct {
		Client uint64
		Req    uint64
	}
	// ClientGone: the connection ended; nothing more is sent to it.
	ClientGone struct{ Client uint64 }

	// PeerUp: there is a link to another agent, with the process of that incarnation.
	// Resumed: it is the one of before, and the link lost nothing.
	PeerUp struct {
		Agent       string
		Incarnation uint64
		Resumed     bool
	}
	// PeerDown: the link to another agent is gone, for now or (Over) for good: the
	// next one is not resumed.
	PeerDown struct {
		Agent string
		Over  bool
	}
	// PeerFull: the outbound queue to another agent is full, or has room again.
	PeerFull struct {
		Agent string
		Full  bool
	}
	// FromPeer brings Notice, Released, Forward, Forwarded or Recall of another agent.
	FromPeer struct {
		Agent string
		Msg   comms.Message
	}
	// Pulled answers Pull: all bytes are there, and the transfer does not use them any more.
	Pulled struct{ Pull uint64 }
	// PullFailed answers Pull or StopPull: the bytes are not written any more.
	PullFailed struct {
		Pull uint64
		Err  string
	}
	// Flowed brings what was measured of the ways from other agents and was not told
	// before, of pulls that ended well or not.
	Flowed struct{ Flows []comms.Flow }
	// Wanted: another agent asks for a dataset that is not offered. Offer or NotHere
	// answers, perhaps later.
	Wanted struct {
		Data    comms.DatasetID
		Attempt uint32
	}
	// Unwanted: no agent fetches an offered dataset just now.
	Unwanted struct {
		Data    comms.DatasetID
		Attempt uint32
	}
	// NotOffered takes an Offer back that could not be served.
	NotOffered struct {
		Data    comms.DatasetID
		Attempt uint32
	}
	// Withdrawn answers Withdraw: its bytes have no reader any more.
	Withdrawn struct {
		Data    comms.DatasetID
		Attempt uint32
	}

	// PortsLeased answers LeasePorts: N ports that are leased to no other task before
	// ReturnPorts, or why there are none.
	PortsLeased struct {
		ID    uint64
		Ports []uint16
		Err   string
	}

	// Full: the outbound queue to a peer is full: send no more until Free. Executor 0 is the controller.
	Full struct{ Executor comms.ExecutorID }
	// Free: there is room again.
	Free struct{ Executor comms.ExecutorID }
	// Drain: the agent will end. No task starts any more; see Core.Drained.
	Drain struct{}
	// Quit: the agent that drains ends now, whatever it has begun.
	Quit struct{}
	// Idle: the driver's inbox is empty. The core flushes what it holds back for batching.
	Idle struct{}
	// Tick: the time asked for with SetTimer has come.
	Tick struct{}
)

func (ControllerUp) event()   {}
func (ControllerDown) event() {}
func (FromController) event() {}
func (Spawned) event()        {}
func (Attach) event()         {}
func (FromExecutor) event()   {}
func (ExecutorBroken) event() {}
func (ExecutorDead) event()   {}
func (EnvReady) event()       {}
func (EnvWaits) event()       {}
func (SegmentReady) event()   {}
func (SpillDone) event()      {}
func (ReadBackDone) event()   {}
func (FromClient) event()     {}
func (ChunkServed) event()    {}
func (ClientGone) event()     {}
func (PeerUp) event()         {}
func (PeerDown) event()       {}
func (Printed) event()        {}
func (PeerFull) event()       {}
func (FromPeer) event()       {}
func (Pulled) event()         {}
func (Flowed) event()         {}
func (PullFailed) event()     {}
func (Wanted) event()         {}
func (Unwanted) event()       {}
func (NotOffered) event()     {}
func (Withdrawn) event()      {}
func (PortsLeased) event()    {}
func (Full) event()           {}
func (Free) event()           {}
func (Drain) event()          {}
func (Quit) event()           {}
func (Idle) event()           {}
func (Tick) event()           {}

// Action is what the driver must do, in order. It is one of the types below.
type Action interface{ action() }

type (
	// ToController sends a message to the controller.
	ToController struct{ Msg comms.Message }
	// ToExecutor sends a message to an executor.
	ToExecutor struct {
		Executor comms.ExecutorID
		Msg      comms.Message
	}
	// ToClient sends a message to a client, with an optional body (Chunk).
	ToClient struct {
		Client uint64
		Msg    comms.Message
		Body   []byte
	}
	// ServeChunk reads N bytes at Offset of a dataset and sends them with Msg
	// (Chunk) to the client. Path names the segment's file and At the place of
	// the dataset in it. Answer ChunkServed.
	ServeChunk struct {
		Client uint64
		Msg    *comms.Chunk
		Path   string
		At     uint64 // offset of the first byte to send, in the segment
		N      uint64
	}

	// MeetPeer: a job is shared with another agent, a link to it is needed. PeerUp follows.
	MeetPeer struct {
		Agent       string
		Incarnation uint64
		Addresses   []string
	}
	// LeavePeer: no job is shared with it any more.
	LeavePeer struct{ Agent string }
	// ResetPeer: end the link to another agent and make a new one that is not
	// resumed: what it told was lost.
	ResetPeer struct{ Agent string }
	// ToPeer sends Notice, Released, Forward, Forwarded or Recall to another agent.
	ToPeer struct {
		Agent string
		Msg   comms.Message
	}
	// Pull fetches a dataset of Size bytes from one of the agents in From, best
	// first, into the segment's file at Path from offset At on. Answer Pulled or
	// PullFailed.
	Pull struct {
		ID             uint64
		Data           comms.DatasetID
		Attempt        uint32
		JobIncarnation uint64 // of the job
		Size           uint64
		From           []string
		Path           string
		At             uint64
	}
	// Copy copies Size bytes of a segment's file at From into another at Path, from
	// offset FromAt to offset At on. Answer Pulled or PullFailed, as to a Pull.
	Copy struct {
		ID     uint64
		From   string
		FromAt uint64
		Path   string
		At     uint64
		Size   uint64
	}
	// StopPull cancels a Pull. It is answered once the bytes are not written any more.
	// A Copy is soon over by itself.
	StopPull struct{ Pull uint64 }
	// Offer answers Wanted: Size bytes are in the segment's file at Path from offset
	// At on, or in Body, and stay there until Withdrawn.
	Offer struct {
		Data    comms.DatasetID
		Attempt uint32
		Path    string
		At      uint64
		Size    uint64
		Body    []byte
	}
	// NotHere answers Wanted: the dataset cannot be had here.
	NotHere struct {
		Data    comms.DatasetID
		Attempt uint32
		Err     string
	}
	// Withdraw ends an offer. Answer Withdrawn once the bytes have no reader.
	Withdraw struct {
		Data    comms.DatasetID
		Attempt uint32
	}

	// Spawn starts an executor process. Env is the Key of EnvReady, "" the
	// default environment. Devices are the names of those that it has until it is dead,
	// whole or in part: it sees no others. Answer Spawned.
	Spawn struct {
		Executor comms.ExecutorID
		Env      string
		Dir      string
		Devices  []string
	}
	// Kill ends an executor's whole process tree with SIGKILL. Answer ExecutorDead. Of a program
	// it ends the link, with ExecutorBroken; ExecutorDead follows when the program's process has ended.
	Kill struct {
		Executor comms.ExecutorID
		Why      string
	}
	// Admit makes the program of an Attach an executor. Answer Spawned.
	Admit struct {
		Key      uint64
		Executor comms.ExecutorID
	}
	// Refuse ends the link of an Attach.
	Refuse struct {
		Key uint64
		Why string
	}
	// Dismiss: a program that was admitted has nothing any more. Its end does not matter.
	Dismiss struct{ Executor comms.ExecutorID }
	// LeasePorts asks for N ports of this host for the members of a gang. Answer PortsLeased.
	LeasePorts struct {
		ID uint64
		N  int
	}
	// ReturnPorts gives leased ports back.
	ReturnPorts struct{ Ports []uint16 }
	// BuildEnv makes what tasks of an environment need. Answer EnvReady.
	BuildEnv struct {
		Job      comms.JobID
		Env      dag.Environment
		Commands bool   // what is to run in it are commands, not functions
		Dir      string // the job's folder
	}

	// Memory carries one effect of the ledger for the segments' driver, by
	// value: ledger.CreateSegment, ResizeSegment, SealSegment, RemoveSegment,
	// Spill, ReadBack, DropSpill, FreedRange, Enter or Strike. With Spill and
	// Enter, Desc describes the dataset, and JobIncarnation is its job's, so that a later
	// incarnation can adopt it.
	Memory struct {
		Effect         any
		Desc           comms.Desc
		JobIncarnation uint64
	}

	// AppendLog adds text to a task's log.
	AppendLog struct {
		Job     comms.JobID
		Task    string
		Called  string // the called task that wrote it, if one did: the log is that of the task of the graph that has called it
		Attempt uint32
		Stream  uint8
		Text    []byte
	}
	// DropJob tells that a job was forgotten: its logs and scratch files may go.
	DropJob struct{ Job comms.JobID }
	// Leave: the controller has the agent leave, as after Drain. Grace is how long
	// what runs has to end; 0 means what the driver is configured with.
	Leave struct {
		Grace time.Duration
		Why   string
	}
	// SetTimer asks for Tick at a time; it replaces the one before.
	SetTimer struct{ At time.Time }
)

func (ToController) action() {}
func (ToExecutor) action()   {}
func (ToClient) action()     {}
func (ServeChunk) action()   {}
func (MeetPeer) action()     {}
func (LeavePeer) action()    {}
func (ResetPeer) action()    {}
func (ToPeer) action()       {}
func (Pull) action()         {}
func (Copy) action()         {}
func (StopPull) action()     {}
func (Offer) action()        {}
func (NotHere) action()      {}
func (Withdraw) action()     {}
func (Spawn) action()        {}
func (Kill) action()         {}
func (Admit) action()        {}
func (Refuse) action()       {}
func (Dismiss) action()      {}
func (LeasePorts) action()   {}
func (ReturnPorts) action()  {}
func (BuildEnv) action()     {}
func (Memory) action()       {}
func (AppendLog) action()    {}
func (DropJob) action()      {}
func (Leave) action()        {}
func (SetTimer) action()     {}
