package planner

import (
	"iter"
	"math"
	"slices"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// Effort says how long to look for a better plan. It counts contended simulations
// and not time, so that equal inputs give equal plans.
type Effort struct {
	Evaluations int    // 0: the first plan only
	Seed        uint64 // of the local search
	Without     string // a method of the portfolio that is not tried, to see what it is worth; "" none
}

// Improve returns plans, each better than those before: the caller takes the last
// that it has time for. The first is the one of Make, which moves data as if
// nothing else moved. The others come from a portfolio of methods and from a local
// search that begins with the best of them; all of these are simulated with
// bandwidth that is shared, so that their makespans compare with each other, and
// may be beyond that of the first. Equal inputs give equal plans.
//
// It needs O(n+e) memory, and O((n+e) log n) time for an evaluation. The methods
// that look for gaps are left out with more than 20,000 tasks.
func Improve(g *dag.Graph, p profiles.Snapshot, c Cluster, e Effort) (iter.Seq[*Plan], error) {
	plan, n, err := list(g, p, &c)
	if err != nil {
		return nil, err
	}
	return func(yield func(*Plan) bool) {
		if !yield(plan) || e.Evaluations <= 0 || len(c.Hosts) == 0 {
			return
		}
		m := newModel(n, &c)
		run := newContention(m)
		if m.tight {
			run.mem = newMemory(m)
		}
		s := &search{m: m, p: newPortfolio(m), run: run, first: plan, left: e.Evaluations, makespan: math.Inf(1), random: e.Seed, without: e.Without}
		if s.try(yield) {
			s.climb(yield)
		}
	}, nil
}

// Best returns the last plan of Improve.
func Best(g *dag.Graph, p profiles.Snapshot, c Cluster, e Effort) (*Plan, error) {
	plans, err := Improve(g, p, c, e)
	if err != nil {
		return nil, err
	}
	var best *Plan
	for plan := range plans {
		best = plan
	}
	return best, nil
}

// search keeps the best decision that was found.
type search struct {
	m        *model
	p        *portfolio
	run      *contention
	first    *Plan
	left     int // evaluations
	done     int
	best     decision
	method   string
	makespan float64
	bytes    float64      // moved
	spilled  float64      // bytes
	memory   []HostMemory // of the best, nil when there is enough for all
	spans    []span       // of the best
	random   uint64
	without  string // method that is not tried
}

// try evaluates the portfolio. It returns false when the caller has enough.
func (s *search) try(yield func(*Plan) bool) bool {
	for _, way := range methods() {
		if s.left == 0 {
			return false
		}
		if way.name == s.without || !way.large && len(s.m.seconds) > gapTasks || len(s.m.room) == 1 && way.name != first {
			continue
		}
		if !way.large { // it looks through all that is on each host for each task
			cost := len(s.m.seconds) * len(s.m.room) / gapCost
			if s.left <= cost {
				continue
			}
			s.left -= cost
		}
		host := way.make(s.p)
		if host == nil {
			continue
		}
		s.m.suit(s.p, host)
		if _, earlier := s.better(decision{host: host, first: s.m.n.rank}); earlier {
			s.method = way.name
			if !yield(s.plan()) {
				return false
			}
		}
	}
	return true
}

// better evaluates a decision and keeps it when it ends earlier than the best, or
// as early and moves and spills no more.
func (s *search) better(d decision) (kept, earlier bool) {
	s.left--
	s.done++
	makespan := s.run.play(d, s.makespan*(1+rounding))
	earlier = makespan < s.makespan*(1-instant) || math.IsInf(s.makespan, 1)
	if math.IsInf(makespan, 1) || !earlier && (makespan > s.makespan || s.run.bytes+s.run.spilled() > s.bytes+s.spilled) {
		return false, false
	}
	s.best = decision{host: append(s.best.host[:0], d.host...), first: append(s.best.first[:0], d.first...)}
	s.makespan, s.bytes, s.spilled = makespan, s.run.bytes, s.run.spilled()
	if s.run.mem != nil {
		s.memory = s.run.mem.hosts
	}
	s.spans = append(s.spans[:0], s.run.run...)
	return true, earlier
}

// climb changes one thing at a time, mostly on the chain of waits that makes the
// plan as long as it is, and keeps what does not make it worse. A change that comes
// to nothing counts as an evaluation: a graph without any would not end.
func (s *search) climb(yield func(*Plan) bool) {
	if len(s.p.order) == 0 {
		return
	}
	d := decision{host: slices.Clone(s.best.host), first: slices.Clone(s.best.first)}
	chain, method := s.chain(), s.method
	for s.left > 0 && s.makespan > s.first.LowerBound*(1+instant) {
		i := s.p.order[s.below(len(s.p.order))]
		if s.below(4) > 0 {
			i = chain[s.below(len(chain))]
		}
		undo := s.change(&d, i)
		if undo == nil {
			s.left--
			continue
		}
		kept, earlier := s.better(d)
		if !kept {
			undo()
		}
		if earlier {
			s.method, chain = method+" and search", s.chain()
			if !yield(s.plan()) {
				return
			}
		}
	}
}

// change moves a task to another host, or lets it and another exchange hosts or
// turns; where memory is short it also takes what lies on a host to another. It returns what takes that back, nil when there was nothing to change.
func (s *search) change(d *decision, i int32) (undo func()) {
	other := s.p.order[s.below(len(s.p.order))]
	kinds := 4
	if s.m.tight {
		kinds++
	}
	kind := s.below(kinds)
	if len(s.m.room) == 1 {
		kind = 3
	}
	switch kind {
	case 0: // to where the last came from that it waited for
		if from := s.spans[i].last; from >= 0 {
			return s.move(d, i, d.host[from])
		}
		return nil
	case 1:
		return s.move(d, i, int32(s.below(len(s.m.room))))
	case 2:
		from, to := d.host[i], d.host[other]
		one := s.move(d, i, to)
		if one == nil {
			return nil
		}
		two := s.move(d, other, from)
		return func() {
			if two != nil {
				two()
			}
			one()
		}
	case 4:
		return s.together(d, i, int32(s.below(len(s.m.room))))
	}
	if d.host[i] != d.host[other] || d.first[i] == d.first[other] {
		return nil
	}
	exchange := func() { d.first[i], d.first[other] = d.first[other], d.first[i] }
	exchange()
	return exchange
}

// move puts a task on a host, and those that follow its elements.
func (s *search) move(d *decision, i, to int32) (undo func()) {
	from := d.host[i]
	if from == to || s.m.generate[i] >= 0 || !s.m.mayRun(i, int(to)) {
		return nil
	}
	put := func(h int32) {
		d.host[i] = h
		for _, k := range s.m.followers[i] {
			d.host[k] = h
		}
	}
	put(to)
	return func() { put(from) }
}

// together moves the maker and all readers of the largest dataset that a task takes or
// makes: one of them alone would have it sent, and room for it on two hosts.
func (s *search) together(d *decision, i, to int32) (undo func()) {
	largest := int32(-1)
	for _, k := range s.m.takes[i] {
		if largest < 0 || s.m.data[k].bytes > s.m.data[largest].bytes {
			largest = k
		}
	}
	for k := s.m.made[i]; k < s.m.made[i+1]; k++ {
		if largest < 0 || s.m.data[k].bytes > s.m.data[largest].bytes {
			largest = k
		}
	}
	if largest < 0 {
		return nil
	}
	var moved []func()
	if back := s.move(d, s.m.data[largest].producer, to); back != nil {
		moved = append(moved, back)
	}
	for _, k := range s.m.data[largest].takers {
		if d.host[k] < 0 {
			continue // it can run nowhere
		}
		if back := s.move(d, k, to); back != nil {
			moved = append(moved, back)
		}
	}
	if moved == nil {
		return nil
	}
	return func() {
		for _, back := range slices.Backward(moved) {
			back()
		}
	}
}

// maxChain bounds the chain of waits that is looked at.
const maxChain = 1000

// chain walks back from the end of the best plan: from a task that waited for a
// place to the one that left it, else to the one that made what it waited for.
func (s *search) chain() (chain []int32) {
	type end struct {
		host int32
		at   float64
	}
	ended, last := map[end]int32{}, s.p.order[0]
	for _, i := range s.p.order {
		ended[end{s.best.host[i], s.spans[i].finish}] = i
		if s.spans[i].finish > s.spans[last].finish {
			last = i
		}
	}
	for at := last; at >= 0 && len(chain) < maxChain; {
		chain = append(chain, at)
		x := &s.spans[at]
		at = x.last
		if x.start > x.ready {
			if k, ok := ended[end{s.best.host[chain[len(chain)-1]], x.start}]; ok && s.spans[k].start < x.start {
				at = k
			}
		}
	}
	return chain
}

// below returns a number from 0 to n-1 (SplitMix64 of Steele, Lea and Flood, Fast
// splittable pseudorandom number generators, OOPSLA 2014).
func (s *search) below(n int) int {
	s.random += 0x9e3779b97f4a7c15
	x := s.random
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % uint64(n))
}

// plan returns the best as a plan.
func (s *search) plan() *Plan {
	p := *s.first
	p.Method, p.Contended, p.Makespan, p.Moved = s.method, true, s.makespan, s.bytes
	p.Tasks, p.Turns = slices.Clone(p.Tasks), slices.Clone(s.best.first[:len(p.Tasks)])
	p.Homes = make([]int32, len(p.Tasks))
	for i := range p.Tasks {
		h, x := s.best.host[i], &s.spans[i]
		p.Homes[i] = h
		if h < 0 {
			if p.Tasks[i].Host >= 0 {
				p.Tasks[i] = s.lacksMemory(int32(i))
			}
			continue // else the first plan says why
		}
		t := Placement{Host: int(h), Start: x.start, Finish: x.finish, bytes: x.moved}
		at := s.m.built(int32(i), h)
		t.built = at > 0 && math.Abs(x.start-at) < instant
		switch {
		case x.start > x.ready+instant:
			t.why, t.wait = whyQueued, x.start-x.ready
		case x.last >= 0:
			t.why, t.other = whyAfter, dag.TaskIndex(x.last)
		}
		p.Tasks[i] = t
	}
	p.Memory, p.Transfers = s.record()
	p.beyond = s.m.beyond
	p.findLate(s.m.n.g, p.Tasks)
	if len(s.m.room) == 1 {
		p.Homes = nil
	} else {
		p.Fuse = cutPaths(p.Fuse, p.Homes)
	}
	return &p
}

// lacksMemory explains a node that runs nowhere, though a host has all but the
// memory for it or for one before it.
func (s *search) lacksMemory(i int32) Placement {
	for _, d := range s.m.takes[i] {
		if from := s.m.data[d].producer; s.best.host[from] < 0 {
			return Placement{Host: -1, why: whyBlocked, other: dag.TaskIndex(from)}
		}
	}
	return Placement{Host: -1, why: whyMemory, bytes: s.m.total[i]}
}

// record returns what the best keeps where. For a Whole cluster it plays it once more, and
// notes what is kept over time, and what is moved when.
func (s *search) record() ([]HostMemory, []Transfer) {
	if !s.m.c.Whole {
		return s.memory, nil
	}
	run := newContention(s.m)
	run.mem = newMemory(s.m)
	run.mem.record = true
	run.play(s.best, math.Inf(1))
	moved := make([]Transfer, len(run.transfers))
	for i, t := range run.transfers {
		d := &s.m.data[t.datum]
		moved[i] = Transfer{dag.TaskIndex(d.producer), int(t.from), int(t.to), d.bytes, t.began, t.ended}
	}
	return run.mem.hosts, moved
}
