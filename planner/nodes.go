package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// nodes is the graph as arrays: static tasks, then one node for each slot of the
// streamed groups (its first element).
type nodes struct {
	g        *dag.Graph
	tasks    int
	group    []int32
	groups   []groupCost
	edge     []edge  // to consumers, one for each, sorted, node after node
	first    []int32 // of each node's in edge, and one more
	missing  []int32 // producers of each node
	order    []int32 // topological
	rank     []float64
	exported []bool
	held     []int64 // see Plan
}

type edge struct {
	to    int32
	bytes float64
}

// groupCost is what a task of a group costs and needs.
type groupCost struct {
	seconds float64
	bytes   []float64 // of each output
	known   bool
	peak    float64 // bytes of private memory
	need    need
	shape   int // groups of equal need, with binaries for the same platforms, share a shape
}

type need struct {
	cpu, memory, gpu int64
	devices          deviceNeed // nothing for a host: see bay
	custom           []amount
}

type amount struct {
	name string
	n    int64
}

func sortedNames(m map[string]int64) []string { return slices.Sorted(maps.Keys(m)) }

func newNodes(g *dag.Graph, p profiles.Snapshot, c *Cluster) (*nodes, error) {
	size := g.NumTasks() + g.NumSlots()
	n := &nodes{g: g, tasks: g.NumTasks(), group: make([]int32, size), groups: make([]groupCost, len(g.Groups)),
		edge: make([]edge, 0, size), first: make([]int32, 1, size+1), missing: make([]int32, size), rank: make([]float64, size), exported: make([]bool, size)}
	n.held = heldMemory(g, p, c.Hosts)
	shapes := map[string]int{}
	for i := range g.Groups {
		n.groups[i] = n.costOf(i, p, 0)
		key := fmt.Sprint(n.groups[i].need)
		if e := g.EnvironmentOf(&g.Groups[i]); e != nil {
			key += strings.Join(e.Platforms(), " ")
		}
		if _, ok := shapes[key]; !ok {
			shapes[key] = len(shapes)
		}
		n.groups[i].shape = shapes[key]
	}
	near := 0
	for i := range size {
		near = g.GroupNear(dag.TaskIndex(i), near)
		n.group[i] = int32(near)
	}
	for i := range size {
		n.addEdges(i)
		n.first = append(n.first, int32(len(n.edge)))
	}
	for i := range g.Exports {
		for _, s := range g.Exports[i].Sources {
			if int(s.Task) < size {
				n.exported[s.Task] = true
			}
		}
	}
	if err := n.sort(); err != nil {
		return nil, err
	}
	n.scale(p)
	n.ranks(c)
	return n, nil
}

// scale predicts again what groups cost whose costs depend on the size of their
// inputs, by that of their first tasks.
func (n *nodes) scale(p profiles.Snapshot) {
	varies := make([]bool, len(n.groups))
	for i := range n.groups {
		varies[i] = p.Varies(SignatureOf(n.g, i))
	}
	if !slices.Contains(varies, true) {
		return
	}
	in, seen := make([]float64, len(n.order)), make([]bool, len(n.groups))
	again := &nodes{g: n.g, tasks: n.tasks, group: n.group, groups: n.groups, missing: make([]int32, len(n.order))}
	for _, i := range n.order {
		if g := n.group[i]; !seen[g] {
			if seen[g] = true; varies[g] {
				shape := n.groups[g].shape
				n.groups[g] = n.costOf(int(g), p, in[i])
				n.groups[g].shape = shape
			}
		}
		again.edge = again.edge[:0]
		again.addEdges(int(i))
		copy(n.next(i), again.edge)
		for _, e := range again.edge {
			in[e.to] += e.bytes
		}
	}
}

// costOf predicts what a task of a group costs whose inputs together have so many
// bytes; 0 unknown.
func (n *nodes) costOf(i int, p profiles.Snapshot, in float64) groupCost {
	g, grp := n.g, &n.g.Groups[i]
	pr := p.PredictFor(SignatureOf(g, i), in)
	r := &grp.Resources
	c := groupCost{seconds: pr.Seconds, known: pr.Basis != profiles.BasisDefault, bytes: make([]float64, len(grp.Outputs)),
		need: need{cpu: cpuOf(r), memory: r.Memory, gpu: r.GPU, devices: deviceNeedOf(r)}}
	if n.held != nil {
		c.need.memory = max(c.need.memory, n.held[i])
	}
	c.peak = max(float64(c.need.memory), pr.Peak)
	for o := range c.bytes {
		c.bytes[o] = p.OutputOf(SignatureOf(g, i), grp.Outputs[o].Name, len(grp.Outputs), pr.Bytes)
	}
	if n := grp.InputBytes(); n > 0 {
		c.bytes[0] = n
	}
	for _, name := range sortedNames(r.Custom) {
		c.need.custom = append(c.need.custom, amount{name, r.Custom[name]})
	}
	return c
}

// next lists the consumers of a node.
func (n *nodes) next(i int32) []edge { return n.edge[n.first[i]:n.first[i+1]] }

// addEdges finds the consumers of a node, each once, with the bytes that go there.
func (n *nodes) addEdges(i int) {
	t := dag.TaskIndex(i)
	bytes := n.groups[n.group[i]].bytes
	if e, ok := n.g.OnlyConsumer(t); ok && n.g.NumSlots() == 0 {
		n.edge = append(n.edge, edge{int32(e.Consumer), bytes[e.Output]})
		n.missing[e.Consumer]++
		return
	}
	at := len(n.edge)
	for _, e := range n.g.Consumers(t) {
		n.edge = append(n.edge, edge{int32(e.Consumer), bytes[e.Output]})
	}
	for o := range n.g.Group(t).Outputs {
		for _, s := range n.g.StreamSlots(t, uint32(o)) {
			n.edge = append(n.edge, edge{int32(n.tasks + s), bytes[o]})
		}
		for _, s := range n.g.SlotConsumers(t, uint32(o)) {
			n.edge = append(n.edge, edge{int32(n.tasks + s), bytes[o]})
		}
	}
	out := n.edge[at:]
	slices.SortFunc(out, func(a, b edge) int { return cmp.Compare(a.to, b.to) })
	k := 0
	for _, e := range out {
		if k > 0 && out[k-1].to == e.to {
			out[k-1].bytes += e.bytes
			continue
		}
		out[k] = e
		k++
	}
	n.edge = n.edge[:at+k]
	for _, e := range n.edge[at:] {
		n.missing[e.to]++
	}
}

// sort orders the nodes topologically.
func (n *nodes) sort() error {
	left := slices.Clone(n.missing)
	n.order = make([]int32, 0, len(left))
	for i, m := range left {
		if m == 0 {
			n.order = append(n.order, int32(i))
		}
	}
	for k := 0; k < len(n.order); k++ {
		for _, e := range n.next(n.order[k]) {
			if left[e.to]--; left[e.to] == 0 {
				n.order = append(n.order, e.to)
			}
		}
	}
	if len(n.order) < len(left) {
		return fmt.Errorf("plan %s: the graph has a cycle", n.g.Name)
	}
	return nil
}

// ranks computes upward ranks. A transfer counts by the chance that it is one:
// with h hosts, (h-1)/h.
func (n *nodes) ranks(c *Cluster) {
	perByte, latency := 0.0, 0.0
	if h := float64(len(c.Hosts)); h > 1 {
		bandwidth, delay := c.mean()
		perByte, latency = (h-1)/h/bandwidth, delay*(h-1)/h
	}
	for k := len(n.order) - 1; k >= 0; k-- {
		i := n.order[k]
		best := 0.0
		for _, e := range n.next(i) {
			best = max(best, n.rank[e.to]+e.bytes*perByte+latency)
		}
		n.rank[i] = best + n.groups[n.group[i]].seconds
	}
	n.hurry(c, func(e edge) float64 { return e.bytes*perByte + latency })
}

func (n *nodes) cost(i int) *groupCost { return &n.groups[n.group[i]] }

// bounds returns the longest path by duration alone, the core seconds and the device seconds.
func (n *nodes) bounds() (path, work, devices float64) {
	longest := make([]float64, len(n.order))
	for k := len(n.order) - 1; k >= 0; k-- {
		i := n.order[k]
		best := 0.0
		for _, e := range n.next(i) {
			best = max(best, longest[e.to])
		}
		c := n.cost(int(i))
		longest[i] = best + c.seconds
		path = max(path, longest[i])
		work += c.seconds * float64(c.need.cpu) / 1000
		devices += c.seconds * float64(c.need.gpu) / 1000
	}
	return path, work, devices
}

// fuse returns the linear paths of static function tasks that nothing else needs
// or feeds: fusing them can cost no parallelism. A task whose output is exported,
// a generator and a change of environment or resources end a path.
func (n *nodes) fuse() (paths [][]dag.TaskIndex) {
	const none = -1
	after := make([]int32, n.tasks) // what a task may be followed by
	inner := make([]bool, n.tasks)  // is the second of a fusable pair
	pairs, joins := 0, groupPairs{n: n}
	for a := range n.tasks {
		after[a] = none
		if next := n.next(int32(a)); len(next) == 1 && !n.exported[a] {
			if b := next[0].to; int(b) < n.tasks && n.missing[b] == 1 && joins.fusable(n.group[a], n.group[b]) {
				after[a], inner[b] = b, true
				pairs++
			}
		}
	}
	var saved []float64
	all := make([]dag.TaskIndex, 0, 2*pairs) // a path of p pairs has p+1 tasks
	for a := range n.tasks {
		if inner[a] || after[a] == none {
			continue
		}
		from, bytes := len(all), 0.0
		all = append(all, dag.TaskIndex(a))
		for at := int32(a); after[at] != none; at = after[at] {
			bytes += n.next(at)[0].bytes
			all = append(all, dag.TaskIndex(after[at]))
		}
		paths, saved = append(paths, all[from:len(all):len(all)]), append(saved, bytes)
	}
	order := make([]int, len(paths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(saved[b], saved[a]) })
	out := make([][]dag.TaskIndex, len(paths))
	for i, k := range order {
		out[i] = paths[k]
	}
	return out
}

// groupPairs tells which groups' tasks may follow each other on one executor. It
// remembers the last answer: tasks come group by group.
type groupPairs struct {
	n    *nodes
	a, b int32
	ok   bool
	any  bool
}

func (p *groupPairs) fusable(a, b int32) bool {
	if p.any && p.a == a && p.b == b {
		return p.ok
	}
	x, y := &p.n.g.Groups[a], &p.n.g.Groups[b]
	p.a, p.b, p.any = a, b, true
	p.ok = plain(x) && plain(y) && x.Run.Environment == y.Run.Environment && p.n.groups[a].shape == p.n.groups[b].shape
	return p.ok
}

func plain(g *dag.Group) bool {
	for i := range g.Outputs {
		if g.Outputs[i].Generate != dag.GenerateNone {
			return false
		}
	}
	return g.Run.Function != ""
}
