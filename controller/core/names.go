package core

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// LocateExports lists a job's exports in the order of the graph, without their
// agents' addresses. missing names the first that is not there, and then nothing is listed.
func LocateExports(g *dag.Graph, s *States, have map[comms.DatasetRef]DatasetRecord) (out []comms.LocatedData, missing string) {
	for i := range g.Exports {
		for _, src := range g.Exports[i].Sources {
			refs, complete := s.Expand(src)
			if !complete {
				return nil, g.Exports[i].From.Text
			}
			for _, ref := range refs {
				d, ok := have[ref]
				if !ok {
					return nil, DatasetName(g, ref)
				}
				out = append(out, comms.LocatedData{Name: DatasetName(g, ref), Desc: d.Desc, Path: g.Exports[i].Path, Agent: d.Agent})
			}
		}
	}
	return out, ""
}

// DatasetName is the name of a dataset: TASK.OUTPUT, or TASK.OUTPUT[ELEMENT] of a generator.
func DatasetName(g *dag.Graph, r comms.DatasetRef) string {
	outs := g.Group(r.Task).Outputs
	if int(r.Output) >= len(outs) {
		return fmt.Sprintf("%s.%d", g.TaskName(r.Task), r.Output)
	}
	o := &outs[r.Output]
	if o.Generate != dag.GenerateNone {
		return fmt.Sprintf("%s.%s[%d]", g.TaskName(r.Task), o.Name, r.Element)
	}
	return fmt.Sprintf("%s.%s", g.TaskName(r.Task), o.Name)
}

// Resolve finds the datasets of a name: TASK.OUTPUT, TASK.OUTPUT[ELEMENT], or
// TASK when it has one output. A generator's output without an element stands for all.
func Resolve(g *dag.Graph, s *States, name string) ([]comms.DatasetRef, error) {
	task, rest, ok := splitName(g, name)
	if !ok {
		return nil, fmt.Errorf("no dataset %q in job %s: want TASK.OUTPUT, such as map.page or spread[2,500].mean", name, g.Name)
	}
	if s.get(task) == TaskAbsent {
		return nil, fmt.Errorf("dataset %q: task %s never came to be", name, g.TaskName(task))
	}
	outs := g.Group(task).Outputs
	output := 0
	text, index, indexed := strings.Cut(rest, "[")
	if rest == "" && len(outs) != 1 {
		return nil, fmt.Errorf("dataset %q: the task has %d outputs, name one: %s", name, len(outs), outputNames(outs))
	}
	if rest != "" {
		for output = 0; output < len(outs) && outs[output].Name != text; output++ {
		}
		if output == len(outs) {
			return nil, fmt.Errorf("dataset %q: the task has no output %q; it has: %s", name, text, outputNames(outs))
		}
	}
	if outs[output].Generate == dag.GenerateNone {
		if indexed {
			return nil, fmt.Errorf("dataset %q: the output is no series, leave out [%s", name, index)
		}
		return []comms.DatasetRef{{Task: task, Output: uint32(output)}}, nil
	}
	if !indexed {
		refs, _ := s.Expand(dag.Source{Kind: dag.SourceStream, Task: task, Output: uint32(output)})
		return refs, nil
	}
	e, err := strconv.ParseUint(strings.TrimSuffix(index, "]"), 10, 64)
	if err != nil || !strings.HasSuffix(index, "]") {
		return nil, fmt.Errorf("dataset %q: want the element's number in brackets", name)
	}
	return []comms.DatasetRef{{Task: task, Output: uint32(output), Element: e}}, nil
}

func outputNames(outs []dag.OutputDecl) string {
	names := make([]string, len(outs))
	for i := range outs {
		names[i] = outs[i].Name
	}
	return strings.Join(names, ", ")
}

// splitName splits a dataset's name behind the task's, whose indices may hold any text.
func splitName(g *dag.Graph, name string) (task dag.TaskIndex, rest string, ok bool) {
	for at := len(name); at > 0; at = strings.LastIndexByte(name[:at], '.') {
		if task, ok = g.Lookup(name[:at]); ok {
			return task, strings.TrimPrefix(name[at:], "."), true
		}
	}
	return 0, "", false
}
