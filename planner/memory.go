package planner

import (
	"math"
	"slices"
	"sort"

	"github.com/cascade-run/cascade/dag"
)

// unknownMemory is what a host is taken to have for tasks that does not say: sums stay below it.
const unknownMemory = 1 << 60

// spillRate is assumed for reading back what was spilled, in bytes a second.
const spillRate = 5e8

// HostMemory is what a contended plan keeps in memory on a host: the peaks of
// tasks that run, datasets that are still needed, and transfers on their way. Where
// tasks have an amount of their own, Peak, Limit and Over are without their peaks.
type HostMemory struct {
	Peak   float64 // bytes, of all at one time
	Limit  float64 // bytes of the host, or of its store; 0 unknown
	Tasks  int64   // bytes, of the peaks of tasks at one time, where they are not part of Peak
	Over   []Use   // over time: each holds until the next; of a plan for a Whole cluster
	Spills []Spill
}

// Use is what is in memory from a time on, in bytes.
type Use struct{ At, Bytes float64 }

// Spill is a dataset that must leave memory for a while, as more is needed at one
// time than the host has. Back is when it is read again; -1 never: it is an output of the job.
type Spill struct {
	Task     dag.TaskIndex
	Bytes    float64
	At, Back float64
}

// memory counts while a decision is played what its hosts hold. A task starts only
// when its peak, its outputs and its inputs fit beside those of tasks that run and
// what is on its way; a transfer waits for room, too. Other datasets are spilled
// when there is not enough for them, first those whose next taker goes last: as
// Belady, A study of replacement algorithms (IBM Systems Journal 1966), by turns
// instead of times.
//
// Where a host has a store of its own for datasets, the peaks of tasks are added up
// beside it, and what is said of room is said of both.
type memory struct {
	m       *model
	d       decision
	used    []float64 // of each host: what cannot be spilled now
	rest    []float64 // datasets that can
	tasks   []int64   // of each host: peaks of what runs, where they are no part of used
	copies  map[int64]*kept
	all     []*kept   // also those that are there no more
	idle    []queue   // of each host, copies by turn: those that can be spilled, and some that no longer can
	held    [][]int32 // of each host, transfers that wait for room
	spilled float64   // bytes
	record  bool
	hosts   []HostMemory
}

// kept is a copy of a datum on a host.
type kept struct {
	number      int32 // among all
	datum, host int32
	pins        int
	left        int     // readers and transfers to come; an output of the job is never let go
	turn        float64 // the highest of its readers here
	queued      bool    // it is in idle
	spilled     bool
	spill       int // of those of the host, while spilled
}

func newMemory(m *model) *memory {
	n := len(m.room)
	return &memory{m: m, used: make([]float64, n), rest: make([]float64, n), tasks: make([]int64, n), copies: map[int64]*kept{}, idle: make([]queue, n), held: make([][]int32, n)}
}

func (y *memory) reset(d decision) {
	y.d, y.all, y.spilled = d, y.all[:0], 0
	clear(y.copies)
	y.hosts = make([]HostMemory, len(y.used))
	for h := range y.used {
		y.used[h], y.rest[h], y.tasks[h], y.held[h] = 0, 0, 0, y.held[h][:0]
		y.idle[h].clear()
		if y.m.limit[h] < math.MaxFloat64 {
			y.hosts[h].Limit = y.m.limit[h]
		}
	}
}

func (y *memory) of(datum, host int32) *kept {
	return y.copies[int64(datum)*int64(len(y.used))+int64(host)]
}

// fits tells whether a node can start beside what cannot be spilled.
func (y *memory) fits(i, h int32) bool {
	if y.m.apart != nil && y.tasks[h]+y.m.own(i, h) > y.m.apart[h] {
		return false
	}
	need := y.used[h] + y.m.fixed(i)
	for _, d := range y.m.takes[i] {
		if k := y.of(d, h); k == nil || k.pins == 0 || k.spilled {
			need += y.m.data[d].bytes
		}
	}
	return need <= y.m.limit[h]*(1+rounding)
}

// begin starts a node, and returns how many seconds it waits for inputs that come
// back from disk.
func (y *memory) begin(i, h int32, now float64) (wait float64) {
	for _, d := range y.m.takes[i] {
		k := y.of(d, h)
		if k.spilled {
			k.spilled = false
			y.hosts[h].Spills[k.spill].Back = now
			wait += y.m.data[d].bytes / spillRate
			if k.pins == 0 {
				y.rest[h] += y.m.data[d].bytes
			} else { // it is being sent, from disk
				y.used[h] += y.m.data[d].bytes
			}
		}
		y.pin(k)
	}
	y.used[h] += y.m.fixed(i)
	if y.m.apart != nil {
		y.tasks[h] += y.m.own(i, h)
		y.hosts[h].Tasks = max(y.hosts[h].Tasks, y.tasks[h])
	}
	y.settle(h, now)
	return wait
}

func (y *memory) pin(k *kept) {
	if k.pins++; k.pins == 1 && !k.spilled {
		bytes := y.m.data[k.datum].bytes
		y.used[k.host] += bytes
		y.rest[k.host] -= bytes
	}
}

// unpin ends a use for good.
func (y *memory) unpin(k *kept) {
	k.left--
	if k.pins--; k.pins > 0 {
		return
	}
	bytes := y.m.data[k.datum].bytes
	if !k.spilled {
		y.used[k.host] -= bytes
		y.rest[k.host] += bytes
	}
	if y.drop(k); k.left > 0 {
		y.idles(k)
	}
}

// drop drops a copy that no task needs any more.
func (y *memory) drop(k *kept) {
	if k.left > 0 || k.pins > 0 {
		return
	}
	if !k.spilled {
		y.rest[k.host] -= y.m.data[k.datum].bytes
	}
	delete(y.copies, int64(k.datum)*int64(len(y.used))+int64(k.host))
}

// idles says of a copy that no task uses it now.
func (y *memory) idles(k *kept) {
	if !k.queued && !k.spilled && y.m.data[k.datum].bytes > 0 {
		k.queued = true
		y.idle[k.host].push(k.turn, k.number)
	}
}

// last takes the copy that is spilled next; nil when there is none.
func (y *memory) last(h int32) *kept {
	for q := &y.idle[h]; q.len() > 0; {
		k := y.all[q.pop()]
		if k.queued = false; k.pins == 0 && k.left > 0 && !k.spilled {
			return k
		}
	}
	return nil
}

// end ends a node: its outputs are there as long as a task needs them.
func (y *memory) end(i, h int32, now float64) {
	for _, d := range y.m.takes[i] {
		y.unpin(y.of(d, h))
	}
	y.used[h] -= y.m.fixed(i)
	if y.m.apart != nil {
		y.tasks[h] -= y.m.own(i, h)
	}
	for d := y.m.made[i]; d < y.m.made[i+1]; d++ {
		left := 0
		var to []int32
		for _, t := range y.m.data[d].takers {
			switch at := y.d.host[t]; {
			case at == h:
				left++
			case at >= 0 && !slices.Contains(to, at):
				to = append(to, at)
			}
		}
		if left += len(to); y.m.n.exported[i] {
			left += math.MaxInt32
		}
		y.keep(d, h, left)
	}
	y.settle(h, now)
}

func (y *memory) keep(d, h int32, left int) {
	if left == 0 {
		return
	}
	k := &kept{number: int32(len(y.all)), datum: d, host: h, left: left, turn: y.turn(d, h)}
	y.copies[int64(d)*int64(len(y.used))+int64(h)] = k
	y.all = append(y.all, k)
	y.rest[h] += y.m.data[d].bytes
	y.idles(k)
}

// send begins a transfer, or lets it wait for room.
func (y *memory) send(k int32, t transfer, now float64) bool {
	bytes := y.m.data[t.datum].bytes
	if !y.room(t) {
		y.held[t.to] = append(y.held[t.to], k)
		return false
	}
	y.pin(y.of(t.datum, t.from))
	y.used[t.to] += bytes
	y.settle(t.to, now)
	y.settle(t.from, now)
	return true
}

// room tells whether what a transfer brings has room now.
func (y *memory) room(t transfer) bool {
	return y.used[t.to]+y.m.data[t.datum].bytes <= y.m.limit[t.to]*(1+rounding)
}

// received ends a transfer.
func (y *memory) received(t transfer, now float64) {
	y.unpin(y.of(t.datum, t.from))
	y.used[t.to] -= y.m.data[t.datum].bytes
	left := 0
	for _, taker := range y.m.data[t.datum].takers {
		if y.d.host[taker] == t.to {
			left++
		}
	}
	y.keep(t.datum, t.to, left)
	y.settle(t.to, now)
	y.settle(t.from, now)
}

// settle spills what there is no room for, and notes what is there.
func (y *memory) settle(h int32, now float64) {
	limit := y.m.limit[h]
	for y.used[h]+y.rest[h] > limit*(1+rounding) {
		last := y.last(h)
		if last == nil {
			break // the rest is rounding
		}
		bytes := y.m.data[last.datum].bytes
		y.rest[h] -= bytes
		y.spilled += bytes
		last.spilled, last.spill = true, len(y.hosts[h].Spills)
		y.hosts[h].Spills = append(y.hosts[h].Spills, Spill{dag.TaskIndex(y.m.data[last.datum].producer), bytes, now, -1})
	}
	o := &y.hosts[h]
	bytes := max(y.used[h]+y.rest[h], 0)
	o.Peak = max(o.Peak, bytes)
	if n := len(o.Over); !y.record || n > 0 && o.Over[n-1].Bytes == bytes {
		return
	} else if n > 0 && o.Over[n-1].At == now {
		o.Over[n-1].Bytes = bytes
		return
	}
	o.Over = append(o.Over, Use{now, bytes})
}

// turn is the highest of those who read a datum on a host.
func (y *memory) turn(datum, host int32) float64 {
	first := math.Inf(-1)
	for _, t := range y.m.data[datum].takers {
		if y.d.host[t] == host {
			first = max(first, y.d.first[t])
		}
	}
	return first
}

// Using returns what is in memory at a time.
func (m *HostMemory) Using(at float64) float64 {
	i := sort.Search(len(m.Over), func(i int) bool { return m.Over[i].At > at })
	if i == 0 {
		return 0
	}
	return m.Over[i-1].Bytes
}

// peak is the private memory of a node: what it reserves, or what it is known to take.
func (m *model) peak(i int32) float64 { return m.n.cost(int(i)).peak }

// fixed is what a node holds beside its inputs where datasets are, which cannot be
// spilled: its outputs, and its peak where that has no amount of its own.
func (m *model) fixed(i int32) float64 {
	if m.apart != nil {
		return m.makes(i)
	}
	return m.peak(i) + m.makes(i)
}

// own is what a node holds of what a host has for tasks alone. One that is predicted to
// take more than all of it, which the graph does not say, has all of it: predictions err.
func (m *model) own(i, h int32) int64 { return int64(min(math.Ceil(m.peak(i)), float64(m.apart[h]))) }

// makes is the bytes of all outputs of a node that are taken, or exported.
func (m *model) makes(i int32) (bytes float64) {
	for d := m.made[i]; d < m.made[i+1]; d++ {
		bytes += m.data[d].bytes
	}
	return bytes
}

// limits finds what hosts have for datasets, with tasks or apart from them, and whether
// a job may need more.
func (m *model) limits() {
	m.limit = slices.Repeat([]float64{math.MaxFloat64}, len(m.c.Hosts))
	all, peak, cpu := 0.0, 0.0, int64(math.MaxInt64)
	for d := range m.data {
		all += m.data[d].bytes
	}
	for i := range m.n.groups {
		peak = max(peak, m.n.groups[i].peak)
		cpu = min(cpu, max(m.n.groups[i].need.cpu, 1))
	}
	if !m.c.Whole {
		m.apart = slices.Repeat([]int64{unknownMemory}, len(m.c.Hosts))
	}
	for h := range m.c.Hosts {
		host := &m.c.Hosts[h]
		// A datum is once on a host, and another time on its way there.
		data, tasks := 2*all, peak*float64(host.CPU/cpu+1)
		switch {
		case m.c.Whole && host.Memory > 0:
			m.limit[h] = float64(host.Memory)
			m.tight = m.tight || data+tasks > m.limit[h]
		case !m.c.Whole && host.Store > 0:
			m.limit[h] = float64(host.Store)
			m.tight = m.tight || data > m.limit[h]
			if host.Memory > 0 {
				m.apart[h] = host.Memory
				m.tight = m.tight || tasks > float64(host.Memory)
			}
		}
	}
	if !m.tight {
		return
	}
	m.total = make([]float64, len(m.seconds))
	for i := range m.total {
		m.total[i] = m.fixed(int32(i))
		for _, d := range m.takes[i] {
			m.total[i] += m.data[d].bytes
		}
	}
	for i, all := range m.followers {
		for _, k := range all {
			m.total[i] = max(m.total[i], m.total[k])
		}
	}
	m.beyond = !m.c.Whole && !m.eachFits()
	m.tight = !m.beyond
}

// eachFits tells whether no store is the reason that a node has no host. Where one is,
// stores do not count: sizes are predictions, and what no plan can keep within them is left
// to agents.
func (m *model) eachFits() bool {
	for i := range m.total {
		able := m.able[m.n.group[i]]
		if m.generate[i] >= 0 || !slices.Contains(able, true) {
			continue
		}
		fits := false
		for h := range able {
			fits = fits || able[h] && m.total[i] <= m.limit[h]
		}
		if !fits {
			return false
		}
	}
	return true
}

// suit takes nodes away from hosts on which they cannot run, to the first on which
// they can, or to none; and those that need them.
func (m *model) suit(p *portfolio, host []int32) {
	if !m.tight {
		return
	}
	for _, i := range m.n.order {
		switch g := m.generate[i]; {
		case !p.can[i]:
			host[i] = -1
		case g >= 0:
			host[i] = host[g]
		case host[i] < 0 || !m.mayRun(i, int(host[i])):
			host[i] = -1
			for h := range m.room {
				if m.mayRun(i, h) {
					host[i] = int32(h)
					break
				}
			}
		}
	}
}
