package planner

import (
	"math"
	"slices"
	"sort"

	"github.com/cascade-run/cascade/dag"
)

// spillRate is assumed for reading back what was spilled, in bytes a second.
const spillRate = 5e8

// HostMemory is what a contended plan keeps in memory on a host: the peaks of
// tasks that run, datasets that are still needed, and transfers on their way.
type HostMemory struct {
	Peak   float64 // bytes, of all at one time
	Limit  float64 // bytes of the host; 0 unknown
	Over   []Use   // over time: each holds until the next
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
type memory struct {
	m      *model
	d      decision
	used   []float64 // of each host: what cannot be spilled now
	rest   []float64 // datasets that can
	copies map[int64]*kept
	on     [][]*kept // of each host
	held   [][]int32 // of each host, transfers that wait for room
	record bool
	hosts  []HostMemory
}

// kept is a copy of a datum on a host.
type kept struct {
	datum, host int32
	pins        int
	left        int // readers and transfers to come; an output of the job is never let go
	spilled     bool
	spill       int // of those of the host, while spilled
}

func newMemory(m *model) *memory {
	n := len(m.room)
	return &memory{m: m, used: make([]float64, n), rest: make([]float64, n), copies: map[int64]*kept{}, on: make([][]*kept, n), held: make([][]int32, n)}
}

func (y *memory) reset(d decision) {
	y.d = d
	clear(y.copies)
	y.hosts = make([]HostMemory, len(y.used))
	for h := range y.used {
		y.used[h], y.rest[h], y.on[h], y.held[h] = 0, 0, y.on[h][:0], y.held[h][:0]
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
	need := y.used[h] + y.m.peak(i) + y.m.makes(i)
	for _, d := range y.m.takes[i] {
		if k := y.of(d, h); k == nil || k.pins == 0 || k.spilled {
			need += y.m.data[d].bytes
		}
	}
	return need <= y.m.limit[h]
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
	y.used[h] += y.m.peak(i) + y.m.makes(i)
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
	y.drop(k)
}

// drop forgets a copy that nobody needs any more.
func (y *memory) drop(k *kept) {
	if k.left > 0 || k.pins > 0 {
		return
	}
	if !k.spilled {
		y.rest[k.host] -= y.m.data[k.datum].bytes
	}
	delete(y.copies, int64(k.datum)*int64(len(y.used))+int64(k.host))
	at := slices.Index(y.on[k.host], k)
	y.on[k.host] = slices.Delete(y.on[k.host], at, at+1)
}

// end ends a node: its outputs are there as long as somebody needs them.
func (y *memory) end(i, h int32, now float64) {
	for _, d := range y.m.takes[i] {
		y.unpin(y.of(d, h))
	}
	y.used[h] -= y.m.peak(i) + y.m.makes(i)
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
	k := &kept{datum: d, host: h, left: left}
	y.copies[int64(d)*int64(len(y.used))+int64(h)] = k
	y.on[h] = append(y.on[h], k)
	y.rest[h] += y.m.data[d].bytes
}

// send begins a transfer, or lets it wait for room.
func (y *memory) send(k int32, t transfer, now float64) bool {
	bytes := y.m.data[t.datum].bytes
	if y.used[t.to]+bytes > y.m.limit[t.to] {
		y.held[t.to] = append(y.held[t.to], k)
		return false
	}
	y.pin(y.of(t.datum, t.from))
	y.used[t.to] += bytes
	y.settle(t.to, now)
	y.settle(t.from, now)
	return true
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
		var last *kept
		for _, k := range y.on[h] {
			if k.pins == 0 && !k.spilled && y.m.data[k.datum].bytes > 0 && (last == nil || y.turn(k) < y.turn(last)) {
				last = k
			}
		}
		if last == nil {
			break // the rest is rounding
		}
		bytes := y.m.data[last.datum].bytes
		y.rest[h] -= bytes
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

// turn is the highest of those who have yet to read a copy here.
func (y *memory) turn(k *kept) float64 {
	first := math.Inf(-1)
	for _, t := range y.m.data[k.datum].takers {
		if y.d.host[t] == k.host {
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

// makes is the bytes of all outputs of a node that are taken, or exported.
func (m *model) makes(i int32) (bytes float64) {
	for d := m.made[i]; d < m.made[i+1]; d++ {
		bytes += m.data[d].bytes
	}
	return bytes
}

// limits finds what hosts have for tasks and datasets together, and whether a job
// may need more.
func (m *model) limits() {
	m.limit = slices.Repeat([]float64{math.MaxFloat64}, len(m.c.Hosts))
	if !m.c.Whole {
		return
	}
	all, peak, cpu := 0.0, 0.0, int64(math.MaxInt64)
	for d := range m.data {
		all += m.data[d].bytes
	}
	for i := range m.n.groups {
		peak = max(peak, m.n.groups[i].peak)
		cpu = min(cpu, max(m.n.groups[i].need.cpu, 1))
	}
	for h := range m.c.Hosts {
		if has := float64(m.c.Hosts[h].Memory); has > 0 {
			m.limit[h] = has
			// A datum is once on a host, and another time on its way there.
			m.tight = m.tight || 2*all+peak*float64(m.c.Hosts[h].CPU/cpu+1) > has
		}
	}
	if !m.tight {
		return
	}
	m.total = make([]float64, len(m.seconds))
	for i := range m.total {
		m.total[i] = m.peak(int32(i)) + m.makes(int32(i))
		for _, d := range m.takes[i] {
			m.total[i] += m.data[d].bytes
		}
	}
	for i, all := range m.followers {
		for _, k := range all {
			m.total[i] = max(m.total[i], m.total[k])
		}
	}
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
