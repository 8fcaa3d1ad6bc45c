package dag

import (
	"fmt"
	"iter"
)

// Dataset is one dataset of a graph. Element is 0 for an output that is not generated.
type Dataset struct {
	Task    TaskIndex // the task that makes it
	Output  uint32    // which of its group's outputs, from 0
	Element uint64    // of a generated output, from 0
}

// DatasetName is the name of a dataset: TASK.OUTPUT, or TASK.OUTPUT[ELEMENT] of a generator.
func (g *Graph) DatasetName(d Dataset) string {
	outs := g.Group(d.Task).Outputs
	if int(d.Output) >= len(outs) {
		return fmt.Sprintf("%s.%d", g.TaskName(d.Task), d.Output)
	}
	o := &outs[d.Output]
	if o.Generate != GenerateNone {
		return fmt.Sprintf("%s.%s[%d]", g.TaskName(d.Task), o.Name, d.Element)
	}
	return fmt.Sprintf("%s.%s", g.TaskName(d.Task), o.Name)
}

// Datasets yields what a source stands for, in order. How many elements an output of
// an open generator has, elements says; a list ends before an instance that the graph
// does not have.
func (g *Graph) Datasets(s Source, elements func(generator TaskIndex, output uint32) uint64) iter.Seq[Dataset] {
	return func(yield func(Dataset) bool) {
		switch s.Kind {
		case SourceStream:
			for e := range elements(s.Task, s.Output) {
				if !yield(Dataset{s.Task, s.Output, e}) {
					return
				}
			}
		case SourceGroup:
			stream := g.Group(s.Task).Stream
			slot, _, ok := g.Slot(s.Task)
			if stream == nil || !ok {
				return
			}
			for e := range elements(stream.Generator, stream.Output) {
				i, err := g.Instance(slot, e)
				if err != nil || !yield(Dataset{Task: i, Output: s.Output}) {
					return
				}
			}
		case SourceElement:
			yield(Dataset{s.Task, s.Output, s.Element})
		case SourceWhole:
			yield(Dataset{Task: s.Task, Output: s.Output})
		}
	}
}
