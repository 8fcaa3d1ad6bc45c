package comms

import "github.com/cascade-run/cascade/dag"

// Messages between agent and executor. This link has no replay: when it breaks,
// the executor ends, and the agent waits for its process to be dead before it
// gives its memory to others.

// Hello is an executor's first message. A program that opens a session says it as well:
// it is the executor of the session's task, and of nothing else.
type Hello struct {
	PID       int64     // of the process
	Token     string    // from the executor's environment: which spawn this is; "" with Session
	Build     string    // version of the program
	Language  string    // "go", "python"
	Functions []FuncSig // that it can run beside commands; none with Session
	Session   JobID     // a program is to run the task of this session; zero: an executor that the agent started
	Output    bool      // with Session: what called tasks write is sent to the program, too, as Log of the session's run
}

// Welcome answers Hello.
type Welcome struct {
	Executor    ExecutorID // its number
	Agent       string     // name of the agent
	ControlPage string     // file of the shared page in which the executor marks its current run
	InlineMax   uint64     // outputs up to this size travel in messages
	Scratch     string     // folder for the files of commands
	ShmDir      string     // folder of the host's segments
	Calls       bool       // the agent takes Calls
}

// Segment announces a segment that places may name, before the first such place,
// or withdraws it (Close): then the executor unmaps it as soon as no view uses it.
type Segment struct {
	ID    uint32 // its number, as places name it; never used again
	Path  string // file to map
	Size  uint64 // bytes of the file
	Close bool   // it goes away: map it no more, unmap it when no view needs it
}

// Kind is what all runs of one group of one job share, or of groups of it that have
// one task each and differ in name and values of parameters only. It is sent once to an
// executor before the first run that refers to it.
type Kind struct {
	ID        uint32        // by which runs refer to it
	Job       JobID         // whose runs they are
	Group     string        // name of the group; "" of several: each run has a name, which is its group's up to the first "["
	Function  string        // registered name; "" for a command
	Command   []Word        // command line with placeholders; none for a function
	Stdin     string        // name of the input fed to the command; "" none
	Stdout    string        // name of the output that takes the command's standard output; "" none
	Inputs    []KindIn      // in the order of Run.Inputs
	Outputs   []KindOut     // in the order of DatasetRef.Output
	Resources Resources     // granted while a run of this kind runs
	Timeout   int64         // nanoseconds; 0 none
	Env       []string      // NAME=value that all runs share
	Dir       string        // working folder
	Close     bool          // drop the kind ID: its job is gone
	With      []byte        // msgpack map of parameters that all runs share; a run's own replace it
	First     dag.TaskIndex // with Axes: first task of the group
	Axes      []KindAxis    // none, or the numbers in the names of its tasks: group[i,j]; the last axis runs fastest
	HashMax   uint64        // outputs of up to so many bytes that lie in shared memory are to have a hash; see Hash
}

// KindAxis is the numbers First, First+1, ... of one axis of a group.
type KindAxis struct {
	First int64 // of the first task on the axis
	N     int64 // how many there are
}

// Word is one word of a command line: parts that are concatenated.
type Word struct{ Parts []dag.ArgPart }

// KindIn describes an input of a kind.
type KindIn struct {
	Name string // as the function or command line names it
	List bool   // it takes a list of datasets rather than one
	From string // where it comes from, as the job says it, for messages: "mask.x"; "" is not said
}

// KindOut describes an output of a kind.
type KindOut struct {
	Name     string       // as the function or command line names it
	Generate dag.Generate // one dataset, or a series
	Count    uint64       // GenerateFixed: elements of the series
	File     bool         // a command reads or writes it: make it a whole file
	Buffer   uint64       // of a series: elements that may be published before the first Credit; 0 any number
}

// Dispatch gives an executor runs, to be started one after another in this order.
type Dispatch struct {
	Runs []Run // behind those that are queued already
}

// Run is one attempt at one task. Inputs follow the kind's declarations. An
// input whose Place is PlaceLive is the output of an earlier run of the same
// executor: if that run fails, this one is returned with Reclaimed.
type Run struct {
	ID      RunID         // by which everything refers to it; never used again. 0 on the wire only: many runs, in Steps as columns
	Kind    uint32        // announced before
	Task    dag.TaskIndex // for the names of its outputs
	Attempt uint32        // for the names of its outputs
	Name    string        // task name; "" when the kind tells it
	With    []byte        // msgpack map of parameters; empty for the kind's
	Command []Word        // replaces the kind's, when placeholders differ by task
	Env     []string      // added to the kind's
	Inputs  []RunInput    // in the order of the kind's
	Live    []uint32      // outputs wanted by a later run of this executor as a live value
	Private []uint32      // outputs without another reader: they need not be published
	Skip    []uint64      // for each output of a generator: elements already final, do not publish again
	Steps   []byte        // runs that follow: columns, see Step
}

// RunInput is the datasets of one input: one, or the list in order. A list
// element that failed and is not needed has PlaceNone.
type RunInput struct {
	Data []Desc // in order
}

// Reclaim asks for runs that have not started. The answer is Reclaimed with those
// that will not be started. It lacks runs that have started, and runs that read a
// live value of a run that is named too and has started.
type Reclaim struct {
	Runs []RunID // wanted back
}

// Reclaimed returns runs that were not started and will not be. It answers
// Reclaim, and comes unasked for a run whose live inputs are not there.
type Reclaimed struct {
	Runs []RunID // in any order; may be empty
}

// Cancel ends a run: its context is cancelled; after Grace a command gets
// SIGTERM, then SIGKILL. Why is the kind of error it ends with.
type Cancel struct {
	Run   RunID     // queued or running
	Why   ErrorKind // kind of the error that it ends with
	Text  string    // message of that error
	Grace int64     // nanoseconds between the steps
}

// Credit lets a generator publish N more elements of an output.
type Credit struct {
	Run    RunID  // queued or running
	Output uint32 // which output
	N      uint64 // elements more
}

// LeaseReq asks for room for outputs.
type LeaseReq struct {
	Token uint64 // names the request in the answer
	Size  uint64 // bytes; with File 0 when it is not known
	File  bool   // a whole file of its own; with Size 0 one that a command will make at Path
	Run   RunID  // the run that needs it; 0 for the executor's standing lease
}

// Lease answers LeaseReq. The region stays the executor's until its runs'
// outputs in it are sealed and the rest is returned by Report, or its process is dead.
// One that answers nothing (Token 0, with Error) asks for the executor's standing
// lease: it is returned when no run uses it.
type Lease struct {
	Token   uint64 // of the LeaseReq
	Segment uint32 // number of the segment, for places
	Path    string // its file
	Offset  uint64 // where the region begins, a multiple of the page size
	Size    uint64 // bytes of the region
	Error   string // not empty: refused, and why
}

// Report carries what happened in an executor, in order.
type Report struct {
	Items []ReportItem // oldest first
}

// ReportKind says what a ReportItem reports.
type ReportKind uint8

// The kinds of ReportItem.
const (
	ReportStarted     ReportKind = iota + 1 // the run has begun; left out when it ends soon after
	ReportPublished                         // Outputs[0] of a run that continues
	ReportFinished                          // the run succeeded; Outputs are those not published before
	ReportFailed                            // the run failed; Error says how
	ReportLeaseReturn                       // the rest of a lease: Lease, from the first unused byte to the lease's end
	ReportThrottled                         // the generator waits for credit
	ReportResumed                           // and continues
	ReportSteps                             // the runs Run, Run+1, ... succeeded one after another, without outputs to tell: Steps
	ReportBlock                             // on the wire only: many items, in Steps as columns
)

// ReportItem is one happening.
type ReportItem struct {
	Kind    ReportKind  // what happened
	Run     RunID       // to which run; 0 with ReportLeaseReturn
	At      int64       // wall-clock nanoseconds
	Outputs []Desc      // ReportPublished, ReportFinished
	Counts  []StreamEnd // ReportFinished: of open generators; Task is 0
	Usage   *Usage      // ReportFinished, ReportFailed
	Error   *TaskError  // ReportFailed
	Lease   *Lease      // ReportLeaseReturn: Segment, Offset and Size of the returned part
	Steps   []byte      // ReportSteps: the cost of each run: columns, see Usage. ReportBlock: the items
}

// Log carries text that a task wrote. An agent sends a program what tasks wrote that its session has called.
type Log struct {
	Run    RunID  // of which task; to a program: the session's
	Stream uint8  // 1 standard output, 2 standard error
	Text   []byte // as it was written, of any encoding
	// To a program: which function wrote it, and on which agent.
	Function string
	Agent    string
}

// Stop asks an executor to end: after the current runs, or at once.
type Stop struct {
	Now bool   // do not wait for running or queued runs
	Why string // in place of Welcome: why a program gets no session
}

// Type returns TypeHello.
func (*Hello) Type() Type { return TypeHello }

// Type returns TypeWelcome.
func (*Welcome) Type() Type { return TypeWelcome }

// Type returns TypeSegment.
func (*Segment) Type() Type { return TypeSegment }

// Type returns TypeKind.
func (*Kind) Type() Type { return TypeKind }

// Type returns TypeDispatch.
func (*Dispatch) Type() Type { return TypeDispatch }

// Type returns TypeReclaim.
func (*Reclaim) Type() Type { return TypeReclaim }

// Type returns TypeReclaimed.
func (*Reclaimed) Type() Type { return TypeReclaimed }

// Type returns TypeCancel.
func (*Cancel) Type() Type { return TypeCancel }

// Type returns TypeCredit.
func (*Credit) Type() Type { return TypeCredit }

// Type returns TypeLeaseReq.
func (*LeaseReq) Type() Type { return TypeLeaseReq }

// Type returns TypeLease.
func (*Lease) Type() Type { return TypeLease }

// Type returns TypeReport.
func (*Report) Type() Type { return TypeReport }

// Type returns TypeLog.
func (*Log) Type() Type { return TypeLog }

// Type returns TypeStop.
func (*Stop) Type() Type { return TypeStop }

func (m *Hello) code(c *Coder) {
	c.Struct(7, func(c *Coder) {
		Int(c, &m.PID)
		String(c, &m.Token)
		String(c, &m.Build)
		String(c, &m.Language)
		Slice(c, &m.Functions, func(c *Coder, f *FuncSig) { f.code(c) })
		c.ID((*[16]byte)(&m.Session))
		c.Bool(&m.Output)
	})
}

func (m *Welcome) code(c *Coder) {
	c.Struct(7, func(c *Coder) {
		Uint(c, &m.Executor)
		String(c, &m.Agent)
		String(c, &m.ControlPage)
		Uint(c, &m.InlineMax)
		String(c, &m.Scratch)
		String(c, &m.ShmDir)
		c.Bool(&m.Calls)
	})
}

func (m *Segment) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.ID)
		String(c, &m.Path)
		Uint(c, &m.Size)
		c.Bool(&m.Close)
	})
}

func codeWords(c *Coder, w *[]Word) {
	Slice(c, w, func(c *Coder, w *Word) {
		Slice(c, &w.Parts, func(c *Coder, p *dag.ArgPart) {
			c.Struct(2, func(c *Coder) {
				Uint(c, &p.Kind)
				String(c, &p.Text)
			})
		})
	})
}

func (in *KindIn) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		String(c, &in.Name)
		c.Bool(&in.List)
		String(c, &in.From)
	})
}

func (o *KindOut) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		String(c, &o.Name)
		Uint(c, &o.Generate)
		Uint(c, &o.Count)
		c.Bool(&o.File)
		Uint(c, &o.Buffer)
	})
}

func (m *Kind) code(c *Coder) {
	c.Struct(18, func(c *Coder) {
		Uint(c, &m.ID)
		c.ID((*[16]byte)(&m.Job))
		String(c, &m.Group)
		String(c, &m.Function)
		codeWords(c, &m.Command)
		String(c, &m.Stdin)
		String(c, &m.Stdout)
		Slice(c, &m.Inputs, func(c *Coder, i *KindIn) { i.code(c) })
		Slice(c, &m.Outputs, func(c *Coder, o *KindOut) { o.code(c) })
		m.Resources.code(c)
		Int(c, &m.Timeout)
		Slice(c, &m.Env, String[string])
		String(c, &m.Dir)
		c.Bool(&m.Close)
		c.Bytes(&m.With)
		Uint(c, &m.First)
		Slice(c, &m.Axes, func(c *Coder, a *KindAxis) {
			c.Struct(2, func(c *Coder) {
				Int(c, &a.First)
				Int(c, &a.N)
			})
		})
		Uint(c, &m.HashMax)
	})
}

func (m *Dispatch) code(c *Coder) {
	c.Struct(1, func(c *Coder) {
		blocks(c, &m.Runs, (*block).runs)
	})
}

func (r *Run) code(c *Coder) {
	c.Struct(13, func(c *Coder) {
		Uint(c, &r.ID)
		Uint(c, &r.Kind)
		Uint(c, &r.Task)
		Uint(c, &r.Attempt)
		String(c, &r.Name)
		c.Bytes(&r.With)
		codeWords(c, &r.Command)
		Slice(c, &r.Env, String[string])
		Slice(c, &r.Inputs, func(c *Coder, in *RunInput) {
			c.Struct(1, func(c *Coder) {
				Slice(c, &in.Data, func(c *Coder, d *Desc) { d.code(c) })
			})
		})
		Slice(c, &r.Live, Uint[uint32])
		Slice(c, &r.Private, Uint[uint32])
		Slice(c, &r.Skip, Uint[uint64])
		c.Bytes(&r.Steps)
	})
}

func (m *Reclaim) code(c *Coder) {
	c.Struct(1, func(c *Coder) { Slice(c, &m.Runs, Uint[RunID]) })
}

func (m *Reclaimed) code(c *Coder) {
	c.Struct(1, func(c *Coder) { Slice(c, &m.Runs, Uint[RunID]) })
}

func (m *Cancel) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Run)
		Uint(c, &m.Why)
		String(c, &m.Text)
		Int(c, &m.Grace)
	})
}

func (m *Credit) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Run)
		Uint(c, &m.Output)
		Uint(c, &m.N)
	})
}

func (m *LeaseReq) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Token)
		Uint(c, &m.Size)
		c.Bool(&m.File)
		Uint(c, &m.Run)
	})
}

func (m *Lease) code(c *Coder) {
	c.Struct(6, func(c *Coder) {
		Uint(c, &m.Token)
		Uint(c, &m.Segment)
		String(c, &m.Path)
		Uint(c, &m.Offset)
		Uint(c, &m.Size)
		String(c, &m.Error)
	})
}

func (m *Report) code(c *Coder) {
	c.Struct(1, func(c *Coder) {
		blocks(c, &m.Items, (*block).items)
	})
}

func (i *ReportItem) code(c *Coder) {
	c.Struct(9, func(c *Coder) {
		Uint(c, &i.Kind)
		Uint(c, &i.Run)
		Int(c, &i.At)
		Slice(c, &i.Outputs, func(c *Coder, d *Desc) { d.code(c) })
		Slice(c, &i.Counts, func(c *Coder, e *StreamEnd) { e.code(c) })
		Pointer(c, &i.Usage, func(c *Coder, u *Usage) { u.code(c) })
		Pointer(c, &i.Error, func(c *Coder, e *TaskError) { e.code(c) })
		Pointer(c, &i.Lease, func(c *Coder, l *Lease) { l.code(c) })
		c.Bytes(&i.Steps)
	})
}

func (m *Log) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		Uint(c, &m.Run)
		Uint(c, &m.Stream)
		c.Bytes(&m.Text)
		String(c, &m.Function)
		String(c, &m.Agent)
	})
}

func (m *Stop) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		c.Bool(&m.Now)
		String(c, &m.Why)
	})
}
