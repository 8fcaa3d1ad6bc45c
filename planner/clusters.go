package planner

import (
	"cmp"
	"slices"
)

// clusters joins tasks along the heaviest data first, as edge zeroing of Sarkar
// (Partitioning and Scheduling Parallel Programs for Multiprocessors, 1989), as
// long as the work of those joined is no more than a host's share, and then gives
// each cluster to the host on which it adds least.
func (p *portfolio) clusters() []int32 {
	m := p.m
	u := newUnion(m, p.order)
	type edge struct {
		bytes float64
		a, b  int32
	}
	var edges []edge
	for d := range m.data {
		for _, taker := range m.data[d].takers {
			if p.can[taker] {
				edges = append(edges, edge{m.data[d].bytes, m.data[d].producer, taker})
			}
		}
	}
	slices.SortFunc(edges, func(x, y edge) int {
		return cmp.Or(cmp.Compare(y.bytes, x.bytes), cmp.Compare(x.a, y.a), cmp.Compare(x.b, y.b))
	})
	var cores, most, work float64
	for h := range m.room {
		cores, most = cores+float64(m.room[h][0]), max(most, float64(m.room[h][0]))
	}
	for _, i := range p.order {
		work += u.work[i]
		if g := m.generate[i]; g >= 0 {
			u.join(i, g, 0)
		}
	}
	share := work * most / cores
	for _, e := range edges {
		u.join(e.a, e.b, share)
	}
	return p.spread(u)
}

// spread gives clusters to hosts, those with most work first.
func (p *portfolio) spread(u *union) []int32 {
	m, members := p.m, map[int32][]int32{}
	var roots []int32
	for _, i := range p.order {
		r := u.root(i)
		if members[r] == nil {
			roots = append(roots, r)
		}
		members[r] = append(members[r], i)
	}
	slices.SortStableFunc(roots, func(a, b int32) int { return cmp.Compare(u.work[b], u.work[a]) })
	host, load := p.nowhere(), make([]float64, len(m.room))
	for _, r := range roots {
		far := newDistance(m.c)
		for _, i := range members[r] {
			for _, d := range m.takes[i] {
				if h := host[m.data[d].producer]; h >= 0 {
					far.takes(h, m.data[d].bytes)
				}
			}
			for k := m.made[i]; k < m.made[i+1]; k++ {
				for _, taker := range m.data[k].takers {
					if h := host[taker]; h >= 0 {
						far.makes(h, m.data[k].bytes)
					}
				}
			}
		}
		best, bestCost := -1, 0.0
		for h := range m.room {
			if !u.able[r][h] {
				continue
			}
			cost := (load[h]+u.work[r])/float64(m.room[h][0]) + far.from(h)
			if best < 0 || cost < bestCost {
				best, bestCost = h, cost
			}
		}
		load[best] += u.work[r]
		for _, i := range members[r] {
			host[i] = int32(best)
		}
	}
	return host
}

// distance is how far a cluster of tasks is from what each host has.
type distance struct {
	c         *Cluster
	in, out   []float64 // bytes from each host, and to it
	all       float64
	neighbour []int32 // hosts with any
}

func newDistance(c *Cluster) *distance {
	return &distance{c: c, in: make([]float64, len(c.Hosts)), out: make([]float64, len(c.Hosts))}
}

func (d *distance) meet(h int32, bytes float64) {
	if d.in[h] == 0 && d.out[h] == 0 {
		d.neighbour = append(d.neighbour, h)
	}
	d.all += bytes
}

// takes adds bytes that the cluster takes from a host.
func (d *distance) takes(h int32, bytes float64) {
	d.meet(h, bytes)
	d.in[h] += bytes
}

// makes adds bytes that a host takes from the cluster.
func (d *distance) makes(h int32, bytes float64) {
	d.meet(h, bytes)
	d.out[h] += bytes
}

// from returns the seconds that all of these bytes take if the cluster is on a host.
func (d *distance) from(h int) (seconds float64) {
	if d.c.ways == nil {
		return (d.all - d.in[h] - d.out[h]) / d.c.Bandwidth
	}
	for _, k := range d.neighbour {
		if int(k) != h {
			seconds += d.in[k]*d.c.perByte(k, int32(h)) + d.out[k]*d.c.perByte(int32(h), k)
		}
	}
	return seconds
}

// union is a partition of nodes (union by size, with path halving).
type union struct {
	up   []int32
	size []int32
	work []float64 // of a root: seconds times thousandths of cores
	able [][]bool  // of a root: hosts on which all may run
}

func newUnion(m *model, order []int32) *union {
	u := &union{up: make([]int32, len(m.seconds)), size: make([]int32, len(m.seconds)), work: make([]float64, len(m.seconds)), able: make([][]bool, len(m.seconds))}
	for _, i := range order {
		u.up[i], u.size[i], u.work[i] = i, 1, m.seconds[i]*float64(m.needs[m.shape[i]][0])
		u.able[i] = m.able[m.n.group[i]]
	}
	return u
}

func (u *union) root(i int32) int32 {
	for u.up[i] != i {
		u.up[i] = u.up[u.up[i]]
		i = u.up[i]
	}
	return i
}

// join joins two clusters when a host may run both and their work is within a
// bound; 0 is none.
func (u *union) join(a, b int32, most float64) {
	a, b = u.root(a), u.root(b)
	if a == b || most > 0 && u.work[a]+u.work[b] > most {
		return
	}
	able := make([]bool, len(u.able[a]))
	for h := range able {
		able[h] = u.able[a][h] && u.able[b][h]
	}
	if !slices.Contains(able, true) {
		return
	}
	if u.size[a] < u.size[b] {
		a, b = b, a
	}
	u.up[b] = a
	u.size[a] += u.size[b]
	u.work[a] += u.work[b]
	u.able[a] = able
}
