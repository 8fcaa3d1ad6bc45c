package wfformat

import (
	"fmt"
	"slices"
	"strings"
)

// trace is a recorded workflow, whatever the version of its file.
type trace struct {
	file  string // of the workflow, for errors
	name  string
	tasks []task
	byID  map[string]int
	size  map[string]float64 // bytes of each file
	notes []string
}

type task struct {
	id      string
	where   string // in the file
	parents []int  // sorted, each once
	in, out []string
	seconds float64
	cpu     float64 // cores kept busy, 0 unknown
	cores   float64 // 0 unknown
	memory  float64 // bytes, 0 unknown
}

// Bounds of what a recording may claim: beyond them a number is a mistake.
const (
	maxSeconds = 1e9
	maxBytes   = 1 << 50
	maxCores   = 1 << 20
)

func newTrace(file string, d *document) (*trace, error) {
	t := &trace{file: file, name: d.Name, byID: map[string]int{}, size: map[string]float64{}}
	var err error
	if d.SchemaVersion == "1.4" {
		err = t.from14(d)
	} else {
		err = t.from15(d)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(t.tasks) == 0 {
		return nil, fmt.Errorf("%s: the workflow has no task", file)
	}
	return t, nil
}

func (t *trace) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// add takes in a task without its parents.
func (t *trace) add(id, where string, in, out []string) error {
	if id == "" {
		return fmt.Errorf("%s: id is missing", where)
	}
	if k, ok := t.byID[id]; ok {
		return fmt.Errorf("%s: id %q is taken by %s; ids are unique", where, id, t.tasks[k].where)
	}
	t.byID[id] = len(t.tasks)
	t.tasks = append(t.tasks, task{id: id, where: where, in: once(in), out: once(out)})
	return nil
}

// from14 reads version 1.4: one list of tasks, which refer to each other by name.
func (t *trace) from14(d *document) error {
	tasks := d.Workflow.Tasks
	byName := map[string]int{}
	for i := range tasks {
		x := &tasks[i]
		where := fmt.Sprintf("workflow.tasks[%d]", i)
		var in, out []string
		for k := range x.Files {
			f := &x.Files[k]
			at := fmt.Sprintf("%s.files[%d]", where, k)
			name := f.Path + f.Name
			switch strings.ToLower(f.Link) {
			case "input":
				in = append(in, name)
			case "output":
				out = append(out, name)
			default:
				return fmt.Errorf("%s: link is %q; want input or output", at, f.Link)
			}
			if err := t.setSize(at, name, f.Size); err != nil {
				return err
			}
		}
		id := x.Name // names need not differ in every recording, nor ids be there
		if x.ID != "" && !strings.Contains(x.Name, x.ID) {
			id = strings.TrimPrefix(x.Name+"_"+x.ID, "_")
		}
		if err := t.add(id, where, in, out); err != nil {
			return err
		}
		if err := t.measure(i, where, &x.measured, x.Cores); err != nil {
			return err
		}
		for _, ref := range []string{x.Name, x.ID} {
			if _, ok := byName[ref]; !ok {
				byName[ref] = i
			}
		}
	}
	for i := range tasks {
		if err := t.relate(i, tasks[i].Parents, tasks[i].Children, byName); err != nil {
			return err
		}
	}
	return nil
}

// from15 reads versions 1.5 and 1.6: what the tasks are, and apart from it what they took.
func (t *trace) from15(d *document) error {
	spec, exec := d.Workflow.Specification, d.Workflow.Execution
	if spec == nil {
		return fmt.Errorf("workflow.specification is missing")
	}
	if exec == nil {
		return fmt.Errorf("workflow.execution is missing: without durations there is no profile; import the file of a workflow that ran")
	}
	for i := range spec.Files {
		if err := t.setSize(fmt.Sprintf("workflow.specification.files[%d]", i), spec.Files[i].ID, spec.Files[i].Size); err != nil {
			return err
		}
	}
	for i := range spec.Tasks {
		x := &spec.Tasks[i]
		if err := t.add(x.ID, fmt.Sprintf("workflow.specification.tasks[%d]", i), x.Inputs, x.Outputs); err != nil {
			return err
		}
	}
	for i := range spec.Tasks {
		if err := t.relate(i, spec.Tasks[i].Parents, spec.Tasks[i].Children, t.byID); err != nil {
			return err
		}
	}
	return t.executions(exec.Tasks)
}

func (t *trace) executions(all []execTask) error {
	ran := make([]bool, len(t.tasks))
	for i := range all {
		where := fmt.Sprintf("workflow.execution.tasks[%d]", i)
		k, ok := t.byID[all[i].ID]
		if !ok {
			return fmt.Errorf("%s: no task of workflow.specification has the id %q", where, all[i].ID)
		}
		if ran[k] {
			return fmt.Errorf("%s: the execution of %q is there twice", where, all[i].ID)
		}
		ran[k] = true
		if err := t.measure(k, where, &all[i].measured, all[i].Cores); err != nil {
			return err
		}
	}
	if k := slices.Index(ran, false); k >= 0 {
		return fmt.Errorf("%s: workflow.execution.tasks has no entry for %q", t.tasks[k].where, t.tasks[k].id)
	}
	return nil
}

// setSize takes in a file's size. Of different sizes of one file the largest counts.
func (t *trace) setSize(where, name string, size *float64) error {
	if name == "" {
		return fmt.Errorf("%s: the file has no name", where)
	}
	n, err := number(where, "sizeInBytes", size, maxBytes)
	if err != nil {
		return err
	}
	if size == nil {
		t.note("%s: file %q has no size; it counts as empty", where, name)
	}
	if had, ok := t.size[name]; ok && had != n {
		t.note("%s: file %q has %.0f bytes here and %.0f elsewhere; the larger counts", where, name, n, had)
	}
	t.size[name] = max(n, t.size[name])
	return nil
}

func (t *trace) measure(i int, where string, m *measured, cores *float64) (err error) {
	x := &t.tasks[i]
	if m.Seconds == nil {
		return fmt.Errorf("%s: runtimeInSeconds of task %q is missing", where, x.id)
	}
	for _, f := range []struct {
		name string
		from *float64
		most float64
		to   *float64
	}{
		{"runtimeInSeconds", m.Seconds, maxSeconds, &x.seconds},
		{"avgCPU", m.AvgCPU, maxCores * 100, &x.cpu},
		{"memoryInBytes", m.Memory, maxBytes, &x.memory},
		{"cores", cores, maxCores, &x.cores},
	} {
		if *f.to, err = number(where, f.name, f.from, f.most); err != nil {
			return fmt.Errorf("%w (task %q)", err, x.id)
		}
	}
	x.cpu /= 100
	return nil
}

// number returns 0 for a number that is not there.
func number(where, name string, x *float64, most float64) (float64, error) {
	switch {
	case x == nil:
		return 0, nil
	case *x < 0:
		return 0, fmt.Errorf("%s: %s is %g; it cannot be negative", where, name, *x)
	case *x > most:
		return 0, fmt.Errorf("%s: %s is %g; more than %g is not believed", where, name, *x, most)
	}
	return *x, nil
}

// relate takes in a task's parents and children; either end may name the other.
func (t *trace) relate(i int, parents, children []string, names map[string]int) error {
	for k, p := range parents {
		from, ok := names[p]
		if !ok {
			return fmt.Errorf("%s.parents[%d]: there is no task %q", t.tasks[i].where, k, p)
		}
		t.tasks[i].parents = append(t.tasks[i].parents, from)
	}
	for k, c := range children {
		to, ok := names[c]
		if !ok {
			return fmt.Errorf("%s.children[%d]: there is no task %q", t.tasks[i].where, k, c)
		}
		t.tasks[to].parents = append(t.tasks[to].parents, i)
	}
	return nil
}

// order returns the tasks so that parents come first, in the file's order where
// it allows that, or an error that names a cycle.
func (t *trace) order() ([]int, error) {
	left := make([]int, len(t.tasks))
	children := make([][]int, len(t.tasks))
	var order []int
	for i := range t.tasks {
		x := &t.tasks[i]
		slices.Sort(x.parents)
		x.parents = slices.Compact(x.parents)
		left[i] = len(x.parents)
		for _, p := range x.parents {
			children[p] = append(children[p], i)
		}
		if left[i] == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for _, c := range children[order[k]] {
			if left[c]--; left[c] == 0 {
				order = append(order, c)
			}
		}
	}
	if len(order) < len(left) {
		return nil, fmt.Errorf("%s: %w", t.file, t.cycle(left))
	}
	return order, nil
}

// cycle walks from a task that never became ready to parents that did not either,
// until one comes again.
func (t *trace) cycle(left []int) error {
	at := slices.IndexFunc(left, func(n int) bool { return n > 0 })
	seen := map[int]int{}
	var path []string
	for {
		if from, ok := seen[at]; ok {
			path = append(path[from:], t.tasks[at].id)
			slices.Reverse(path)
			if len(path) > 10 {
				path = append(path[:9], "...", path[len(path)-1])
			}
			return fmt.Errorf("%s: task %q waits for itself: %s", t.tasks[at].where, t.tasks[at].id, strings.Join(path, " -> "))
		}
		seen[at] = len(path)
		path = append(path, t.tasks[at].id)
		parents := t.tasks[at].parents
		at = parents[slices.IndexFunc(parents, func(p int) bool { return left[p] > 0 })]
	}
}

// once drops what comes again.
func once(names []string) []string {
	seen := make(map[string]struct{}, len(names))
	out := names[:0]
	for _, n := range names {
		if _, ok := seen[n]; !ok {
			seen[n] = struct{}{}
			out = append(out, n)
		}
	}
	return out
}
