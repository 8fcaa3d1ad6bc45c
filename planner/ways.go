package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/cascade-run/cascade/profiles"
)

// Basis says from where the bandwidth between two hosts is known.
type Basis uint8

// The bases, the weakest first.
const (
	Assumed  Basis = iota // DefaultBandwidth
	Alike                 // the median of what was measured between other hosts
	Given                 // Cluster.Bandwidth
	Measured              // between these two
)

func (b Basis) String() string {
	return [...]string{"assumed", "as between other hosts", "as was given", "measured"}[b]
}

// ways is what is known of the ways between the hosts of a cluster, while it is planned
// for. Of a pair that was not measured it has what Cluster has.
type ways struct {
	hosts   int
	rate    []float64 // bytes a second, by source*hosts + destination
	delay   []float64 // seconds
	send    []float64 // most that a host sends, of all its ways
	receive []float64
	middle  float64 // bytes a second of a way, such that a byte takes the mean of all ways
	latency float64 // the mean of all ways
	longest float64 // the longest delay
}

// measured is one way that was measured. A plan keeps these: its ways may be many.
type measured struct {
	from, to    int32
	rate, delay float64 // 0 unknown
}

// learn takes over what profiles know of the ways between hosts. A measurement
// between two hosts counts for these; for others what the caller said counts, else
// the median of the measurements, else the default.
//
// A host sends and receives as much as the fastest of its ways carries; it may
// receive more, from several hosts together. Without measurements nothing is made,
// and planning costs no more.
func (c *Cluster) learn(p profiles.Snapshot) {
	if c.learnt {
		return
	}
	c.learnt, c.basis = true, Given
	var rates, delays []float64
	several := map[int]float64{}
	index := make(map[string]int32, len(c.Hosts))
	for i := range c.Hosts {
		index[c.Hosts[i].Name] = int32(i)
	}
	if len(c.Hosts) > 1 {
		for pair, l := range p.Links() {
			m := measured{rate: l.Bandwidth(), delay: l.Latency()}
			from, fromHere := index[pair.From]
			to, toHere := index[pair.To]
			if pair.From == "" {
				if toHere {
					several[int(to)] = m.rate
				}
				continue
			}
			if m.rate > 0 {
				rates = append(rates, m.rate)
			}
			if m.delay > 0 {
				delays = append(delays, m.delay)
			}
			if m.from, m.to = from, to; fromHere && toHere && (m.rate > 0 || m.delay > 0) {
				c.measured = append(c.measured, m)
			}
		}
	}
	if c.Bandwidth <= 0 {
		c.basis, c.Bandwidth = Assumed, DefaultBandwidth
		if len(rates) > 0 {
			c.basis, c.Bandwidth = Alike, median(rates)
		}
	}
	if c.Latency == 0 && len(delays) > 0 {
		c.Latency = median(delays)
	}
	slices.SortFunc(c.measured, compareWays)
	if len(c.measured)+len(several) > 0 {
		c.ways = newWays(c, several)
	}
}

// newWays fills the ways from what was measured; several is what hosts receive from
// several others.
func newWays(c *Cluster, several map[int]float64) *ways {
	n := len(c.Hosts)
	w := &ways{hosts: n, rate: slices.Repeat([]float64{c.Bandwidth}, n*n), delay: slices.Repeat([]float64{c.Latency}, n*n),
		send: make([]float64, n), receive: make([]float64, n)}
	for _, m := range c.measured {
		at := int(m.from)*n + int(m.to)
		w.rate[at], w.delay[at] = cmp.Or(m.rate, c.Bandwidth), cmp.Or(m.delay, c.Latency)
	}
	for to, rate := range several {
		w.receive[to] = rate
	}
	all, perByte := float64(n*(n-1)), 0.0
	for from := range n {
		for to := range n {
			if from == to {
				continue
			}
			at := from*n + to
			w.send[from] = max(w.send[from], w.rate[at])
			w.receive[to] = max(w.receive[to], w.rate[at])
			perByte += 1 / w.rate[at] / all
			w.latency += w.delay[at] / all
			w.longest = max(w.longest, w.delay[at])
		}
	}
	w.middle = 1 / perByte
	return w
}

// median returns the middle of some values, of an even number the lower.
func median(of []float64) float64 {
	slices.Sort(of)
	return of[(len(of)-1)/2]
}

// perByte returns the seconds that a byte takes from one host to another when nothing else moves.
func (c *Cluster) perByte(from, to int32) float64 {
	if c.ways == nil {
		return 1 / c.Bandwidth
	}
	return 1 / c.ways.rate[int(from)*c.ways.hosts+int(to)]
}

// delay returns the seconds before anything arrives at one host from another.
func (c *Cluster) delay(from, to int32) float64 {
	if c.ways == nil {
		return c.Latency
	}
	return c.ways.delay[int(from)*c.ways.hosts+int(to)]
}

// transfer returns the seconds that bytes take from one host to another when nothing else moves.
func (c *Cluster) transfer(from, to int32, bytes float64) float64 {
	if c.ways == nil {
		return bytes/c.Bandwidth + c.Latency
	}
	at := int(from)*c.ways.hosts + int(to)
	return bytes/c.ways.rate[at] + c.ways.delay[at]
}

// mean returns the bytes a second and the delay of all ways: a transfer by these takes
// the mean of what it takes.
func (c *Cluster) mean() (bandwidth, latency float64) {
	if c.ways == nil {
		return c.Bandwidth, c.Latency
	}
	return c.ways.middle, c.ways.latency
}

// longest returns the longest delay of all ways.
func (c *Cluster) longest() float64 {
	if c.ways == nil {
		return c.Latency
	}
	return c.ways.longest
}

// Way is what a plan thought of the way from one host to another.
type Way struct {
	Bandwidth float64 // bytes a second
	Latency   float64 // seconds
	Basis     Basis   // of the bandwidth
}

// Way returns what the plan rests on for transfers from one of its hosts to another.
func (p *Plan) Way(from, to int) Way { return p.on.way(int32(from), int32(to)) }

func (c *Cluster) way(from, to int32) Way {
	w := Way{Bandwidth: c.Bandwidth, Latency: c.Latency, Basis: c.basis}
	at, known := slices.BinarySearchFunc(c.measured, measured{from: from, to: to}, compareWays)
	if !known {
		return w
	}
	m := &c.measured[at]
	if w.Latency = cmp.Or(m.delay, w.Latency); m.rate > 0 {
		w.Bandwidth, w.Basis = m.rate, Measured
	}
	return w
}

func compareWays(a, b measured) int {
	return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
}

// SameWays tells whether two plans for the same hosts rest on about the same network:
// no way is known by more than this part otherwise.
func (p *Plan) SameWays(q *Plan, part float64) bool {
	near := func(x, y Way) bool {
		return math.Abs(x.Bandwidth-y.Bandwidth) <= part*max(x.Bandwidth, y.Bandwidth) && math.Abs(x.Latency-y.Latency) <= part*max(x.Latency, y.Latency)
	}
	a, b := p.among(), q.among()
	hosts := len(a.Hosts)
	if hosts != len(b.Hosts) {
		return false
	}
	if unknown := hosts*(hosts-1) - max(len(a.measured), len(b.measured)); unknown > 0 && !near(Way{a.Bandwidth, a.Latency, 0}, Way{b.Bandwidth, b.Latency, 0}) {
		return false
	}
	for _, m := range slices.Concat(a.measured, b.measured) {
		if !near(a.way(m.from, m.to), b.way(m.from, m.to)) {
			return false
		}
	}
	return true
}

// among returns the hosts of which the plan chose.
func (p *Plan) among() *Cluster {
	if p.of != nil {
		return p.of
	}
	return &p.on
}

// kept is what a plan keeps of its cluster: what was measured, and not all ways.
func (c *Cluster) kept() *Cluster {
	k := *c
	k.ways = nil
	return &k
}
