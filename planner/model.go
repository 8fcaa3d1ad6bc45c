package planner

import (
	"cmp"
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// model is what a simulation needs of graph, profiles and cluster, as arrays.
type model struct {
	n         *nodes
	c         *Cluster
	seconds   []float64         // of each node
	shape     []int32           // of each node: its needs are equal to those of its shape
	needs     [][]int64         // of each shape, by kind of resource
	room      [][]int64         // of each host
	devices   []deviceNeed      // of each shape
	able      [][]bool          // of each group, by host
	builds    [][]float64       // of each group, by host: when its environment is there; nil: at once
	generate  []int32           // of a streamed node the generator, on whose host it runs; else -1
	followers map[int32][]int32 // of a generator its streamed nodes
	data      []datum           // sorted by producer
	made      []int32           // of each node, the first of its data; one more at the end
	takes     [][]int32         // of each node, the data that it takes, each once
	limit     []float64         // of each host: bytes for datasets, and for tasks unless apart
	apart     []int64           // of each host: bytes for tasks alone; nil in a Whole cluster
	tight     bool              // a job may need more than that
	beyond    bool              // stores do not count, as a node needs more than any has
	total     []float64         // when it is: bytes that each node needs at least
}

// datum is a dataset, or all elements of an output together.
type datum struct {
	producer int32
	bytes    float64
	takers   []int32 // nodes, sorted, each once
}

func newModel(n *nodes, c *Cluster) *model {
	size := len(n.order)
	m := &model{n: n, c: c, seconds: make([]float64, size), shape: make([]int32, size), generate: make([]int32, size),
		able: n.able(c.Hosts), builds: c.builds(n.g), made: make([]int32, size+1), takes: make([][]int32, size), followers: map[int32][]int32{}}
	for i := range size {
		cost := n.cost(i)
		m.seconds[i], m.shape[i], m.generate[i] = cost.seconds, int32(cost.shape), -1
		if st := n.g.Groups[n.group[i]].Stream; st != nil && i >= n.tasks {
			m.generate[i] = int32(st.Generator)
			m.followers[m.generate[i]] = append(m.followers[m.generate[i]], int32(i))
		}
		m.made[i] = int32(len(m.data))
		m.outputs(int32(i))
	}
	m.made[size] = int32(len(m.data))
	for d := range m.data {
		for _, i := range m.data[d].takers {
			m.takes[i] = append(m.takes[i], int32(d))
		}
	}
	m.resources()
	m.limits()
	return m
}

// outputs adds the outputs of a node that others read.
func (m *model) outputs(i int32) {
	g, t := m.n.g, dag.TaskIndex(i)
	group := g.Group(t)
	type part struct {
		output  uint32
		element uint64 // of a generator, from 1; 0 is all of the output
		taker   int32
	}
	var parts []part
	for _, e := range g.Consumers(t) {
		p := part{output: e.Output, taker: int32(e.Consumer)}
		if group.Outputs[e.Output].Generate != dag.GenerateNone && e.Kind == dag.SourceElement {
			p.element = e.Element + 1
		}
		parts = append(parts, p)
	}
	for o := range group.Outputs {
		for _, s := range g.StreamSlots(t, uint32(o)) {
			parts = append(parts, part{output: uint32(o), taker: int32(m.n.tasks + s)})
		}
		for _, s := range g.SlotConsumers(t, uint32(o)) {
			parts = append(parts, part{output: uint32(o), taker: int32(m.n.tasks + s)})
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.output, b.output), cmp.Compare(a.element, b.element), cmp.Compare(a.taker, b.taker))
	})
	bytes := m.n.cost(int(i)).bytes
	var before part
	for k, p := range slices.Compact(parts) {
		if k == 0 || p.output != before.output || p.element != before.element {
			size := bytes[p.output]
			if p.element > 0 {
				size /= float64(max(group.Outputs[p.output].Count, 1))
			}
			m.data = append(m.data, datum{producer: i, bytes: size})
		}
		d := &m.data[len(m.data)-1]
		d.takers = append(d.takers, p.taker)
		before = p
	}
}

// resources turns needs and hosts into amounts by kind: cores, memory, devices,
// then those of the job's own.
func (m *model) resources() {
	kinds := map[string]int{}
	for i := range m.n.groups {
		for _, a := range m.n.groups[i].need.custom {
			if _, ok := kinds[a.name]; !ok {
				kinds[a.name] = 3 + len(kinds)
			}
		}
	}
	amounts := func(n *need) []int64 {
		v := make([]int64, 3+len(kinds))
		v[0], v[1], v[2] = n.cpu, n.memory, n.gpu
		for _, a := range n.custom {
			if k, ok := kinds[a.name]; ok {
				v[k] = a.n
			}
		}
		return v
	}
	for i := range m.n.groups {
		for len(m.needs) <= m.n.groups[i].shape {
			m.needs, m.devices = append(m.needs, nil), append(m.devices, deviceNeed{})
		}
		m.needs[m.n.groups[i].shape] = amounts(&m.n.groups[i].need)
		m.devices[m.n.groups[i].shape] = m.n.groups[i].need.devices
	}
	for h := range m.c.Hosts {
		room := needOf(&m.c.Hosts[h])
		m.room = append(m.room, amounts(&room))
	}
}

// mayRun tells whether a node may run on a host. One that follows a generator
// follows it there, and is not asked for.
func (m *model) mayRun(i int32, h int) bool {
	return m.able[m.n.group[i]][h] && (!m.tight || m.total[i] <= m.limit[h])
}

// built returns when the environment of a node is on a host.
func (m *model) built(i, h int32) float64 {
	if m.builds == nil || h < 0 || m.builds[m.n.group[i]] == nil {
		return 0
	}
	return m.builds[m.n.group[i]][h]
}

func within(need, room []int64) bool {
	for k, n := range need {
		if n > room[k] {
			return false
		}
	}
	return true
}

func add(room, need []int64, sign int64) {
	for k, n := range need {
		room[k] += sign * n
	}
}
