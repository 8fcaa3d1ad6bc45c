package comms

import "time"

// Messages between a client and the controller, and between a client and an
// agent that holds the bytes it wants. Req is chosen by the client and names the
// request in every answer; requests of one link may be answered in any order.

// Code says how a request ended.
type Code uint8

// The codes of Reply.
const (
	CodeOK          Code = iota // done
	CodeBadRequest              // the request cannot be right: Message says how to fix it
	CodeNotFound                // no such job, task, dataset
	CodeConflict                // not in this state
	CodeUnavailable             // not now: try again later
	CodeInternal                // a fault of ours
	CodeLost                    // the dataset's bytes are gone
	CodeMemory                  // the store is full
	CodeDenied                  // the sender's role does not permit it
)

// Reply ends a request.
type Reply struct {
	Req     uint64 // the request
	Code    Code   // how it ended
	Message string // for people; empty with CodeOK
}

// Blob is a piece of a blob, which is named by the hash of its whole: a graph by
// BLAKE3, a package and a file of an input by SHA-256. The bytes are the message's body frame. Pieces come in order,
// one at 0 restarts the blob; the receiver checks the hash when Total bytes are there.
type Blob struct {
	Hash   Hash   // name of the blob
	Offset uint64 // of this piece
	Total  uint64 // bytes of the whole
	Err    string // why the sender has no such piece; empty: here it is
}

// HaveReq asks which of the blobs the receiver lacks. Those that it has wait for the
// submit that needs them: ten minutes, from the last HaveReq on, unless configured otherwise.
type HaveReq struct {
	Req    uint64 // names the request in the answer
	Hashes []Hash // blobs in question
}

// Have answers HaveReq.
type Have struct {
	Req     uint64 // the request
	Missing []Hash // those of them that the sender lacks, in the same order
	Why     string // why a blob that was sent before was not kept; may be empty
}

// NamedReq asks what the text of a job file names, for a client that does not read it itself. Nothing of it is kept.
type NamedReq struct {
	Req    uint64 // names the request in the answer
	Text   []byte // of the job file
	Params []byte // as Submit.Params
}

// Named answers NamedReq.
type Named struct {
	Req   uint64   // the request
	Name  string   // of the job
	Files []string // texts of its tasks that may be paths of files: what Submit.Contents has of those that are, a later job compares
}

// Submit makes a job. It is idempotent: a second Submit with the same ID is
// answered as the first, and refused when its graph differs. A graph that the
// controller has seen lately, or has as a blob, need not come along: when it is
// not there after all the answer is CodeNotFound, and the client sends it.
type Submit struct {
	Req       uint64    // names the request in every answer
	Job       JobID     // made by the client, see NewJobID
	Graph     []byte    // encoded dag.Graph, or the text of a job file; empty when GraphHash names a blob sent before
	GraphHash Hash      // BLAKE3 of the encoded graph; may be empty when Graph is there
	Dir       string    // folder that relative paths of the job refer to
	Tenant    string    // jobs of one tenant share its weight
	Priority  int64     // higher goes first
	Weight    uint32    // share of the tenant; 0 means 1
	Hold      bool      // accept it, but start nothing until released
	Labels    []string  // NAME=value, for people
	Registry  []FuncSig // functions of a Go program that submits itself; empty otherwise
	Watch     bool      // also subscribe, as Watch does; Accepted then stands for the first Progress
	Every     int64     // with Watch, as Watch.Every; 0 means the receiver's choice
	Keep      bool      // never delete the job by itself, however long ago it ended
	Contents  []Content // of files and environments that the job rests on, sorted by name: later jobs compare them
	Resume    *Resume   // reuse results of an earlier job; nil: none. With the text of a job file every dataset is kept, and the job may be zero: none
	Values    bool      // with Watch, as Watch.Values
	Params    []byte    // with the text of a job file: a YAML mapping of parameters to values
}

// Resume names an ended job whose results a new one reuses, where nothing
// that they rest on has changed and they are still there.
type Resume struct {
	Job   JobID    // the earlier job
	Again []string // tasks or groups that run again in any case, with all that depends on them
}

// Content is the content hash of something outside of a graph that tasks rest on.
type Content struct {
	Name string // "file PATH" as the job names it, "environment NAME" of one that rests on more than packages, "program" of functions without an environment, or "noted", with no hash, of a client that notes all of these
	Hash Hash   // SHA-256 of a file, the program among them; BLAKE3 of what an environment rests on
}

// Accepted answers Submit once the job is durable.
type Accepted struct {
	Req   uint64 // the request
	Job   JobID  // as submitted
	Again bool   // the job was there already
}

// Control changes the course of a job. SteerRerun takes the tasks by name.
type Control struct {
	Req    uint64      // names the request in the Reply
	Job    JobID       // which job
	Action SteerAction // what to do
	Tasks  []string    // SteerRerun: names of tasks or groups
	Reason string      // for people
}

// Watch subscribes to a job's progress: at once, then when it changes, at most
// every Every nanoseconds, and when the job has ended. Events asks for the job's
// events too, as Progress.Events; Values for the small outputs, as Progress.Values.
type Watch struct {
	Req    uint64 // names the request in every Progress
	Job    JobID  // which job
	Every  int64  // nanoseconds; shortest pause between two Progress; negative: only the first, the result and the end; UntilResult: and no end after the result
	Events bool   // send the events too
	Values bool   // send the exports that are inline with the first Progress that has Result, when they are few

	Outputs []string // exports, by name as in Locate, that Result and Values are about; none means all
}

// UntilResult, as Every, is for who wants no more than the result: a watch ends with the
// Progress that tells it. Receivers that do not know it tell the end too.
const UntilResult = -2

// JobPhase is where a job stands.
type JobPhase uint8

// The phases of a job; those from JobDone on are final.
const (
	JobQueued    JobPhase = iota + 1 // waits for an agent
	JobHeld                          // starts nothing until released
	JobRunning                       // an agent works on it
	JobDone                          // every export is there
	JobFailed                        // final; Progress.Error says why
	JobCancelled                     // a user stopped it
)

// Final tells whether the phase is a job's last.
func (p JobPhase) Final() bool { return p >= JobDone }

func (p JobPhase) String() string {
	switch p {
	case JobQueued:
		return "queued"
	case JobHeld:
		return "held"
	case JobRunning:
		return "running"
	case JobDone:
		return "done"
	case JobFailed:
		return "failed"
	case JobCancelled:
		return "cancelled"
	}
	return "unknown"
}

// GroupCounts counts the tasks of one group by state. Total grows while an open generator runs.
type GroupCounts struct {
	Group                                                            string // name of the group
	Total, Ready, Running, Done, Failed, Skipped, Cancelled, Retries uint64 // tasks; Retries counts attempts after the first
}

// Progress tells a watcher how a job stands. Result is set when every exported
// dataset is there, which may precede its commit; Final when the end of the job is durable.
type Progress struct {
	Req      uint64        // the Watch, or the Submit with Watch
	Job      JobID         // which job
	Name     string        // of the graph
	Phase    JobPhase      // where the job stands
	Result   bool          // every exported dataset is there, perhaps not yet durable
	Final    bool          // the end is durable; nothing more follows
	Groups   []GroupCounts // in the order of the graph
	Error    *TaskError    // the first cause of a failure
	Started  int64         // wall-clock nanoseconds; 0 not yet
	Ended    int64         // wall-clock nanoseconds; 0 not yet
	Events   []Event       // since the last Progress, when Watch asked for them
	BytesOut uint64        // published so far
	TaskTime int64         // nanoseconds, summed
	Spilled  uint64        // bytes that went to disk
	Copied   uint64        // bytes that tasks had to copy
	Waits    string        // why a queued job does not start, or a running one gets no news; "" when nothing but time is missing
	Late     string        // which deadlines the prediction misses; "" none
	Values   []LocatedData // exports that are inline, with their bytes, when Watch asked for them: as Result, perhaps not yet durable; without Agent; others by Locate
	Ran      int64         // nanoseconds that it ran before it had ended and was run again; Started is of the last time
	Device   DeviceUse     // of all tasks

	Differs   uint64 // recomputed datasets that differ from the lost ones
	Differing string // the first of them, for people
}

// Took returns for how long the job has run, without the time between its end and
// a rerun; of one that has not ended, up to its last end.
func (m *Progress) Took() time.Duration {
	d := m.Ran
	if m.Started != 0 && m.Ended > m.Started {
		d += m.Ended - m.Started
	}
	return time.Duration(d)
}

// FilterOpen is the filter of a Query for jobs that have not ended.
const FilterOpen = "open"

// Filters of a Query for jobs that are sessions: all, and those that have not ended.
const (
	FilterSessions     = "sessions"
	FilterOpenSessions = "open sessions"
)

// Query asks for a page of rows. Kind is one of the constants Query...; Cursor
// is empty for the first page.
type Query struct {
	Req    uint64 // names the request in the Page
	Kind   string // "jobs", "tasks", "datasets", "agents", "environments", "story", "calls", "records", "losses", "graph", "plan", "profiles", "links", "members", "tokens"; of an agent "references"
	Job    JobID  // zero for all
	Filter string // of tasks: a task's or family's name, or a state; of the story: such a name; of jobs: a name, a phase or "open" (has not ended); of profiles: a job's, task's or function's name; of links: an agent's name
	Cursor []byte // of the page before; empty for the first
	Limit  uint32 // most rows; 0 means the receiver's choice
}

// The kinds of Query, and the type of their rows.
const (
	QueryJobs         = "jobs"         // JobRow
	QueryTasks        = "tasks"        // TaskRow
	QueryDatasets     = "datasets"     // DatasetRow
	QueryAgents       = "agents"       // AgentRow
	QueryEnvironments = "environments" // EnvironmentRow
	QueryStory        = "story"        // StoryRow; Filter is the task's name
	QueryCalls        = "calls"        // CallRow: called tasks that have ended. Filter is a name, function or state, or the name of their caller
	QueryRecords      = "records"      // RecordRow: how called tasks have ended, and what they take to run again. Filter is a name, with or without the part that its parent chose; with "/" behind it: those that the task has called
	QueryLosses       = "losses"       // LossRow: agents that were lost with tasks of the job
	QueryGraph        = "graph"        // one row: the encoded dag.Graph
	QueryPlan         = "plan"         // PlanRow
	QueryProfiles     = "profiles"     // ProfileRow; Filter is a job's, task's or function's name
	QueryLinks        = "links"        // LinkRow: what transfers between hosts cost; Filter is an agent's name
	QueryMembers      = "members"      // MemberRow; for admins
	QueryTokens       = "tokens"       // TokenRow; for admins
	QueryUse          = "use"          // UseRow: how much of each host was in use in the last minutes
	QueryReferences   = "references"   // ReferenceRow; of an agent: what dynamic tasks keep there
)

// Page is some rows of an answer, each a msgpack map with the row type's json names.
type Page struct {
	Req    uint64   // the request
	Rows   [][]byte // each a msgpack map, or the encoded graph
	Cursor []byte   // of the next page; empty: this is the last
}

// Locate asks where datasets are. Names are TASK.OUTPUT, TASK.OUTPUT[ELEMENT] or
// TASK when it has one output; none means the job's exports.
type Locate struct {
	Req    uint64   // names the request in the answer
	Job    JobID    // which job
	Names  []string // datasets; none means the exports
	Partly bool     // without Names: also when exports are missing
}

// Located answers Locate, in the order of the names. A dataset that is inline is complete.
type Located struct {
	Req     uint64        // the request
	Data    []LocatedData // in the order of the names
	Missing []string      // with Partly: the exports that are not there; with names: those of families that are not
}

// LocatedData is one dataset of a Located.
type LocatedData struct {
	Name      string   // TASK.OUTPUT or TASK.OUTPUT[ELEMENT]
	Desc      Desc     // its descriptor; inline: complete
	Path      string   // where the job file wants it copied; "" nowhere
	Agent     string   // that has the bytes
	Addresses []string // of the agent
}

// Fetch asks an agent for bytes of a dataset, or of a task's log when Log is set.
type Fetch struct {
	Req    uint64    // names the request in the answer
	Data   DatasetID // the dataset; with Log its Job alone counts
	Log    bool      // the task's log is asked for
	Task   string    // with Log: the name of the task
	Offset uint64    // of the first byte wanted
	Max    uint64    // most bytes; 0 means the agent's bound, 1 MiB
	Host   string    // the client reads bytes of this host (as its agents' resource names it) by itself: an agent there may answer with their Place, and holds them until the request is ended, or the link. Of one with the feature views a shared lock (flock) on a file that is the dataset alone keeps them for longer
	Ends   uint64    // ends such a request, which a Reply answers; all other fields but Req are empty
}

// Chunk answers Fetch; its bytes are the message's body frame. To a Fetch with Host, and none
// in the body, they are Desc.Size bytes from Desc.Place.Offset on of the file Desc.Place.Where.
type Chunk struct {
	Req    uint64 // the request
	Offset uint64 // of the body's first byte
	Total  uint64 // bytes of the whole; of a log: so far
	Desc   Desc   // of the dataset; zero for a log
}

// Type returns TypeReply.
func (*Reply) Type() Type { return TypeReply }

// Type returns TypeBlob.
func (*Blob) Type() Type { return TypeBlob }

// Type returns TypeHaveReq.
func (*HaveReq) Type() Type { return TypeHaveReq }

// Type returns TypeNamedReq.
func (*NamedReq) Type() Type { return TypeNamedReq }

// Type returns TypeNamed.
func (*Named) Type() Type { return TypeNamed }

// Type returns TypeHave.
func (*Have) Type() Type { return TypeHave }

// Type returns TypeSubmit.
func (*Submit) Type() Type { return TypeSubmit }

// Type returns TypeAccepted.
func (*Accepted) Type() Type { return TypeAccepted }

// Type returns TypeControl.
func (*Control) Type() Type { return TypeControl }

// Type returns TypeWatch.
func (*Watch) Type() Type { return TypeWatch }

// Type returns TypeProgress.
func (*Progress) Type() Type { return TypeProgress }

// Type returns TypeQuery.
func (*Query) Type() Type { return TypeQuery }

// Type returns TypePage.
func (*Page) Type() Type { return TypePage }

// Type returns TypeLocate.
func (*Locate) Type() Type { return TypeLocate }

// Type returns TypeLocated.
func (*Located) Type() Type { return TypeLocated }

// Type returns TypeFetch.
func (*Fetch) Type() Type { return TypeFetch }

// Type returns TypeChunk.
func (*Chunk) Type() Type { return TypeChunk }

func (m *Reply) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Req)
		Uint(c, &m.Code)
		String(c, &m.Message)
	})
}

func (m *Blob) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		c.Hash(&m.Hash)
		Uint(c, &m.Offset)
		Uint(c, &m.Total)
		String(c, &m.Err)
	})
}

func (m *HaveReq) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &m.Req)
		Slice(c, &m.Hashes, (*Coder).Hash)
	})
}

func (m *Have) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Req)
		Slice(c, &m.Missing, (*Coder).Hash)
		String(c, &m.Why)
	})
}

func (m *NamedReq) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Req)
		c.Bytes(&m.Text)
		c.Bytes(&m.Params)
	})
}

func (m *Named) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Req)
		String(c, &m.Name)
		Slice(c, &m.Files, String[string])
	})
}

func (m *Submit) code(c *Coder) {
	c.Struct(18, func(c *Coder) {
		Uint(c, &m.Req)
		c.ID((*[16]byte)(&m.Job))
		c.Bytes(&m.Graph)
		c.Hash(&m.GraphHash)
		String(c, &m.Dir)
		String(c, &m.Tenant)
		Int(c, &m.Priority)
		Uint(c, &m.Weight)
		c.Bool(&m.Hold)
		Slice(c, &m.Labels, String[string])
		Slice(c, &m.Registry, func(c *Coder, f *FuncSig) { f.code(c) })
		c.Bool(&m.Watch)
		Int(c, &m.Every)
		c.Bool(&m.Keep)
		Slice(c, &m.Contents, func(c *Coder, x *Content) {
			c.Struct(2, func(c *Coder) {
				String(c, &x.Name)
				c.Hash(&x.Hash)
			})
		})
		Pointer(c, &m.Resume, func(c *Coder, r *Resume) {
			c.Struct(2, func(c *Coder) {
				c.ID((*[16]byte)(&r.Job))
				Slice(c, &r.Again, String[string])
			})
		})
		c.Bool(&m.Values)
		c.Bytes(&m.Params)
	})
}

func (m *Accepted) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Req)
		c.ID((*[16]byte)(&m.Job))
		c.Bool(&m.Again)
	})
}

func (m *Control) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		Uint(c, &m.Req)
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.Action)
		Slice(c, &m.Tasks, String[string])
		String(c, &m.Reason)
	})
}

func (m *Watch) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		Uint(c, &m.Req)
		c.ID((*[16]byte)(&m.Job))
		Int(c, &m.Every)
		c.Bool(&m.Events)
		c.Bool(&m.Values)
		Slice(c, &m.Outputs, String[string])
	})
}

func (m *Progress) code(c *Coder) {
	c.Struct(22, func(c *Coder) {
		Uint(c, &m.Req)
		c.ID((*[16]byte)(&m.Job))
		String(c, &m.Name)
		Uint(c, &m.Phase)
		c.Bool(&m.Result)
		c.Bool(&m.Final)
		Slice(c, &m.Groups, func(c *Coder, g *GroupCounts) {
			c.Struct(9, func(c *Coder) {
				String(c, &g.Group)
				for _, n := range []*uint64{&g.Total, &g.Ready, &g.Running, &g.Done, &g.Failed, &g.Skipped, &g.Cancelled, &g.Retries} {
					Uint(c, n)
				}
			})
		})
		Pointer(c, &m.Error, func(c *Coder, e *TaskError) { e.code(c) })
		Int(c, &m.Started)
		Int(c, &m.Ended)
		Slice(c, &m.Events, func(c *Coder, e *Event) { e.code(c) })
		Uint(c, &m.BytesOut)
		Int(c, &m.TaskTime)
		Uint(c, &m.Spilled)
		Uint(c, &m.Copied)
		String(c, &m.Waits)
		String(c, &m.Late)
		Slice(c, &m.Values, func(c *Coder, d *LocatedData) { d.code(c) })
		Int(c, &m.Ran)
		m.Device.code(c)
		Uint(c, &m.Differs)
		String(c, &m.Differing)
	})
}

func (m *Query) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		Uint(c, &m.Req)
		String(c, &m.Kind)
		c.ID((*[16]byte)(&m.Job))
		String(c, &m.Filter)
		c.Bytes(&m.Cursor)
		Uint(c, &m.Limit)
	})
}

func (m *Page) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Req)
		Slice(c, &m.Rows, func(c *Coder, b *[]byte) { c.Bytes(b) })
		c.Bytes(&m.Cursor)
	})
}

func (m *Locate) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Req)
		c.ID((*[16]byte)(&m.Job))
		Slice(c, &m.Names, String[string])
		c.Bool(&m.Partly)
	})
}

func (m *Located) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Req)
		Slice(c, &m.Data, func(c *Coder, d *LocatedData) { d.code(c) })
		Slice(c, &m.Missing, String[string])
	})
}

func (d *LocatedData) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		String(c, &d.Name)
		d.Desc.code(c)
		String(c, &d.Path)
		String(c, &d.Agent)
		Slice(c, &d.Addresses, String[string])
	})
}

func (m *Fetch) code(c *Coder) {
	c.Struct(8, func(c *Coder) {
		Uint(c, &m.Req)
		c.Struct(2, func(c *Coder) {
			c.ID((*[16]byte)(&m.Data.Job))
			m.Data.DatasetRef.code(c)
		})
		c.Bool(&m.Log)
		String(c, &m.Task)
		Uint(c, &m.Offset)
		Uint(c, &m.Max)
		String(c, &m.Host)
		Uint(c, &m.Ends)
	})
}

func (m *Chunk) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Req)
		Uint(c, &m.Offset)
		Uint(c, &m.Total)
		m.Desc.code(c)
	})
}
