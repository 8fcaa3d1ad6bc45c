package wfformat

import (
	"fmt"
	"math"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// Options are what the caller of Read decides.
type Options struct {
	TimeScale float64 // of recorded seconds
	ByteScale float64 // of recorded sizes and memory
	MaxBytes  int64   // of any file, after scaling
	Inputs    bool    // make a task of each file that no task writes, which writes it
}

// Defaults are the options of a job as large as the recording.
func Defaults() Options { return Options{TimeScale: 1, ByteScale: 1, MaxBytes: 1 << 40} }

// Import is what Read makes of a recording.
type Import struct {
	Graph    *dag.Graph
	Profile  profiles.File // of the graph's tasks, with the scales of the options
	Tasks    int           // recorded
	Edges    int           // pairs of a task and one that waits for it, recorded
	External int           // files that no task writes
	Notes    []string      // what the recording left open, and what was made of it
	Makespan float64       // recorded seconds; 0 unknown
	Machines []Machine     // recorded hosts with their cores; nil unknown
}

// leastMemory is what a task reserves at least when its memory was recorded: the
// shell and its programs need some, however small the scale.
const leastMemory = 16 << 20

// script sleeps as long as its first argument says, and makes files of the sizes
// that follow them. Files and sizes are words of their own: one long text would
// meet the system's limit at a thousand outputs.
const script = `set -e; sleep "$1"; shift; while [ $# -gt 0 ]; do truncate -s "$2" "$1"; shift 2; done`

// Read makes a job of a recorded workflow; file names it in errors.
func Read(file string, b []byte, opt Options) (*Import, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	d, err := decode(file, b)
	if err != nil {
		return nil, err
	}
	t, err := newTrace(file, d)
	if err != nil {
		return nil, err
	}
	order, err := t.order()
	if err != nil {
		return nil, err
	}
	w := &writer{t: t, opt: opt, names: newNamer(), outputs: map[datum]string{}, profile: profiles.File{Version: profiles.FileVersion}}
	g, err := w.job(order)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	out := &Import{Graph: g, Profile: w.profile, Tasks: len(t.tasks), External: len(w.external), Notes: t.notes}
	took := &d.Workflow.ran
	if d.Workflow.Execution != nil {
		took = &d.Workflow.Execution.ran
	}
	out.Machines = took.machines()
	if m := took.Makespan; m != nil && *m > 0 {
		out.Makespan = *m
	}
	for i := range t.tasks {
		out.Edges += len(t.tasks[i].parents)
	}
	return out, nil
}

func (o *Options) check() error {
	for _, s := range []struct {
		name  string
		value float64
	}{{"time scale", o.TimeScale}, {"byte scale", o.ByteScale}} {
		if !(s.value >= 0 && s.value <= 1e6) { // also refuses NaN
			return fmt.Errorf("the %s is %g; want a number from 0 to 1000000", s.name, s.value)
		}
	}
	if o.MaxBytes < 0 || o.MaxBytes > maxBytes {
		return fmt.Errorf("the largest size is %d bytes; want one from 0 to %d", o.MaxBytes, int64(maxBytes))
	}
	return nil
}

// datum is a file as one task writes it.
type datum struct {
	task int
	file string
}

// writer makes the job.
type writer struct {
	t        *trace
	opt      Options
	b        *dag.Builder
	names    *namer
	group    []string          // of each task
	outputs  map[datum]string  // name of the output
	writers  map[string][]int  // of each file, in topological order
	place    []int             // of each task in that order
	done     map[int]bool      // tasks of whose end alone another waits
	external []string          // files that no task writes
	source   map[string]string // of those the reference, with Options.Inputs
	from     [][]dag.From      // inputs of each task
	profile  profiles.File
}

func (w *writer) job(order []int) (*dag.Graph, error) {
	w.index(order)
	for i := range w.t.tasks {
		w.inputs(i)
	}
	w.b = dag.NewBuilder(w.jobName())
	w.b.Param("time_scale", w.opt.TimeScale)
	w.b.Param("byte_scale", w.opt.ByteScale)
	w.b.Param("max_bytes", w.opt.MaxBytes)
	for _, f := range w.external {
		if ref, ok := w.source[f]; ok {
			group, _, _ := strings.Cut(ref, ".")
			if err := w.add(dag.Group{Name: group}, &task{out: []string{f}}, false); err != nil {
				return nil, err
			}
		}
	}
	for i := range w.t.tasks {
		x := &w.t.tasks[i]
		grp := dag.Group{Name: w.group[i]}
		if len(w.from[i]) > 0 {
			grp.Inputs = []dag.InputDecl{dag.Many("files", w.from[i]...)}
		}
		if x.cores > 0 {
			grp.Resources.CPU = max(int64(math.Round(x.cores*1000)), 1)
		}
		if x.memory > 0 {
			grp.Resources.Memory = max(int64(x.memory*w.opt.ByteScale), leastMemory)
		}
		if err := w.add(grp, x, w.done[i]); err != nil {
			return nil, err
		}
	}
	return w.b.Build()
}

// index names the groups and outputs and finds who writes which file.
func (w *writer) index(order []int) {
	t := w.t
	w.place, w.group, w.from = make([]int, len(order)), make([]string, len(order)), make([][]dag.From, len(order))
	w.writers, w.done, w.source = map[string][]int{}, map[int]bool{}, map[string]string{}
	for at, i := range order {
		w.place[i] = at
		for _, f := range t.tasks[i].out {
			w.writers[f] = append(w.writers[f], i)
		}
	}
	for i := range t.tasks {
		w.group[i] = w.names.name(t.tasks[i].id)
		for k, f := range t.tasks[i].out {
			w.outputs[datum{i, f}] = fileOutput(k)
			w.known(i, f)
		}
	}
	seen := map[string]struct{}{}
	for i := range t.tasks {
		for _, f := range t.tasks[i].in {
			w.known(i, f)
			if _, ok := seen[f]; !ok && len(w.writers[f]) == 0 {
				seen[f] = struct{}{}
				w.external = append(w.external, f)
				if w.opt.Inputs {
					w.source[f] = w.names.name("input_"+path.Base(f)) + "." + fileOutput(0)
				}
			}
		}
	}
}

func (w *writer) known(i int, f string) {
	if _, ok := w.t.size[f]; !ok {
		w.t.size[f] = 0
		w.t.note("%s: file %q is not in the list of files; it counts as empty", w.t.tasks[i].where, f)
	}
}

// inputs finds what a task takes: its files from who writes them, and of parents
// that write none of them the end.
func (w *writer) inputs(i int) {
	x := &w.t.tasks[i]
	from := map[int]bool{}
	var refs []dag.From
	for _, f := range x.in {
		p := w.producer(i, f)
		switch ref, ok := w.source[f]; {
		case p >= 0:
			from[p] = true
			refs = append(refs, dag.From{Text: w.group[p] + "." + w.outputs[datum{p, f}]})
		case ok:
			refs = append(refs, dag.From{Text: ref})
		}
	}
	for _, p := range x.parents {
		if !from[p] {
			w.done[p] = true
			refs = append(refs, dag.From{Text: w.group[p] + ".done"})
		}
	}
	w.from[i] = refs
}

// lookBack bounds how many writers of one file are looked at for each reader.
const lookBack = 64

// producer returns who writes the file that a task reads: a parent, else the last
// task in topological order before it, which cannot make a cycle. -1: it is there
// from the start.
func (w *writer) producer(i int, f string) int {
	all := w.writers[f]
	n := sort.Search(len(all), func(k int) bool { return w.place[all[k]] >= w.place[i] })
	if n == 0 {
		if len(all) > 0 && !slices.Equal(all, []int{i}) {
			w.t.note("%s: task %q reads %q, which only tasks write that may come later; it does not wait for them", w.t.tasks[i].where, w.t.tasks[i].id, f)
		}
		return -1
	}
	for k := n - 1; k >= max(n-lookBack, 0); k-- {
		if _, ok := slices.BinarySearch(w.t.tasks[i].parents, all[k]); ok {
			return all[k]
		}
	}
	return all[n-1]
}

// add adds a task's group to the job, and what it costs to the profile.
func (w *writer) add(grp dag.Group, x *task, done bool) error {
	e := profiles.Entry{Job: w.jobName(), Task: grp.Name, Runs: 1, Seconds: x.seconds * w.opt.TimeScale, CPU: x.cpu, Outputs: map[string]float64{}}
	if x.memory > 0 {
		e.MemoryRuns, e.Memory, e.MemoryPeak = 1, x.memory*w.opt.ByteScale, x.memory*w.opt.ByteScale
	}
	words := []string{"sh", "-c", script, "task", "${" + decimal(x.seconds, 6) + " * params.time_scale}"}
	output := func(name, size string, bytes float64) {
		grp.Outputs = append(grp.Outputs, dag.OutputDecl{Name: name})
		words = append(words, "${out."+name+"}", size)
		e.Outputs[name] = bytes
		e.Bytes += bytes
	}
	for k, f := range x.out {
		size := w.t.size[f]
		output(fileOutput(k), "${int(min(params.max_bytes, "+decimal(size, 0)+" * params.byte_scale))}",
			math.Floor(min(float64(w.opt.MaxBytes), size*w.opt.ByteScale)))
	}
	if done {
		output("done", "0", 0)
	}
	var err error
	if grp.Run.Command, err = dag.Words(words...); err != nil {
		return fmt.Errorf("task %s: %w", grp.Name, err)
	}
	w.b.Add(grp)
	w.profile.Profiles = append(w.profile.Profiles, e)
	return nil
}

func fileOutput(k int) string { return "f" + strconv.Itoa(k+1) }

// decimal prints a number as an expression has it: no exponent, no needless zeros.
func decimal(x float64, digits int) string {
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// jobName is the workflow's name as one line, else the file's.
func (w *writer) jobName() string {
	clean := func(s string) string {
		s = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' || r == '\u0085' || r == '\ufffd' {
				return ' '
			}
			return r
		}, s)
		if s = strings.Join(strings.Fields(s), " "); len(s) > maxName {
			s = strings.ToValidUTF8(s[:maxName], "")
		}
		return strings.TrimSpace(s)
	}
	if s := clean(w.t.name); s != "" {
		return s
	}
	if s := clean(strings.TrimSuffix(path.Base(w.t.file), ".json")); s != "" {
		return s
	}
	return "workflow"
}

// namer makes names that a job file allows, each once.
type namer struct {
	taken map[string]struct{}
	next  map[string]int
}

func newNamer() *namer { return &namer{taken: map[string]struct{}{}, next: map[string]int{}} }

// maxName bounds names: some recordings have whole commands in them.
const maxName = 100

func (n *namer) name(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
	if s = s[:min(len(s), maxName)]; s == "" || s[0] == '-' || s[0] >= '0' && s[0] <= '9' {
		s = "_" + s
	}
	base := s
	for {
		if _, ok := n.taken[s]; !ok {
			n.taken[s] = struct{}{}
			return s
		}
		n.next[base]++
		s = fmt.Sprintf("%s_%d", base, n.next[base]+1)
	}
}
