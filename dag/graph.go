package dag

import (
	"time"
)

// TaskIndex names a task within its graph. Static tasks are numbered 0 to
// NumTasks()-1: group after group in file order, within a group row by row
// over its axes. Instances of streamed groups follow: see Instance.
type TaskIndex uint32

// Graph is a job's directed acyclic graph as a value. It is made by ParseYAML,
// by a Builder or by Decode, is valid when one of them returned it without
// error, and does not change afterwards; any goroutine may read it.
//
// Tasks that came from one `for` share a Group; what differs between them is
// computed on demand, so that a million tasks of one group cost a few bytes each.
type Graph struct {
	Name         string
	Params       []Param
	Environments []Environment
	Groups       []Group
	Exports      []Export
	KeepGoing    bool // other branches go on when a task fails
	Retain       bool // every dataset is kept after the job, not only exports: a later job can take them over

	Rebuilt Rebuilt // what becomes of the job when a recomputed dataset differs

	index graphIndex // derived: offsets, edges, consumers; rebuilt by Decode
}

// Retaining returns the graph with Retain set: g itself if it is.
func (g *Graph) Retaining() *Graph {
	if g.Retain {
		return g
	}
	r := *g
	r.Retain = true
	return &r
}

// Checked tells whether the graph is one of ParseYAML, a Builder or Decode, and
// not a literal.
func (g *Graph) Checked() bool { return g.index.outside != nil }

// Param is a named value of the job file after overrides were applied.
type Param struct {
	Name  string
	Value any // nil, bool, int64, float64, string, []any, map[string]any

	Spelled Spellings // of the numbers in it; nil for none
}

// Group is one entry of the job file's tasks: a task, or a family of tasks over axes.
type Group struct {
	Name    string
	Axes    []Axis  // static expansion; row-major, the last axis varies fastest
	Stream  *Stream // set when the group has one instance per published element of an open generator
	Run     Run
	Inputs  []InputDecl
	Outputs []OutputDecl // single datasets before generated ones
	With    []Field      // parameters of the function; strings may hold ${...} over loop variables and params
	Env     []Field      // environment variables of a command, same placeholders
	Files   []File       // of an input of the job: what its tasks read, one each

	Gang      Gang // tasks that differ in the last axis alone start together; that axis is rank
	Resources Resources
	Retries   int           // further attempts after an error of the task itself
	Timeout   time.Duration // 0: none
	Priority  int           // higher first; ties by upward rank
	KeepGoing bool          // a failure of this task does not stop the job
	Deadline  time.Duration // after the job's start by which its tasks should have ended; 0: none
}

// Axis is one loop variable and the values it takes: int64 or string. It is
// either a list or, when Values is nil, the range First .. First+N-1.
type Axis struct {
	Var    string
	Values []any
	First  int64
	N      int64
}

// Len returns the number of values.
func (a *Axis) Len() int {
	if a.Values != nil {
		return len(a.Values)
	}
	return int(a.N)
}

// Value returns the value at a position from 0 to Len()-1: int64 or string.
func (a *Axis) Value(pos int) any {
	if a.Values != nil {
		return a.Values[pos]
	}
	return a.First + int64(pos)
}

// Stream binds a group to the elements of an open generator's output. The
// group's tasks come into being one element at a time, while the generator runs.
type Stream struct {
	Var       string // loop variable that holds the element number
	Generator TaskIndex
	Output    uint32
}

// Run says what a task executes: a registered function of an environment, or a command.
// Exactly one of Function and Command is set.
type Run struct {
	Environment string // "" is the executor that comes with the agent
	Function    string
	Command     []Arg
	Stdin       string // name of the input fed to the command; "" for none
	Stdout      string // name of the output that the command's standard output becomes; "" for the log
}

// Arg is one word of a command line: parts that are concatenated.
type Arg []ArgPart

// ArgPart is literal text, the path of an input or output dataset, or an expression.
type ArgPart struct {
	Kind ArgKind
	Text string // literal text, the name of the input or output, or the expression
}

// ArgKind says how an ArgPart becomes text.
type ArgKind uint8

// The kinds of ArgPart. An Arg that is one ArgInputs part becomes one word for
// each element of the list; elsewhere the paths are joined with spaces.
const (
	ArgText       ArgKind = iota + 1 // literal
	ArgInput                         // ${in.NAME}: path of a single input
	ArgInputs                        // ${in.NAME[*]}: paths of a list input
	ArgOutput                        // ${out.NAME}: path the command writes
	ArgExpr                          // ${...} over loop variables and params, resolved by Command(i)
	ArgInputsFile                    // ${in.NAME[@]}: path of a file with the paths of a list input, one a line
)

// Field is a named value in file order.
type Field struct {
	Name  string
	Value any // like Param.Value
}

// InputDecl names an input of a group.
type InputDecl struct {
	Name string
	List bool   // a list of datasets rather than one
	Min  int    // of a list: the task may start when this many are there and the others have failed, which they then may; 0 means all
	From []From // unresolved references, as written
}

// From is a reference as written: TASK, TASK.OUTPUT, with index expressions or [*] for each axis.
type From struct {
	Text string
	Line int // place in the job file, 0 when built in code
	Col  int
}

// OutputDecl names an output of a group.
type OutputDecl struct {
	Name     string
	Generate Generate
	Count    uint64 // with GenerateFixed: how many elements
	Buffer   int    // of a generator: most unconsumed elements before it is held back; 0 means the default
}

// Generate says whether an output is one dataset or a series published while the task runs.
type Generate uint8

// The kinds of output.
const (
	GenerateNone  Generate = iota // one dataset
	GenerateFixed                 // exactly Count elements
	GenerateOpen                  // any number; the end of the stream is a message
)

// Resources is what a task occupies while it runs.
type Resources struct {
	CPU       int64            // thousandths of a core; 0 means the default of 1000, NoCPU none
	Memory    int64            // bytes of private memory; 0 means unknown
	MemoryMax int64            // bytes of it that a further attempt may get when one took more than Memory; 0 means what a host has
	GPU       int64            // thousandths of a device: below 1000 a share of one, else whole devices; see Devices
	GPUMemory int64            // bytes that each of its devices must have for it; 0 means any
	Custom    map[string]int64 // thousandths, by name
}

// Export is an output of the job: kept after the job ends, and copied to a path if one is given.
type Export struct {
	From    From
	Sources []Source
	Path    string // file, or folder when it ends in a slash; "" keeps it in the store only
}

// SourceKind says which datasets a Source stands for.
type SourceKind uint8

// The kinds of Source.
const (
	SourceWhole   SourceKind = iota + 1 // the single dataset of Task's Output
	SourceElement                       // one element of a generator's Output
	SourceStream                        // all elements of an open generator's Output, in order, ready at the end of the stream
	SourceGroup                         // Output of every instance of a streamed group, in element order, ready when stream and instances have ended
)

// Source is one resolved dependency: the producer and which of its datasets.
type Source struct {
	Kind    SourceKind
	Task    TaskIndex // producer; with SourceGroup the instance slot's element 0 (see Instance)
	Output  uint32
	Element uint64 // with SourceElement
}

// Input is a resolved input of one task.
type Input struct {
	Name    string
	List    bool
	Min     int
	Sources []Source
}

// Edge is a resolved dependency seen from the producer.
type Edge struct {
	Consumer TaskIndex
	Output   uint32
	Element  uint64
	Kind     SourceKind
}
