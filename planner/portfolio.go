package planner

import (
	"cmp"
	"math"
	"slices"
)

// A method makes a decision. Those that look for gaps take time in which a host
// with much on it is slow to search, and are left out of large graphs.
type method struct {
	name  string
	large bool // also for graphs of more than gapTasks
	make  func(*portfolio) []int32
}

const gapTasks = 20_000

// gapCost is by how many tasks and hosts the search for gaps takes as long as one
// more evaluation: measured, about.
const gapCost = 1300

// first is the method of Make.
const first = "list"

// methods are the portfolio, in the order in which they are tried: what is quick
// and mostly good comes first.
func methods() []method {
	return []method{
		{first, true, func(p *portfolio) []int32 { return p.listed(false) }},
		{"bytes", true, func(p *portfolio) []int32 { return p.listed(true) }},
		{"finish", false, func(p *portfolio) []int32 { return p.insert(p.finishFirst) }},
		{"lookahead", false, func(p *portfolio) []int32 { return p.insert(p.childrenFirst) }},
		{"path", false, (*portfolio).criticalPath},
		{"clusters", true, (*portfolio).clusters},
		{"one", true, (*portfolio).oneHost},
	}
}

// portfolio makes decisions by methods known from the literature. All go by upward
// ranks; they differ in how they choose hosts.
type portfolio struct {
	m     *model
	order []int32 // nodes that can run, by rank, producers first
	can   []bool
	lines []*timeline // of each host, while a schedule is made
	host  []int32
	end   []float64
}

func newPortfolio(m *model) *portfolio {
	p := &portfolio{m: m, can: make([]bool, len(m.seconds))}
	place := make([]int32, len(m.seconds))
	for at, i := range m.n.order {
		place[i] = int32(at)
		for h := range m.room {
			p.can[i] = p.can[i] || m.mayRun(i, h)
		}
		for _, d := range m.takes[i] {
			p.can[i] = p.can[i] && p.can[m.data[d].producer]
		}
		if g := m.generate[i]; g >= 0 {
			p.can[i] = p.can[i] && p.can[g]
		}
		if p.can[i] {
			p.order = append(p.order, i)
		}
	}
	rank := m.n.rank
	slices.SortFunc(p.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(rank[b], rank[a]), cmp.Compare(place[a], place[b]))
	})
	return p
}

// nowhere returns hosts of which none is chosen.
func (p *portfolio) nowhere() []int32 { return slices.Repeat([]int32{-1}, len(p.m.seconds)) }

// listed is the list schedule: of the free hosts the one with fewest bytes to
// move; unless it is eager, a task rather waits for a host where its inputs are.
func (p *portfolio) listed(eager bool) []int32 {
	s := newScheduler(p.m.n, p.m.c)
	s.eager = eager
	s.run()
	host := p.nowhere()
	for i := range host {
		if s.at[i].placed {
			host[i] = s.at[i].host
		}
	}
	return host
}

// insert schedules in order of ranks, each task into the gap and on the host with
// the least score: HEFT of Topcuoglu, Hariri and Wu (2002) when that is its end.
func (p *portfolio) insert(score func(i int32, h int, finish float64) float64) []int32 {
	p.lines, p.host, p.end = nil, p.nowhere(), make([]float64, len(p.m.seconds))
	for h := range p.m.room {
		p.lines = append(p.lines, newTimeline(p.m.room[h]))
	}
	for _, i := range p.order {
		best, bestStart, bestScore := -1, 0.0, math.Inf(1)
		for h := range p.lines {
			if g := p.m.generate[i]; g >= 0 && int(p.host[g]) != h || !p.m.mayRun(i, h) {
				continue
			}
			start := p.lines[h].earliest(p.arrival(i, h), p.m.seconds[i], p.need(i))
			if at := score(i, h, start+p.m.seconds[i]); best < 0 || at < bestScore {
				best, bestStart, bestScore = h, start, at
			}
		}
		if best < 0 { // none has enough for it and its generator: mayRun of that says so before
			continue
		}
		p.host[i], p.end[i] = int32(best), bestStart+p.m.seconds[i]
		p.lines[best].take(bestStart, p.m.seconds[i], p.need(i))
	}
	return p.host
}

func (p *portfolio) need(i int32) []int64 { return p.m.needs[p.m.shape[i]] }

// arrival returns when all that a node takes can be on a host, from producers that
// are placed, if nothing else moves.
func (p *portfolio) arrival(i int32, h int) (at float64) {
	at = p.m.built(i, int32(h))
	for _, d := range p.m.takes[i] {
		from := p.m.data[d].producer
		if p.host[from] < 0 {
			continue // not placed yet: it is a child that is looked at ahead
		}
		there := p.end[from]
		if int(p.host[from]) != h {
			there += p.m.c.transfer(p.host[from], int32(h), p.m.data[d].bytes)
		}
		at = max(at, there)
	}
	return at
}

func (p *portfolio) finishFirst(_ int32, _ int, finish float64) float64 { return finish }

// childrenFirst scores a host by when the last of a task's children could end if
// the task ran there, as the lookahead of Bittencourt, Sakellariou and Madeira
// (DAG scheduling using a lookahead variant of HEFT, PDP 2010) does. So a task
// whose child needs a device goes to a host with one when its output is large.
func (p *portfolio) childrenFirst(i int32, h int, finish float64) float64 {
	p.host[i], p.end[i] = int32(h), finish
	defer func() { p.host[i] = -1 }()
	worst := finish
	looked := 0
	for k := p.m.made[i]; k < p.m.made[i+1]; k++ {
		for _, child := range p.m.data[k].takers {
			if looked++; looked > lookAt || !p.can[child] {
				continue
			}
			soonest := math.Inf(1)
			for at := range p.lines {
				if g := p.m.generate[child]; g >= 0 && int(p.host[g]) != at || !p.m.mayRun(child, at) {
					continue
				}
				start := p.lines[at].earliest(p.arrival(child, at), p.m.seconds[child], p.need(child))
				soonest = min(soonest, start+p.m.seconds[child])
			}
			worst = max(worst, soonest)
		}
	}
	return worst + finish*rounding // of equal ones the task's own end decides
}

// lookAt bounds the children that are looked at for one task and host.
const lookAt = 32

// criticalPath puts one longest path on one host and the rest where it ends first,
// as CPOP of Topcuoglu, Hariri and Wu (2002).
func (p *portfolio) criticalPath() []int32 {
	on := make([]bool, len(p.m.seconds))
	able := slices.Repeat([]bool{true}, len(p.m.room))
	if len(p.order) == 0 {
		return p.nowhere()
	}
	for i := p.order[0]; i >= 0; {
		on[i] = true
		for h := range able {
			able[h] = able[h] && p.m.mayRun(i, h)
		}
		next := int32(-1)
		for k := p.m.made[i]; k < p.m.made[i+1]; k++ {
			for _, c := range p.m.data[k].takers {
				if p.can[c] && (next < 0 || p.m.n.rank[c] > p.m.n.rank[next]) {
					next = c
				}
			}
		}
		i = next
	}
	home := -1
	for h := range able {
		if able[h] && (home < 0 || p.m.room[h][0] > p.m.room[home][0]) {
			home = h
		}
	}
	return p.insert(func(i int32, h int, finish float64) float64 {
		if on[i] && home >= 0 && h != home {
			return math.MaxFloat64
		}
		return finish
	})
}

// oneHost runs all on the host with most cores that has enough for each task.
func (p *portfolio) oneHost() []int32 {
	home := -1
	for h := range p.m.room {
		all := true
		for _, i := range p.order {
			all = all && p.m.mayRun(i, h)
		}
		if all && (home < 0 || p.m.room[h][0] > p.m.room[home][0]) {
			home = h
		}
	}
	if home < 0 {
		return nil
	}
	host := p.nowhere()
	for _, i := range p.order {
		host[i] = int32(home)
	}
	return host
}
