package dag

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// graphIndex is derived from the declarations. Its nodes are the static tasks
// followed by the instance slots, so that the node of slot s has the number of
// its instance for element 0. Memory is O(nodes + edges): 4 bytes for a source,
// 8 for a consumer (8 more each where generators' elements are named), 4 a node.
type graphIndex struct {
	tasks, slots int
	outside      *scope // of texts outside loops: the parameters
	groups       []groupIndex
	byName       map[string]int32
	staticStart  []uint32 // first task of each static group, ascending
	staticGroup  []int32  // its position in Groups
	single       bool     // each static group is one task, the usual form of large literal jobs
	slotGroup    []int32  // group of each slot
	values       map[axisKey]map[string]int32

	refs    []refIndex // of each From of each input of each group, in order
	srcTask []uint32
	srcElem []uint64

	outStart []uint32 // row of each node in out
	out      []outEdge
	outElem  []uint64 // parallel to out, nil when no reference names an element

	order   []TaskIndex // nil: the order of the indices
	streams map[streamKey][]int
	bound   map[int32]*boundGroup // groups whose texts have placeholders
}

type groupIndex struct {
	start   uint32 // first task; of a streamed group the first slot
	size    uint32
	refBase uint32 // first of its entries in refs
	needed  bool   // something follows it or takes its outputs without Min
	spared  bool   // something takes its outputs with Min
}

// refIndex is a resolved From: stride sources for each of the group's tasks.
type refIndex struct {
	kind     SourceKind
	shared   bool // the same sources for each task, stored once
	relative bool // sources are instances of the consumer's element
	bound    bool // the element is the consumer's
	output   uint32
	stride   uint32
	base     int // first source in srcTask
	elemBase int // and in srcElem, when elements are named
}

// at gives where a task's sources begin.
func (x *refIndex) at(local uint32) (task, elem int) {
	if x.shared {
		return x.base, x.elemBase
	}
	return x.base + int(local)*int(x.stride), x.elemBase + int(local)*int(x.stride)
}

type outEdge struct {
	consumer uint32 // node
	ref      uint32
}

type streamKey struct {
	task   TaskIndex
	output uint32
}

type axisKey struct{ group, axis int }

// nodeStart returns the node of a group's first task or slot.
func (ix *graphIndex) nodeStart(g *Graph, gi int) uint32 {
	if g.Groups[gi].Stream != nil {
		return uint32(ix.tasks) + ix.groups[gi].start
	}
	return ix.groups[gi].start
}

// groupOfNode returns the group of a static task or slot.
func (ix *graphIndex) groupOfNode(n uint32) int {
	if int(n) >= ix.tasks {
		return int(ix.slotGroup[int(n)-ix.tasks])
	}
	if ix.single {
		return int(ix.staticGroup[n])
	}
	// Where groups are of one size the task's place among all tells its group.
	last := len(ix.staticStart) - 1
	if k := int(uint64(n) * uint64(last+1) / uint64(ix.tasks)); ix.staticStart[k] <= n && (k == last || n < ix.staticStart[k+1]) {
		return int(ix.staticGroup[k])
	}
	k := sort.Search(last+1, func(k int) bool { return ix.staticStart[k] > n })
	return int(ix.staticGroup[k-1])
}

func (ix *graphIndex) nodeName(g *Graph, n uint32) string {
	gi := ix.groupOfNode(n)
	row := groupRow{group: &g.Groups[gi], local: n - ix.nodeStart(g, gi)}
	return row.name()
}

// refRange returns the entries in refs of a group.
func (ix *graphIndex) refRange(gi int) (first, last int) {
	first, last = int(ix.groups[gi].refBase), len(ix.refs)
	if gi+1 < len(ix.groups) {
		last = int(ix.groups[gi+1].refBase)
	}
	return first, last
}

// indexValues prepares the search on long lists of loop values.
func (ix *graphIndex) indexValues(gi int, grp *Group) {
	for ai := range grp.Axes {
		a := &grp.Axes[ai]
		if len(a.Values) <= 16 {
			continue
		}
		m := make(map[string]int32, len(a.Values))
		for i, v := range a.Values {
			if text, err := valueText(v); err == nil {
				m[text] = int32(i)
			}
		}
		if ix.values == nil {
			ix.values = map[axisKey]map[string]int32{}
		}
		ix.values[axisKey{gi, ai}] = m
	}
}

// valuePosition finds a loop value, given as int64 or text.
func (ix *graphIndex) valuePosition(g *Graph, gi, ai int, v any) (int, bool) {
	a := &g.Groups[gi].Axes[ai]
	if a.Values == nil {
		n, ok := v.(int64)
		if s, isText := v.(string); isText {
			n, ok = decimal(s)
		}
		if !ok || n < a.First || n-a.First >= a.N {
			return 0, false
		}
		return int(n - a.First), true
	}
	text, err := valueText(v)
	if err != nil {
		return 0, false
	}
	if m := ix.values[axisKey{gi, ai}]; m != nil {
		at, ok := m[text]
		return int(at), ok
	}
	for i, w := range a.Values {
		if t, _ := valueText(w); t == text {
			return i, true
		}
	}
	return 0, false
}

// decimal reads a whole number in its one canonical spelling.
func decimal(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s
}

// sortEdges orders a row by output, element, consumer and reference.
func (ix *graphIndex) sortEdges(lo, hi uint32) {
	if hi-lo < 2 {
		return
	}
	s := edgeRow{ix, lo, int(hi - lo)}
	if !sort.IsSorted(s) {
		sort.Sort(s)
	}
}

type edgeRow struct {
	ix *graphIndex
	lo uint32
	n  int
}

func (s edgeRow) Len() int { return s.n }

func (s edgeRow) Less(i, j int) bool {
	a, b := s.ix.out[int(s.lo)+i], s.ix.out[int(s.lo)+j]
	if oa, ob := s.ix.refs[a.ref].output, s.ix.refs[b.ref].output; oa != ob {
		return oa < ob
	}
	if s.ix.outElem != nil {
		if ea, eb := s.ix.outElem[int(s.lo)+i], s.ix.outElem[int(s.lo)+j]; ea != eb {
			return ea < eb
		}
	}
	if a.consumer != b.consumer {
		return a.consumer < b.consumer
	}
	return a.ref < b.ref
}

func (s edgeRow) Swap(i, j int) {
	i, j = int(s.lo)+i, int(s.lo)+j
	s.ix.out[i], s.ix.out[j] = s.ix.out[j], s.ix.out[i]
	if s.ix.outElem != nil {
		s.ix.outElem[i], s.ix.outElem[j] = s.ix.outElem[j], s.ix.outElem[i]
	}
}

// NumTasks returns the number of static tasks.
func (g *Graph) NumTasks() int { return g.index.tasks }

// NumSlots returns T, the number of instance slots: the streamed groups' tasks per element.
func (g *Graph) NumSlots() int { return g.index.slots }

// Instance returns the index of slot's task for an element of its generator:
// NumTasks() + element*NumSlots() + slot. It is the same on every host and in every re-execution.
func (g *Graph) Instance(slot int, element uint64) (TaskIndex, error) {
	ix := &g.index
	if slot < 0 || slot >= ix.slots {
		return 0, fmt.Errorf("instance: slot %d of %d", slot, ix.slots)
	}
	// The last slot of the element must fit too: instances of one element refer to each other.
	if room := (uint64(math.MaxUint32) - uint64(ix.tasks)) / uint64(ix.slots); element >= room {
		return 0, fmt.Errorf("instance: element %d: a job with %d tasks and %d tasks an element has room for %d elements", element, ix.tasks, ix.slots, room)
	}
	return TaskIndex(uint64(ix.tasks) + element*uint64(ix.slots) + uint64(slot)), nil
}

// Slot is the inverse of Instance; ok is false for a static task.
func (g *Graph) Slot(i TaskIndex) (slot int, element uint64, ok bool) {
	ix := &g.index
	if int64(i) < int64(ix.tasks) || ix.slots == 0 {
		return 0, 0, false
	}
	n := uint64(i) - uint64(ix.tasks)
	return int(n % uint64(ix.slots)), n / uint64(ix.slots), true
}

// StreamSlots returns the slots whose instances are bound to elements of
// task's output, in order. The caller does not change the result.
func (g *Graph) StreamSlots(task TaskIndex, output uint32) []int {
	return g.index.streams[streamKey{task, output}]
}

// valid tells whether i is a static task or could be an instance.
func (g *Graph) valid(i TaskIndex) bool {
	return int64(i) < int64(g.index.tasks) || g.index.slots > 0
}

// row locates a task or instance: its group and its place in it. It panics
// when i is neither, as an index out of a slice's range does.
func (g *Graph) row(i TaskIndex) (gi int, row groupRow) {
	ix := &g.index
	if !g.valid(i) {
		panic(fmt.Sprintf("dag: task %d of %d", i, ix.tasks))
	}
	n := uint32(i)
	slot, element, instance := g.Slot(i)
	if instance {
		n = uint32(ix.tasks + slot)
	}
	gi = ix.groupOfNode(n)
	return gi, groupRow{group: &g.Groups[gi], local: n - ix.nodeStart(g, gi), element: element, known: true}
}

// Group returns the group of a task or instance. The caller does not change it.
func (g *Graph) Group(i TaskIndex) *Group { return &g.Groups[g.GroupIndex(i)] }

// GroupIndex returns the position in Groups of a task's or instance's group.
func (g *Graph) GroupIndex(i TaskIndex) int {
	gi, _ := g.row(i)
	return gi
}

// GroupNear is GroupIndex, quick when the task is of group near or of the next one.
func (g *Graph) GroupNear(i TaskIndex, near int) int {
	ix := &g.index
	if int64(i) < int64(ix.tasks) {
		for k := near; k < min(near+2, len(g.Groups)); k++ {
			if x := &ix.groups[k]; g.Groups[k].Stream == nil && uint32(i)-x.start < x.size {
				return k
			}
		}
	}
	return g.GroupIndex(i)
}

// MayFail tells whether a job goes on when a task of a group fails: it or the
// task says so (KeepGoing), or all that take from the group do so by Min.
func (g *Graph) MayFail(group int) bool {
	x := &g.index.groups[group]
	return g.KeepGoing || g.Groups[group].KeepGoing || x.spared && !x.needed
}

// Sink tells whether nothing depends on a task or instance.
func (g *Graph) Sink(i TaskIndex) bool {
	ix := &g.index
	node, _ := g.node(i)
	if ix.outStart[node] != ix.outStart[node+1] {
		return false
	}
	for o := range g.Group(i).Outputs {
		if len(g.StreamSlots(i, uint32(o))) > 0 {
			return false
		}
	}
	return true
}

// GroupTasks returns the tasks of a static group: first and how many. For a
// streamed group it returns its slots instead: see Instance.
func (g *Graph) GroupTasks(group int) (first, n int) {
	x := &g.index.groups[group]
	return int(x.start), int(x.size)
}

// GroupByName returns the position in Groups of a group.
func (g *Graph) GroupByName(name string) (int, bool) {
	gi, ok := g.index.byName[name]
	return int(gi), ok
}

// TaskName returns the unique name of a task or instance, for example
// "spread[2,500]". The first index of an instance is its element.
func (g *Graph) TaskName(i TaskIndex) string {
	_, row := g.row(i)
	return row.name()
}

// Lookup finds a static task or an instance by name.
func (g *Graph) Lookup(name string) (TaskIndex, bool) {
	ix := &g.index
	base, rest := takeName(name)
	gi, ok := g.GroupByName(base)
	if !ok {
		return 0, false
	}
	grp := &g.Groups[gi]
	var words []string
	if rest != "" {
		if len(rest) < 2 || rest[0] != '[' || rest[len(rest)-1] != ']' {
			return 0, false
		}
		words = strings.Split(rest[1:len(rest)-1], ",")
	}
	element := uint64(0)
	if grp.Stream != nil {
		if len(words) == 0 {
			return 0, false
		}
		n, ok := decimal(words[0])
		if !ok || n < 0 {
			return 0, false
		}
		element, words = uint64(n), words[1:]
	}
	if len(words) != len(grp.Axes) {
		return 0, false
	}
	local := 0
	for ai, w := range words {
		at, ok := ix.valuePosition(g, gi, ai, w)
		if !ok {
			return 0, false
		}
		local = local*grp.Axes[ai].Len() + at
	}
	if grp.Stream == nil {
		return TaskIndex(int(ix.groups[gi].start) + local), true
	}
	i, err := g.Instance(int(ix.groups[gi].start)+local, element)
	return i, err == nil
}

// Inputs returns the resolved inputs of a task or instance, in the order of its
// group's declarations. It fails for an index that no task can have.
func (g *Graph) Inputs(i TaskIndex) ([]Input, error) {
	if !g.valid(i) {
		return nil, fmt.Errorf("inputs: task %d of %d", i, g.index.tasks)
	}
	ix := &g.index
	gi, row := g.row(i)
	if len(row.group.Inputs) == 0 {
		return nil, nil
	}
	shift := TaskIndex(row.element * uint64(ix.slots))
	inputs := make([]Input, len(row.group.Inputs))
	first, last := ix.refRange(gi)
	total := 0
	for ri := first; ri < last; ri++ {
		total += int(ix.refs[ri].stride)
	}
	sources := make([]Source, 0, total)
	ri := first
	for di := range row.group.Inputs {
		d := &row.group.Inputs[di]
		mark := len(sources)
		for range d.From {
			x := &ix.refs[ri]
			ri++
			at, elemAt := x.at(row.local)
			for k := range int(x.stride) {
				s := Source{Kind: x.kind, Task: TaskIndex(ix.srcTask[at+k]), Output: x.output}
				switch {
				case x.relative:
					s.Task += shift
				case x.bound:
					s.Element = row.element
				}
				if x.kind == SourceElement && !x.bound {
					s.Element = ix.srcElem[elemAt+k]
				}
				sources = append(sources, s)
			}
		}
		inputs[di] = Input{Name: d.Name, List: d.List, Min: d.Min, Sources: sources[mark:len(sources):len(sources)]}
	}
	return inputs, nil
}

// Consumers returns the edges that leave a static task or instance, for each
// output in order. For instances and generators it includes edges to other
// instances of the same element and to static consumers of the whole stream,
// not the binding of new instances: see StreamSlots, and SlotConsumers for
// instances that read a dataset of another task. A task that names the same
// dataset twice has two edges.
func (g *Graph) Consumers(i TaskIndex) []Edge { return g.AppendConsumers(nil, i) }

// AppendConsumers is Consumers behind edges.
func (g *Graph) AppendConsumers(edges []Edge, i TaskIndex) []Edge {
	ix := &g.index
	node, shift := g.node(i)
	edges = slices.Grow(edges, int(ix.outStart[node+1]-ix.outStart[node]))
	for k := ix.outStart[node]; k < ix.outStart[node+1]; k++ {
		e := ix.out[k]
		x := &ix.refs[e.ref]
		instance := int(e.consumer) >= ix.tasks
		if instance && !x.relative {
			continue
		}
		edge := Edge{Consumer: TaskIndex(e.consumer), Output: x.output, Kind: x.kind}
		if instance {
			edge.Consumer += shift
		}
		if ix.outElem != nil {
			edge.Element = ix.outElem[k]
		}
		edges = append(edges, edge)
	}
	return edges
}

// OnlyConsumer returns the one edge that leaves a task or instance when there is
// no other, nor an instance that follows it or may still read from it.
func (g *Graph) OnlyConsumer(i TaskIndex) (e Edge, ok bool) {
	ix := &g.index
	node, shift := g.node(i)
	k := ix.outStart[node]
	if ix.outStart[node+1] != k+1 {
		return Edge{}, false
	}
	x := &ix.refs[ix.out[k].ref]
	e = Edge{Consumer: TaskIndex(ix.out[k].consumer), Output: x.output, Kind: x.kind}
	if int(e.Consumer) >= ix.tasks {
		if !x.relative {
			return Edge{}, false
		}
		e.Consumer += shift
	}
	if ix.outElem != nil {
		e.Element = ix.outElem[k]
	}
	return e, true
}

// node returns the node of a task or instance, and what turns the node of a
// slot into the instance of the same element.
func (g *Graph) node(i TaskIndex) (node uint32, shift TaskIndex) {
	if !g.valid(i) {
		panic(fmt.Sprintf("dag: task %d of %d", i, g.index.tasks))
	}
	slot, element, ok := g.Slot(i)
	if !ok {
		return uint32(i), 0
	}
	return uint32(g.index.tasks + slot), TaskIndex(element * uint64(g.index.slots))
}

// SlotConsumers returns the slots each of whose instances reads from the given
// output of a static task or instance while following another generator, or
// none: a dataset that they may still need stays until their stream and its
// instances have ended. The result is sorted.
func (g *Graph) SlotConsumers(i TaskIndex, output uint32) []int {
	ix := &g.index
	node, _ := g.node(i)
	var slots []int
	for k := ix.outStart[node]; k < ix.outStart[node+1]; k++ {
		e := ix.out[k]
		x := &ix.refs[e.ref]
		if int(e.consumer) >= ix.tasks && !x.relative && x.output == output {
			slots = append(slots, int(e.consumer)-ix.tasks)
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// Order returns the static tasks in a topological order, ties by index. It
// makes a new slice.
func (g *Graph) Order() []TaskIndex {
	if g.index.order != nil {
		return slices.Clone(g.index.order)
	}
	order := make([]TaskIndex, g.index.tasks)
	for i := range order {
		order[i] = TaskIndex(i)
	}
	return order
}
