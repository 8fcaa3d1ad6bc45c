package core

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// LocateExports lists a job's exports that are there, in the order of the graph and
// without their agents' addresses. missing names the others.
func LocateExports(g *dag.Graph, s *States, have map[comms.DatasetRef]records.Dataset) (out []comms.LocatedData, missing []string) {
	for i := range g.Exports {
		for _, src := range g.Exports[i].Sources {
			refs, complete := s.Expand(src)
			if !complete {
				missing = append(missing, g.Exports[i].From.Text)
			}
			for _, ref := range refs {
				d, ok := have[ref]
				if !ok {
					missing = append(missing, g.DatasetName(dag.Dataset(ref)))
					continue
				}
				out = append(out, comms.LocatedData{Name: g.DatasetName(dag.Dataset(ref)), Desc: d.Desc, Path: g.Exports[i].Path, Agent: d.Agent})
			}
		}
	}
	return out, missing
}

// Choice is the tasks that a user names: a task, such as spread[2,500]; all of a
// family, such as spread; or some of it, such as spread[*,500].
type Choice struct {
	g     *dag.Graph
	exact bool // one task
	task  dag.TaskIndex
	group string
	words []string // of the index, "*" for any; nil for all
}

// Choose reads a name, and returns false when it is none of a task or family of g.
func Choose(g *dag.Graph, name string) (Choice, bool) {
	if task, ok := g.Lookup(name); ok {
		return Choice{g: g, exact: true, task: task}, true
	}
	c := Choice{g: g, group: name}
	if group, index, indexed := strings.Cut(name, "["); indexed {
		if !strings.HasSuffix(index, "]") || !strings.Contains(index, "*") {
			return Choice{}, false
		}
		c.group, c.words = group, strings.Split(strings.TrimSuffix(index, "]"), ",")
	}
	gi, ok := g.GroupByName(c.group)
	if !ok {
		return Choice{}, false
	}
	axes := len(g.Groups[gi].Axes)
	if g.Groups[gi].Stream != nil {
		axes++
	}
	return c, c.words == nil || len(c.words) == axes
}

// One tells whether the name is that of one task.
func (c Choice) One() (dag.TaskIndex, bool) { return c.task, c.exact }

// Bounds returns the first and the last number of what a user names, and false
// when they are not known: those of instances follow from the job's run.
func (c Choice) Bounds() (first, last dag.TaskIndex, ok bool) {
	if c.exact {
		return c.task, c.task, true
	}
	gi, _ := c.g.GroupByName(c.group)
	from, n := c.g.GroupTasks(gi)
	if c.g.Groups[gi].Stream != nil || n == 0 {
		return 0, 0, false
	}
	return dag.TaskIndex(from), dag.TaskIndex(from + n - 1), true
}

// Meets tells whether one of them is in a range. It looks at no more tasks than the
// family has, and at one or two unless the name has words for its index.
func (c Choice) Meets(r comms.Range) bool {
	first, last, ok := c.Bounds()
	if !ok { // instances come behind all other tasks
		first, last = dag.TaskIndex(c.g.NumTasks()), r.Last
	}
	first, last = max(first, r.First), min(last, r.Last)
	if first > last {
		return false
	}
	if ok && c.words == nil {
		return true
	}
	if c.words == nil { // any so many instances in a row are of all slots
		last = first + min(last-first, dag.TaskIndex(c.g.NumSlots()))
	}
	for i := uint64(first); i <= uint64(last); i++ {
		if c.Has(dag.TaskIndex(i)) {
			return true
		}
	}
	return false
}

// Has tells whether a task is one of them.
func (c Choice) Has(i dag.TaskIndex) bool {
	if c.exact {
		return i == c.task
	}
	if c.g.Group(i).Name != c.group {
		return false
	}
	if c.words == nil {
		return true
	}
	index := strings.TrimSuffix(c.g.TaskName(i)[len(c.group)+1:], "]")
	for _, w := range c.words {
		var word string
		word, index, _ = strings.Cut(index, ",")
		if w != "*" && w != word {
			return false
		}
	}
	return true
}

// Resolve finds the datasets of a name: TASK.OUTPUT, TASK.OUTPUT[ELEMENT], or
// TASK when it has one output; of a family that is FAMILY.OUTPUT or
// FAMILY[*,500].OUTPUT, and one is false. A generator's output without an element, or
// with [*], stands for all.
func Resolve(g *dag.Graph, s *States, name string) (refs []comms.DatasetRef, one bool, err error) {
	tasks, rest, ok := splitName(g, name)
	if !ok {
		return nil, false, fmt.Errorf("no dataset %q in job %s: want TASK.OUTPUT, such as map.page or spread[2,500].mean", name, g.Name)
	}
	if task, one := tasks.One(); one {
		if s.get(task) == TaskAbsent {
			return nil, true, fmt.Errorf("dataset %q: task %s never came to be", name, g.TaskName(task))
		}
		refs, err = resolveOf(g, s, task, rest, name)
		return refs, true, err
	}
	s.Each(func(i dag.TaskIndex, _ TaskState) {
		if err != nil || !tasks.Has(i) {
			return
		}
		var of []comms.DatasetRef
		of, err = resolveOf(g, s, i, rest, name)
		refs = append(refs, of...)
	})
	if err == nil && len(refs) == 0 {
		err = fmt.Errorf("dataset %q: the family has no task of that name", name)
	}
	return refs, false, err
}

// resolveOf finds the datasets of one task; rest is what the name has behind the task's.
func resolveOf(g *dag.Graph, s *States, task dag.TaskIndex, rest, name string) ([]comms.DatasetRef, error) {
	src, err := sourceOf(g, task, rest, name)
	if err != nil {
		return nil, err
	}
	refs, _ := s.Expand(src)
	return refs, nil
}

// sourceOf reads what a name has behind the task's.
func sourceOf(g *dag.Graph, task dag.TaskIndex, rest, name string) (dag.Source, error) {
	outs := g.Group(task).Outputs
	output := 0
	text, index, indexed := strings.Cut(rest, "[")
	if rest == "" && len(outs) != 1 {
		return dag.Source{}, fmt.Errorf("dataset %q: the task has %d outputs, name one: %s", name, len(outs), outputNames(outs))
	}
	if rest != "" {
		for output = 0; output < len(outs) && outs[output].Name != text; output++ {
		}
		if output == len(outs) {
			return dag.Source{}, fmt.Errorf("dataset %q: the task has no output %q; it has: %s", name, text, outputNames(outs))
		}
	}
	src := dag.Source{Kind: dag.SourceWhole, Task: task, Output: uint32(output)}
	if outs[output].Generate == dag.GenerateNone {
		if indexed {
			return dag.Source{}, fmt.Errorf("dataset %q: the output is no series, leave out [%s", name, index)
		}
		return src, nil
	}
	if !indexed || index == "*]" {
		src.Kind = dag.SourceStream
		return src, nil
	}
	e, err := strconv.ParseUint(strings.TrimSuffix(index, "]"), 10, 64)
	if err != nil || !strings.HasSuffix(index, "]") {
		return dag.Source{}, fmt.Errorf("dataset %q: want the element's number in brackets, or *", name)
	}
	src.Kind, src.Element = dag.SourceElement, e
	return src, nil
}

// exportsNamed finds the sources of an export's name: as the graph has it, or the name of
// one task's output. It is an error when none of the job's exports has it.
func (j *job) exportsNamed(name string) ([]dag.Source, error) {
	for i := range j.graph.Exports {
		if e := &j.graph.Exports[i]; e.From.Text == name {
			return e.Sources, nil
		}
	}
	tasks, rest, ok := splitName(j.graph, name)
	task, one := tasks.One()
	if !ok || !one {
		return nil, fmt.Errorf("%q is no output of job %s", name, j.graph.Name)
	}
	src, err := sourceOf(j.graph, task, rest, name)
	if err != nil {
		return nil, err
	}
	if !j.isExport(comms.DatasetRef{Task: task, Output: src.Output, Element: src.Element}) {
		return nil, fmt.Errorf("%q is no output of job %s: it is freed when nothing reads it any more", name, j.graph.Name)
	}
	return []dag.Source{src}, nil
}

func outputNames(outs []dag.OutputDecl) string {
	names := make([]string, len(outs))
	for i := range outs {
		names[i] = outs[i].Name
	}
	return strings.Join(names, ", ")
}

// splitName splits a dataset's name behind the task's, whose indices may hold any text.
func splitName(g *dag.Graph, name string) (tasks Choice, rest string, ok bool) {
	for at := len(name); at > 0; at = strings.LastIndexByte(name[:at], '.') {
		if tasks, ok = Choose(g, name[:at]); ok {
			return tasks, strings.TrimPrefix(name[at:], "."), true
		}
	}
	return Choice{}, "", false
}
