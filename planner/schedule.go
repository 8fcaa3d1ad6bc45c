package planner

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// scheduler runs the list schedule through predicted time. At each moment at
// which something ends, tasks that are ready take free hosts, highest rank first.
// Tasks of equal need wait in one heap: when its first fits nowhere, none does.
type scheduler struct {
	n       *nodes
	c       *Cluster
	free    []need // of each host
	bays    []bay  // of each host; nil when no task needs a device
	early   []bool // of each shape: it goes before all that needs no device; nil: none does
	ready   []rankHeap
	running endHeap
	left    []int32
	at      []place     // of each node
	parents [][]int32   // of each node that has any
	builds  [][]float64 // of each group, by host: when its environment is there; nil: at once
	able    [][]bool    // of each group, by host; nil: every host that has enough
	ends    []endHeap   // of each host: what runs there; nil on one host
	waits   []rankHeap  // of each host: what had rather wait for it than move its inputs
	eager   bool        // none waits for a host that is not free
	again   []int32     // hosts on which something has ended
}

type place struct {
	host   int32
	placed bool
	start  float64
	finish float64
	taken  float64 // when it took its place on the host: then its inputs move
	since  float64 // when its last input was there
	last   int32   // the producer of that, -1 none
	bytes  float64
}

func (n *nodes) schedule(c *Cluster, plan *Plan) {
	plan.CriticalPath, plan.Work, plan.DeviceWork = n.bounds()
	var cores, devices int64
	for i := range c.Hosts {
		cores += c.Hosts[i].CPU
		devices += c.Hosts[i].GPU
	}
	plan.LowerBound = plan.CriticalPath
	if cores > 0 {
		plan.LowerBound = max(plan.LowerBound, plan.Work*1000/float64(cores))
	}
	if devices > 0 {
		plan.LowerBound = max(plan.LowerBound, plan.DeviceWork*1000/float64(devices))
	}
	s := newScheduler(n, c)
	s.run()
	s.placements(plan)
}

func newScheduler(n *nodes, c *Cluster) *scheduler {
	s := &scheduler{n: n, c: c, bays: newBays(n, c), builds: c.builds(n.g), left: append([]int32(nil), n.missing...), at: make([]place, len(n.order))}
	shapes := 0
	for i := range n.groups {
		shapes = max(shapes, n.groups[i].shape+1)
	}
	s.ready = make([]rankHeap, shapes)
	for i := range s.ready {
		s.ready[i].rank = n.rank
	}
	for i := range c.Hosts {
		s.free = append(s.free, needOf(&c.Hosts[i]))
	}
	s.early = n.early(c, shapes)
	if len(c.Hosts) > 1 || n.g.NamesPlatforms() || s.bays != nil {
		s.able = n.able(c.Hosts)
	}
	if len(c.Hosts) > 1 {
		s.parents = make([][]int32, len(n.order))
		for i := range n.group {
			for _, e := range n.next(int32(i)) {
				s.parents[e.to] = append(s.parents[e.to], int32(i))
			}
		}
		s.ends, s.waits = make([]endHeap, len(c.Hosts)), make([]rankHeap, len(c.Hosts))
		for h := range s.waits {
			s.waits[h].rank = n.rank
		}
	}
	return s
}

func needOf(h *Host) need {
	n := need{cpu: h.CPU, memory: h.Memory, gpu: h.GPU}
	if n.memory == 0 {
		n.memory = math.MaxInt64
	}
	for _, name := range sortedNames(h.Custom) {
		n.custom = append(n.custom, amount{name, h.Custom[name]})
	}
	return n
}

func (h *need) fits(n *need) bool {
	if n.cpu > h.cpu || n.memory > h.memory || n.gpu > h.gpu {
		return false
	}
	for _, a := range n.custom {
		if have := h.amount(a.name); have == nil || *have < a.n {
			return false
		}
	}
	return true
}

func (h *need) amount(name string) *int64 {
	for i := range h.custom {
		if h.custom[i].name == name {
			return &h.custom[i].n
		}
	}
	return nil
}

// take occupies (sign 1) or releases (sign -1).
func (h *need) take(n *need, sign int64) {
	h.cpu -= sign * n.cpu
	h.memory -= sign * n.memory
	h.gpu -= sign * n.gpu
	for _, a := range n.custom {
		*h.amount(a.name) -= sign * a.n
	}
}

// fits tells whether a host has room now.
func (s *scheduler) fits(h int, n *need) bool {
	return s.free[h].fits(n) && (s.bays == nil || s.bays[h].fits(n.devices))
}

func (s *scheduler) occupy(i int32, h int) {
	n := &s.n.cost(int(i)).need
	s.free[h].take(n, 1)
	if s.bays != nil {
		s.bays[h].take(i, n.devices)
	}
}

func (s *scheduler) release(i, h int32) {
	n := &s.n.cost(int(i)).need
	s.free[h].take(n, -1)
	if s.bays != nil {
		s.bays[h].give(i, n.devices)
	}
}

func (s *scheduler) run() {
	for i, m := range s.left {
		if m == 0 {
			s.arrive(int32(i), 0, -1)
		}
	}
	now := 0.0
	for {
		s.start(now)
		if len(s.running) == 0 {
			return
		}
		now = s.running[0].at
		for len(s.running) > 0 && s.running[0].at == now {
			e := heap.Pop(&s.running).(ending)
			p := &s.at[e.node]
			s.release(e.node, p.host)
			if s.ends != nil {
				heap.Pop(&s.ends[p.host])
				s.again = append(s.again, p.host)
			}
			for _, next := range s.n.next(e.node) {
				if s.left[next.to]--; s.left[next.to] == 0 {
					s.arrive(next.to, now, e.node)
				}
			}
		}
		s.wakeWaiting()
	}
}

func (s *scheduler) arrive(i int32, now float64, last int32) {
	s.at[i] = place{since: now, last: last}
	heap.Push(&s.ready[s.n.cost(int(i)).shape], i)
}

// start places what can start now: of the heaps' first tasks the one of highest
// rank, until none fits. A shape that does not fit now fits at no rank.
func (s *scheduler) start(now float64) {
	full := make([]bool, len(s.ready))
	for {
		best := -1
		for k := range s.ready {
			if full[k] || s.ready[k].Len() == 0 {
				continue
			}
			if best < 0 || s.sooner(k, best) {
				best = k
			}
		}
		if best < 0 {
			return
		}
		i := s.ready[best].node[0]
		host, moved, bytes := s.choose(i, now)
		if host < 0 {
			full[best] = true
			continue
		}
		heap.Pop(&s.ready[best])
		if h := s.better(i, now, moved); h >= 0 {
			heap.Push(&s.waits[h], i)
			continue
		}
		c := s.n.cost(int(i))
		s.occupy(i, host)
		p := &s.at[i]
		p.host, p.placed, p.taken, p.start, p.bytes = int32(host), true, now, now+moved, bytes
		p.finish = p.start + c.seconds
		heap.Push(&s.running, ending{p.finish, i})
		if s.ends != nil {
			heap.Push(&s.ends[host], ending{p.finish, i})
		}
	}
}

// choose returns the free host on which a task can start first, ties by index, and
// after how many seconds; -1 when none is free.
func (s *scheduler) choose(i int32, now float64) (host int, moved, bytes float64) {
	host = -1
	c := s.n.cost(int(i))
	for h := range s.free {
		if !s.fits(h, &c.need) || !s.mayRun(i, h) {
			continue
		}
		m, b := s.transfer(i, h)
		m = max(m, s.built(i, h)-now)
		if host < 0 || m < moved {
			host, moved, bytes = h, m, b
		}
	}
	return host, moved, bytes
}

// sooner tells whether the first of a shape that are ready goes before that of another.
func (s *scheduler) sooner(a, b int) bool {
	if s.early != nil && s.early[a] != s.early[b] {
		return s.early[a]
	}
	return s.ready[a].before(s.ready[a].node[0], s.ready[b].node[0])
}

// built returns when the environment of a task is on a host.
func (s *scheduler) built(i int32, h int) float64 {
	if s.builds == nil || s.builds[s.n.group[i]] == nil {
		return 0
	}
	return s.builds[s.n.group[i]][h]
}

// transfer returns the seconds and bytes of moving a task's inputs to a host.
func (s *scheduler) transfer(i int32, h int) (seconds, bytes float64) {
	if s.parents == nil {
		return 0, 0
	}
	for _, p := range s.parents[i] {
		if int(s.at[p].host) == h {
			continue
		}
		edges := s.n.next(p)
		k, _ := slices.BinarySearchFunc(edges, i, func(e edge, to int32) int { return cmp.Compare(e.to, to) })
		bytes += edges[k].bytes
		seconds += s.c.transfer(s.at[p].host, int32(h), edges[k].bytes)
	}
	return seconds, bytes
}

// placements turns what the schedule found into the plan.
func (s *scheduler) placements(plan *Plan) {
	blocked := make([]int32, len(s.at)) // a producer that is not placed, plus one
	for _, i := range s.n.order {
		if s.at[i].placed {
			continue
		}
		for _, e := range s.n.next(i) {
			if blocked[e.to] == 0 {
				blocked[e.to] = i + 1
			}
		}
	}
	for i := range s.at {
		p := s.placement(i, blocked[i]-1)
		plan.Makespan = max(plan.Makespan, p.Finish)
		if i < s.n.tasks {
			plan.Tasks[i] = p
		}
	}
}

func (s *scheduler) placement(i int, blockedBy int32) Placement {
	p := &s.at[i]
	switch {
	case !p.placed && len(s.c.Hosts) == 0:
		return Placement{Host: -1, why: whyNoHosts}
	case !p.placed && blockedBy >= 0:
		return Placement{Host: -1, why: whyBlocked, other: dag.TaskIndex(blockedBy)}
	case !p.placed:
		return Placement{Host: -1, why: whyTooBig}
	}
	out := Placement{Host: int(p.host), Start: p.start, Finish: p.finish, bytes: p.bytes, why: whyFirst}
	at := s.built(int32(i), int(p.host))
	out.built = at > 0 && math.Abs(p.start-at) < instant
	switch {
	case p.taken > p.since:
		out.why, out.wait = whyQueued, p.taken-p.since
	case p.last >= 0:
		out.why, out.other = whyAfter, dag.TaskIndex(p.last)
	}
	return out
}

// rankHeap orders nodes by rank, highest first, ties by number.
type rankHeap struct {
	rank []float64
	node []int32
}

func (h *rankHeap) before(a, b int32) bool {
	if h.rank[a] != h.rank[b] {
		return h.rank[a] > h.rank[b]
	}
	return a < b
}

// Len is part of heap.Interface.
func (h *rankHeap) Len() int { return len(h.node) }

// Less is part of heap.Interface.
func (h *rankHeap) Less(i, j int) bool { return h.before(h.node[i], h.node[j]) }

// Swap is part of heap.Interface.
func (h *rankHeap) Swap(i, j int) { h.node[i], h.node[j] = h.node[j], h.node[i] }

// Push is part of heap.Interface.
func (h *rankHeap) Push(x any) { h.node = append(h.node, x.(int32)) }

// Pop is part of heap.Interface.
func (h *rankHeap) Pop() any {
	x := h.node[len(h.node)-1]
	h.node = h.node[:len(h.node)-1]
	return x
}

type ending struct {
	at   float64
	node int32
}

// endHeap orders what runs by its end, ties by number.
type endHeap []ending

// Len is part of heap.Interface.
func (h endHeap) Len() int { return len(h) }

// Less is part of heap.Interface.
func (h endHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].node < h[j].node
}

// Swap is part of heap.Interface.
func (h endHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is part of heap.Interface.
func (h *endHeap) Push(x any) { *h = append(*h, x.(ending)) }

// Pop is part of heap.Interface.
func (h *endHeap) Pop() any {
	x := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return x
}
