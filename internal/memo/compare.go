package memo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Job is what a comparison must know of a job.
type Job struct {
	Graph    *dag.Graph
	Contents []comms.Content
}

// Past is how the tasks of the earlier job ended.
type Past struct {
	Job
	State    func(dag.TaskIndex) string                             // "done", "failed", ...
	Elements func(task dag.TaskIndex, output uint32) (uint64, bool) // of a generator's output, and whether there are no more
}

// Pair is a task and the task of the earlier job that it is.
type Pair struct{ Task, From dag.TaskIndex }

// Reason is why tasks run.
type Reason struct {
	Text  string
	Tasks []comms.Range // sorted
}

// Result is what Compare finds out.
type Result struct {
	Same []Pair            // sorted by Task; instances of streamed groups too
	Ends []comms.StreamEnd // of the open outputs of tasks in Same
	Why  []Reason          // of the static tasks that are not in Same, by their first task
}

// unfinished is in memo while a task is being looked at.
const unfinished = "\x00"

// comparison is one Compare.
type comparison struct {
	old   *Past
	now   *Job
	again func(dag.TaskIndex) bool
	was   map[string]comms.Hash
	is    map[string]comms.Hash
	memo  map[dag.TaskIndex]string // why a task is not what it was; "" it is
	from  map[dag.TaskIndex]dag.TaskIndex
}

// Compare tells which tasks of a job are what they were in an earlier one. again,
// if it is not nil, names tasks that run in any case.
func Compare(old *Past, now *Job, again func(dag.TaskIndex) bool) *Result {
	c := &comparison{old: old, now: now, again: again, was: hashes(old.Contents), is: hashes(now.Contents),
		memo: map[dag.TaskIndex]string{}, from: map[dag.TaskIndex]dag.TaskIndex{}}
	r := &Result{}
	why := map[string][]dag.TaskIndex{}
	for _, t := range now.Graph.Order() { // so that recursion stays shallow
		c.why(t)
	}
	for t := range dag.TaskIndex(now.Graph.NumTasks()) {
		if text := c.why(t); text != "" {
			why[text] = append(why[text], t)
			continue
		}
		r.Same = append(r.Same, Pair{t, c.from[t]})
		c.streams(r, t)
	}
	slices.SortFunc(r.Same, func(a, b Pair) int { return cmp.Compare(a.Task, b.Task) })
	for _, text := range slices.Sorted(maps.Keys(why)) {
		r.Why = append(r.Why, Reason{Text: text, Tasks: comms.Ranges(why[text])})
	}
	slices.SortStableFunc(r.Why, func(a, b Reason) int { return cmp.Compare(a.Tasks[0].First, b.Tasks[0].First) })
	return r
}

func hashes(all []comms.Content) map[string]comms.Hash {
	m := make(map[string]comms.Hash, len(all))
	for _, c := range all {
		m[c.Name] = c.Hash
	}
	return m
}

// streams lists the elements of a generator that is what it was, and the instances
// that follow it and are.
func (c *comparison) streams(r *Result, t dag.TaskIndex) {
	g := c.now.Graph
	for o, out := range g.Group(t).Outputs {
		if out.Generate != dag.GenerateOpen {
			continue
		}
		n, _ := c.old.Elements(c.from[t], uint32(o)) // it is done: it has ended
		r.Ends = append(r.Ends, comms.StreamEnd{Task: t, Output: uint32(o), Count: n})
		for _, slot := range g.StreamSlots(t, uint32(o)) {
			for e := range n {
				if i, err := g.Instance(slot, e); err == nil && c.why(i) == "" {
					r.Same = append(r.Same, Pair{i, c.from[i]})
				}
			}
		}
	}
}

// why tells the first thing in which a task differs; empty: it is what it was.
func (c *comparison) why(t dag.TaskIndex) string {
	if text, known := c.memo[t]; known {
		return text
	}
	c.memo[t] = unfinished // no task of a valid graph meets it
	text := c.look(t)
	c.memo[t] = text
	return text
}

func (c *comparison) look(t dag.TaskIndex) string {
	if len(c.was) == 0 && len(c.is) > 0 {
		return "the earlier job ran without retain: it did not note what its results rest on"
	}
	name := c.now.Graph.TaskName(t)
	if c.again != nil && c.again(t) {
		return "asked for"
	}
	from, ok := c.old.Graph.Lookup(name)
	if !ok {
		return "it is new"
	}
	c.from[t] = from
	if text := c.definition(t, from); text != "" {
		return text
	}
	if text := c.inputs(t, from); text != "" {
		return text
	}
	switch state := c.old.State(from); state {
	case "done":
		return ""
	case "failed", "skipped":
		return "it " + state
	case "cancelled":
		return "it was cancelled"
	}
	return "it had not ended"
}

// inputs compares what a task reads, and whether that is what it was.
func (c *comparison) inputs(t, from dag.TaskIndex) string {
	was, err1 := c.old.Graph.Inputs(from)
	is, err2 := c.now.Graph.Inputs(t)
	if err1 != nil || err2 != nil || len(was) != len(is) {
		return "its inputs are others"
	}
	for i := range is {
		a, b := &was[i], &is[i]
		same := a.Name == b.Name && a.List == b.List && a.Min == b.Min && slices.EqualFunc(a.Sources, b.Sources, func(x, y dag.Source) bool {
			return x.Kind == y.Kind && x.Output == y.Output && x.Element == y.Element && c.producer(c.old.Graph, x) == c.producer(c.now.Graph, y)
		})
		if !same {
			return fmt.Sprintf("input %s comes from elsewhere", b.Name)
		}
	}
	if st := c.now.Graph.Group(t).Stream; st != nil && c.why(st.Generator) != "" {
		return runs(c.now.Graph.TaskName(st.Generator))
	}
	for i := range is {
		for _, src := range is[i].Sources {
			if text := c.source(src); text != "" {
				return text
			}
		}
	}
	return ""
}

func runs(name string) string { return "it reads " + name + ", which runs again" }

// producer names what a source stands for.
func (c *comparison) producer(g *dag.Graph, s dag.Source) string {
	if s.Kind == dag.SourceGroup {
		return g.Group(s.Task).Name
	}
	return g.TaskName(s.Task)
}

// source tells whether all that a source stands for is what it was.
func (c *comparison) source(s dag.Source) string {
	g := c.now.Graph
	if s.Kind != dag.SourceGroup {
		if c.why(s.Task) != "" {
			return runs(g.TaskName(s.Task))
		}
		return ""
	}
	st := g.Group(s.Task).Stream
	if st == nil {
		return "its inputs are others"
	}
	if c.why(st.Generator) != "" {
		return runs(g.TaskName(st.Generator))
	}
	slot, _, _ := g.Slot(s.Task)
	n, _ := c.old.Elements(c.from[st.Generator], st.Output)
	for e := range n {
		i, err := g.Instance(slot, e)
		if err != nil || c.why(i) != "" {
			return runs(g.TaskName(i))
		}
	}
	return ""
}
