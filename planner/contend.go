package planner

import (
	"math"
)

// Events within an instant, in seconds, or within the rounding of what they are
// sums of, count as one: sums of floating numbers that should be equal are not.
const (
	instant  = 1e-9
	rounding = 1e-12
)

// decision is what a search looks for: where each node runs, and who goes first.
type decision struct {
	host  []int32   // of each node; -1: it cannot run
	first []float64 // of each node: higher goes first where several wait for a place
}

// contention plays a decision through predicted time. A node is ready when all it
// takes is on its host; of those that are ready and fit, the highest starts. A
// datum goes to each host where it is taken, once, as soon as it is there, and
// shares the bandwidth with what else moves.
//
// One run takes O((n+e) log n) time, and O(hosts+routes) for each change of what
// moves; its memory is used again by the next.
type contention struct {
	m         *model
	d         decision
	limit     float64 // where a run may stop, as it is not the best
	now       float64
	net       *network
	room      [][]int64
	bays      []bay     // of each host; nil when no node needs a device
	left      []int32   // of each node: data that are not there yet
	wait      [][]queue // of each host, by shape
	some      [][]int32 // of each host: shapes of which some wait
	ends      queue     // nodes by the time at which they end
	built     queue     // nodes by the time at which their environment is there, if not from the start
	late      queue     // transfers by the time at which they begin to use bandwidth
	transfers []transfer
	arrived   []int32
	run       []span
	makespan  float64
	bytes     float64 // moved
	ended     int     // nodes
	mem       *memory // nil when there is enough for all
}

type transfer struct {
	datum    int32
	from, to int32
	began    float64 // to use bandwidth
	ended    float64
}

// span is one node in a run.
type span struct {
	ready  float64 // when the last that it takes was there
	start  float64
	finish float64
	last   int32   // who made that, -1 none
	moved  float64 // bytes that were moved for it, by the first that takes them
}

func newContention(m *model) *contention {
	hosts, size := len(m.c.Hosts), len(m.seconds)
	s := &contention{m: m, net: newNetwork(m.c), bays: newBays(m.n, m.c), left: make([]int32, size), run: make([]span, size)}
	for range hosts {
		s.room = append(s.room, make([]int64, len(m.room[0])))
		s.wait = append(s.wait, make([]queue, len(m.needs)))
		s.some = append(s.some, nil)
	}
	return s
}

// play returns the makespan of a decision, infinite when it is beyond the limit.
func (s *contention) play(d decision, limit float64) float64 {
	s.reset(d, limit)
	for i := range s.left {
		s.left[i] = int32(len(s.m.takes[i]))
		s.run[i] = span{last: -1}
		if at := s.m.built(int32(i), d.host[i]); at > 0 { // as if it were one more input
			s.left[i]++
			s.built.push(at, int32(i))
		}
		if s.left[i] == 0 && d.host[i] >= 0 {
			s.ready(int32(i), -1)
		}
	}
	for h := range s.room {
		s.start(int32(h))
	}
	for {
		next := s.net.next() + s.now
		for _, q := range [3]*queue{&s.ends, &s.late, &s.built} {
			if q.len() > 0 {
				next = min(next, q.key[0])
			}
		}
		if math.IsInf(next, 1) {
			return s.makespan
		}
		if next > limit {
			return math.Inf(1)
		}
		s.step(next)
	}
}

func (s *contention) reset(d decision, limit float64) {
	s.d, s.limit, s.now, s.makespan, s.bytes, s.ended = d, limit, 0, 0, 0, 0
	s.net.clear()
	s.ends.clear()
	s.late.clear()
	s.built.clear()
	s.transfers = s.transfers[:0]
	if s.mem != nil {
		s.mem.reset(d)
	}
	for h := range s.bays {
		s.bays[h].clear()
	}
	for h := range s.room {
		copy(s.room[h], s.m.room[h])
		for k := range s.wait[h] {
			s.wait[h][k].clear()
		}
		s.some[h] = s.some[h][:0]
	}
}

// step goes to the next time at which something happens, and lets all of it happen
// before any node starts.
func (s *contention) step(next float64) {
	passed := max(next-s.now, 0)
	s.now = max(next, s.now)
	slack := instant + s.now*rounding
	s.arrived = s.net.advance(passed, slack, s.arrived[:0])
	for _, k := range s.arrived {
		s.deliver(k)
	}
	for s.late.len() > 0 && s.late.key[0] <= s.now+slack {
		k := s.late.pop()
		t := s.transfers[k]
		s.send(k, t)
	}
	for s.ends.len() > 0 && s.ends.key[0] <= s.now+slack {
		s.finish(s.ends.pop())
	}
	for s.built.len() > 0 && s.built.key[0] <= s.now+slack {
		s.take(s.built.pop(), -1)
	}
	if s.mem != nil {
		s.sendHeld()
	}
	for h := range s.some {
		if len(s.some[h]) > 0 {
			s.start(int32(h))
		}
	}
}

func (s *contention) send(k int32, t transfer) {
	if s.mem != nil && !s.mem.send(k, t, s.now) {
		return
	}
	s.transfers[k].began = s.now
	if bytes := s.m.data[t.datum].bytes; bytes > 0 {
		s.net.begin(k, t.from, t.to, bytes)
		return
	}
	s.deliver(k)
}

// sendHeld begins the transfers that waited for room, in order: where one still has none,
// those behind it wait, too. So a step looks at no more of them than it begins.
func (s *contention) sendHeld() {
	for h := range s.mem.held {
		for {
			held := s.mem.held[h]
			if len(held) == 0 || !s.mem.room(s.transfers[held[0]]) {
				break
			}
			s.mem.held[h] = held[1:]
			s.send(held[0], s.transfers[held[0]])
		}
	}
}

// finish ends a node: its place is free, and what it made is there or on its way.
func (s *contention) finish(i int32) {
	home := s.d.host[i]
	s.ended++
	if s.mem != nil {
		s.mem.end(i, home, s.now)
	}
	add(s.room[home], s.m.needs[s.m.shape[i]], 1)
	if s.bays != nil {
		s.bays[home].give(i, s.m.devices[s.m.shape[i]])
	}
	s.makespan = max(s.makespan, s.run[i].finish)
	for k := s.m.made[i]; k < s.m.made[i+1]; k++ {
		from := len(s.transfers)
		for _, taker := range s.m.data[k].takers {
			to := s.d.host[taker]
			switch {
			case to < 0:
			case to == home:
				s.take(taker, i)
			case !s.underway(from, to):
				s.transfers = append(s.transfers, transfer{datum: k, from: home, to: to})
				s.late.push(s.now+s.m.c.delay(home, to), int32(len(s.transfers)-1))
				s.bytes += s.m.data[k].bytes
				s.run[taker].moved += s.m.data[k].bytes
			}
		}
	}
}

// underway tells whether one of the transfers from a place on goes to a host.
func (s *contention) underway(from int, to int32) bool {
	for _, t := range s.transfers[from:] {
		if t.to == to {
			return true
		}
	}
	return false
}

func (s *contention) deliver(k int32) {
	s.transfers[k].ended = s.now
	t := s.transfers[k]
	if s.mem != nil {
		s.mem.received(t, s.now)
	}
	for _, taker := range s.m.data[t.datum].takers {
		if s.d.host[taker] == t.to {
			s.take(taker, s.m.data[t.datum].producer)
		}
	}
}

func (s *contention) take(i, from int32) {
	if s.left[i]--; s.left[i] == 0 {
		s.ready(i, from)
	}
}

func (s *contention) ready(i, last int32) {
	s.run[i].ready, s.run[i].last = s.now, last
	h, k := s.d.host[i], s.m.shape[i]
	if s.wait[h][k].len() == 0 {
		s.some[h] = append(s.some[h], k)
	}
	s.wait[h][k].push(-s.d.first[i], i)
}

// start starts on a host the tasks that fit, highest rank first. One that has no room
// does not keep back a smaller one.
func (s *contention) start(h int32) {
	for {
		best := -1
		for at, k := range s.some[h] {
			if !s.fits(k, h) || s.mem != nil && !s.mem.fits(s.wait[h][k].item[0], h) {
				continue
			}
			if q := &s.wait[h][k]; best < 0 || s.sooner(q, &s.wait[h][s.some[h][best]]) {
				best = at
			}
		}
		if best < 0 {
			return
		}
		k := s.some[h][best]
		i := s.wait[h][k].pop()
		if s.wait[h][k].len() == 0 {
			last := len(s.some[h]) - 1
			s.some[h][best] = s.some[h][last]
			s.some[h] = s.some[h][:last]
		}
		add(s.room[h], s.m.needs[k], -1)
		if s.bays != nil {
			s.bays[h].take(i, s.m.devices[k])
		}
		s.run[i].start, s.run[i].finish = s.now, s.now+s.m.seconds[i]
		if s.mem != nil {
			s.run[i].finish += s.mem.begin(i, h, s.now)
		}
		s.ends.push(s.run[i].finish, i)
	}
}

// spilled returns the bytes that had no room.
func (s *contention) spilled() float64 {
	if s.mem == nil {
		return 0
	}
	return s.mem.spilled
}

// fits tells whether nodes of a shape have room on a host now.
func (s *contention) fits(k, h int32) bool {
	return within(s.m.needs[k], s.room[h]) && (s.bays == nil || s.bays[h].fits(s.m.devices[k]))
}

func (s *contention) sooner(a, b *queue) bool {
	if a.key[0] != b.key[0] {
		return a.key[0] < b.key[0]
	}
	return a.item[0] < b.item[0]
}
