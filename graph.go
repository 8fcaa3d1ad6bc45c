package cascade

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/executor"
)

// Graph builds a job in code. Tasks are added by the Add and Map methods of
// registered functions and by Command; mistakes are collected and reported by
// Build, all at once. A Graph is used by one goroutine.
type Graph struct {
	name      string
	inputs    []dag.Group
	groups    []group
	envs      []dag.Environment
	exports   []dag.Export
	single    []string // those of them that are one dataset
	given     []given
	keepGoing bool
	rebuilt   dag.Rebuilt
	err       error
}

// group is a dag.Group on its way, with the generator that feeds its first axis.
type group struct {
	dag.Group
	elements *dag.From
}

// NewGraph starts a job with a name.
func NewGraph(name string) *Graph { return &Graph{name: name} }

// KeepGoing makes the rest of the job go on when a task fails. It ends failed if
// an output is missing, or, without outputs, if a task on which nothing depends
// is not done.
func (g *Graph) KeepGoing() { g.keepGoing = true }

// Rebuilt says what becomes of the job when a lost dataset is recomputed and
// differs: docs/fault-tolerance.md.
func (g *Graph) Rebuilt(policy dag.Rebuilt) { g.rebuilt = policy }

// Environment declares an environment, in which tasks run with the option In, and in which
// they can call functions. Relative paths of it refer to its Source, or without that to
// the folder of the job.
func (g *Graph) Environment(e dag.Environment) { g.envs = append(g.envs, e) }

// Output makes datasets outputs of the job: they are kept after it ends, and
// copied to path, a file or a folder that ends in a slash. "" only keeps them.
func (g *Graph) Output(s Source, path string) {
	in := s.source()
	g.fail("output", in.err)
	if !in.list && in.err == nil && len(in.from) == 1 {
		g.single = append(g.single, in.from[0].Text)
	}
	for _, f := range in.from {
		g.exports = append(g.exports, dag.Export{From: f, Path: path})
	}
}

func (g *Graph) fail(where string, err error) {
	if err != nil {
		g.err = errors.Join(g.err, fmt.Errorf("%s: %w", where, err))
	}
}

// TaskOption sets something of a task or of all tasks of a family.
type TaskOption func(*dag.Group)

// CPU grants cores, also fractions; the default is 1.
func CPU(cores float64) TaskOption {
	return func(g *dag.Group) { g.Resources.CPU = int64(cores * 1000) }
}

// Memory grants bytes of private memory. A task that takes more is ended and tried again
// with more: see MemoryMax.
func Memory(bytes int64) TaskOption { return func(g *dag.Group) { g.Resources.Memory = bytes } }

// MemoryMax bounds what a task gets that takes more than Memory; without it that is what
// a host has.
func MemoryMax(bytes int64) TaskOption {
	return func(g *dag.Group) { g.Resources.MemoryMax = bytes }
}

// GPU grants whole devices, or below 1 a share of one.
func GPU(devices float64) TaskOption {
	return func(g *dag.Group) { g.Resources.GPU = int64(math.Round(devices * 1000)) }
}

// GPUMemory says how many bytes each of the devices must have for the task that GPU grants.
func GPUMemory(bytes int64) TaskOption {
	return func(g *dag.Group) { g.Resources.GPUMemory = bytes }
}

// Resource grants an amount of a custom resource.
func Resource(name string, amount float64) TaskOption {
	return func(g *dag.Group) {
		if g.Resources.Custom == nil {
			g.Resources.Custom = map[string]int64{}
		}
		g.Resources.Custom[name] = int64(amount * 1000)
	}
}

// Retries allows further attempts after an error of the task itself.
func Retries(n int) TaskOption { return func(g *dag.Group) { g.Retries = n } }

// Deadline says how long after the job's start the task should have ended. It raises
// the priority of what the task needs, and Progress.Late warns when the prediction
// misses it. Nothing is stopped by it.
func Deadline(d time.Duration) TaskOption { return func(g *dag.Group) { g.Deadline = d } }

// Timeout bounds one attempt.
func Timeout(d time.Duration) TaskOption { return func(g *dag.Group) { g.Timeout = d } }

// Priority puts tasks before those with a lower one.
func Priority(n int) TaskOption { return func(g *dag.Group) { g.Priority = n } }

// MayFail lets the job go on when this task fails. Without outputs it succeeds
// although this task is not done.
func MayFail() TaskOption { return func(g *dag.Group) { g.KeepGoing = true } }

// In names the environment whose executor has the function, one that the graph declares
// (Graph.Environment), or for a call its job or session. The default of a task is the
// submitting program itself, that of a call the environment of its caller.
func In(environment string) TaskOption {
	return func(g *dag.Group) { g.Run.Environment = environment }
}

// Count fixes how many elements a generator publishes.
func Count(n int) TaskOption {
	return func(g *dag.Group) {
		for i := range g.Outputs {
			if o := &g.Outputs[i]; o.Generate != dag.GenerateNone {
				o.Generate, o.Count = dag.GenerateFixed, uint64(max(n, 0))
			}
		}
	}
}

// Buffer bounds how many elements of a generator wait for consumers before it is held back.
func Buffer(n int) TaskOption {
	return func(g *dag.Group) {
		for i := range g.Outputs {
			if o := &g.Outputs[i]; o.Generate != dag.GenerateNone {
				o.Buffer = n
			}
		}
	}
}

// Setenv sets an environment variable of a command; the value may hold ${...} over axes.
func Setenv(name, value string) TaskOption {
	return func(g *dag.Group) { g.Env = append(g.Env, dag.Field{Name: name, Value: value}) }
}

// call is one use of a function in a graph.
type call struct {
	group   string
	outputs []string
	axes    int
}

func (c call) output(i int) place {
	return place{group: c.group, output: c.outputs[i], axes: c.axes}
}

// add lowers a use of a function to one group.
func (g *Graph) add(f *executor.Func, task string, over []Axis, opts []TaskOption, args ...input) call {
	grp := group{Group: dag.Group{Name: task, Run: dag.Run{Function: f.Name}}}
	g.loops(&grp, task, over)
	n := 0
	for i, a := range args {
		if f.With != nil && i == f.WithAt {
			g.parameters(&grp, task, a)
			continue
		}
		p := f.Inputs[n]
		n++
		if a.params != nil {
			a.err = errors.New("parameters cannot stand for a dataset: give the output of a task")
		}
		g.fail(fmt.Sprintf("task %q: input %q", task, p.Name), a.err)
		grp.Inputs = append(grp.Inputs, dag.InputDecl{Name: p.Name, List: p.List != nil, Min: a.min, From: a.from})
	}
	c := call{group: task, axes: len(over)}
	for _, p := range f.Outputs {
		o := dag.OutputDecl{Name: p.Name}
		if f.Seq != nil {
			o.Generate = dag.GenerateOpen
		}
		grp.Outputs = append(grp.Outputs, o)
		c.outputs = append(c.outputs, p.Name)
	}
	g.finish(grp, opts)
	return c
}

func (g *Graph) finish(grp group, opts []TaskOption) {
	for _, o := range opts {
		o(&grp.Group)
	}
	g.groups = append(g.groups, grp)
}

func (g *Graph) loops(grp *group, task string, over []Axis) {
	for i, a := range over {
		g.fail(fmt.Sprintf("task %q: axis %q", task, a.axis.Var), a.err)
		if a.elements == nil {
			grp.Axes = append(grp.Axes, a.axis)
			continue
		}
		if i > 0 {
			g.fail(fmt.Sprintf("task %q: axis %q", task, a.axis.Var), errors.New("the elements of a series must be the first axis: put it first in cascade.Over"))
		}
		grp.elements = a.elements
		grp.Axes = append(grp.Axes, a.axis)
	}
}

// parameters turns a parameter struct into the fields of `with:`.
func (g *Graph) parameters(grp *group, task string, a input) {
	where := fmt.Sprintf("task %q: parameters", task)
	if a.params == nil {
		g.fail(where, errors.New("want cascade.With(...)"))
		return
	}
	fields, err := executor.Parameters(a.params)
	g.fail(where, err)
	for _, name := range slices.Sorted(maps.Keys(a.set)) {
		i := slices.IndexFunc(fields, func(f dag.Field) bool { return f.Name == name })
		if i < 0 {
			g.fail(where, fmt.Errorf("there is no parameter %q to set", name))
			continue
		}
		fields[i].Value = a.set[name]
	}
	grp.With = fields
}

// Commands.

// CommandTask is a command in a graph; Out refers to its outputs.
type CommandTask struct{ call call }

// CommandSpec says what a command runs and which datasets it reads and writes.
type CommandSpec struct {
	Args   []string          // words, with ${in.NAME}, ${in.NAME[*]}, ${out.NAME} and ${...} over axes
	Inputs map[string]Source // by the name that Args use
	Out    []string          // names of the outputs
	Stdin  string            // input fed to the command; "" for none
	Stdout string            // output that takes what the command prints; "" for the log
}

// Command adds a command: any program; its datasets are files that it opens.
// over is nil for one task.
func (g *Graph) Command(task string, over []Axis, spec CommandSpec, opts ...TaskOption) CommandTask {
	grp := group{Group: dag.Group{Name: task, Run: dag.Run{Stdin: spec.Stdin, Stdout: spec.Stdout}}}
	g.loops(&grp, task, over)
	args, err := dag.Words(spec.Args...)
	g.fail(fmt.Sprintf("task %q", task), err)
	grp.Run.Command = args
	for _, name := range slices.Sorted(maps.Keys(spec.Inputs)) {
		in := spec.Inputs[name].source()
		g.fail(fmt.Sprintf("task %q: input %q", task, name), in.err)
		grp.Inputs = append(grp.Inputs, dag.InputDecl{Name: name, List: in.list, Min: in.min, From: in.from})
	}
	for _, name := range spec.Out {
		grp.Outputs = append(grp.Outputs, dag.OutputDecl{Name: name})
	}
	g.finish(grp, opts)
	return CommandTask{call{group: task, outputs: spec.Out, axes: len(over)}}
}

func (t CommandTask) place(output string) (place, error) {
	i := slices.Index(t.call.outputs, output)
	if i < 0 {
		return place{}, fmt.Errorf("command %q has no output %q, only %s", t.call.group, output, strings.Join(t.call.outputs, ", "))
	}
	return t.call.output(i), nil
}

// Out refers to an output of a single command. Commands write bytes.
func (t CommandTask) Out(output string) Ref[[]byte] {
	p, err := t.place(output)
	p.err = err
	return Ref[[]byte]{p}
}

// OutFamily refers to an output of all tasks of a command with axes.
func (t CommandTask) OutFamily(output string) Family[[]byte] {
	p, err := t.place(output)
	p.err = err
	return Family[[]byte]{p}
}

// File adds an input of the job: a file, whose bytes become a dataset that goes to the
// hosts which need it. A relative path begins at the folder of the job (WithDir).
// Submit hashes the file: when it changes before it is read, the task fails, or reads
// what the cluster has kept.
func (g *Graph) File(name, path string, opts ...TaskOption) Ref[[]byte] {
	return Ref[[]byte]{g.addInput(dag.NewInput(name, dag.File{Path: path}), opts)}
}

// Files is File for several files, each of which is a dataset, in this order.
func (g *Graph) Files(name string, paths []string, opts ...TaskOption) Family[[]byte] {
	files := make([]dag.File, len(paths))
	for i, p := range paths {
		files[i].Path = p
	}
	return Family[[]byte]{g.addInput(dag.NewInputs(name, files), opts)}
}

// URL adds an input of the job that is fetched by http or https, on the host where
// its task runs. sha256, in hexadecimal, is what its bytes must have; "" takes what comes.
func (g *Graph) URL(name, url, sha256 string, opts ...TaskOption) Ref[[]byte] {
	return Ref[[]byte]{g.addInput(dag.NewInput(name, dag.File{URL: url, SHA256: strings.ToLower(sha256)}), opts)}
}

func (g *Graph) addInput(grp dag.Group, opts []TaskOption) place {
	for _, o := range opts {
		o(&grp)
	}
	g.inputs = append(g.inputs, grp)
	return place{group: grp.Name, output: dag.InputOutput, axes: len(grp.Axes)}
}

// Decode turns the bytes of a fetched dataset into a Go value.
func Decode[T any](codec, dtype string, shape []uint64, b []byte) (T, error) {
	return executor.Decode[T](executor.Default, codec, dtype, shape, b)
}

// Build checks the graph and returns it as a value that can be submitted. All
// mistakes are reported together. The Graph is not to be used afterwards.
func (g *Graph) Build() (*dag.Graph, error) {
	if len(g.given) > 0 {
		g.fail(fmt.Sprintf("input %q", g.given[0].name), errors.New("it is a future: run the graph with Go, from the session or task that has it"))
	}
	return g.build(nil)
}

// build is Build with doors: outputs are taken by one of these, and kept by the job only when they are copied.
func (g *Graph) build(doors []dag.Group) (*dag.Graph, error) {
	b := dag.NewBuilder(g.name)
	b.KeepGoing(g.keepGoing)
	b.Rebuilt(g.rebuilt)
	for i := range g.envs {
		b.Environment(g.envs[i])
	}
	for _, grp := range g.inputs {
		b.Input(grp)
	}
	for _, grp := range g.groups {
		if grp.elements != nil {
			variable := grp.Axes[0].Var
			grp.Axes = grp.Axes[1:]
			b.Loop(variable, *grp.elements, grp.Group)
			continue
		}
		b.Add(grp.Group)
	}
	for _, grp := range doors {
		b.Add(grp)
	}
	for _, e := range g.exports {
		if doors == nil || e.Path != "" || !slices.Contains(g.single, e.From.Text) {
			b.Export(e.From, e.Path)
		}
	}
	if g.err != nil {
		return nil, fmt.Errorf("build graph %q: %w", g.name, g.err)
	}
	d, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("build graph %q: %w", g.name, err)
	}
	return d, nil
}
