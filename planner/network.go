package planner

import (
	"math"
	"slices"
)

// network shares the bandwidth of hosts among transfers. A host sends and receives
// so many bytes a second, and so many go from one host to another, however many
// transfers there are. They share max-min fairly: none can have more without another
// having less that has no more (Bertsekas and Gallager, Data Networks, 1992, 6.5.2).
//
// Transfers between the same two hosts always have the same rate. They form one
// route, which counts the bytes that each of them got since it became busy: the
// transfer that ends first is the one whose end on that count comes first, however
// the rate changes, and a change costs by routes and not by transfers.
type network struct {
	hosts  int
	ports  []float64 // bytes a second: sending of each host, then receiving
	ways   []float64 // bytes a second of each route; nil: as much as its ports
	routes []route   // by source*hosts + destination
	busy   []int32   // routes with transfers, sorted
	stale  bool      // rates are those of before the last change
	room   []float64 // of each port, while rates are found
	flows  []int     // through each port
}

type route struct {
	got   float64 // bytes that each transfer got since the route became busy
	rate  float64 // bytes a second of each transfer
	ends  queue   // transfers by the count at which they end
	fixed bool    // while rates are found
}

func newNetwork(c *Cluster) *network {
	hosts := len(c.Hosts)
	n := &network{hosts: hosts, routes: make([]route, hosts*hosts), room: make([]float64, 2*hosts), flows: make([]int, 2*hosts)}
	if c.ways == nil {
		n.ports = slices.Repeat([]float64{c.Bandwidth}, 2*hosts)
		return n
	}
	n.ports, n.ways = slices.Concat(c.ways.send, c.ways.receive), c.ways.rate
	return n
}

func (n *network) clear() {
	for _, r := range n.busy {
		n.routes[r].ends.clear()
	}
	n.busy, n.stale = n.busy[:0], false
}

// begin starts a transfer of some bytes, more than 0.
func (n *network) begin(transfer, from, to int32, bytes float64) {
	at := from*int32(n.hosts) + to
	r := &n.routes[at]
	if r.ends.len() == 0 {
		r.got = 0
		k, _ := slices.BinarySearch(n.busy, at)
		n.busy = slices.Insert(n.busy, k, at)
	}
	r.ends.push(r.got+bytes, transfer)
	n.stale = true
}

// next returns the seconds until a transfer ends when none begins; infinite without any.
func (n *network) next() float64 {
	if n.stale {
		n.share()
	}
	first := math.Inf(1)
	for _, k := range n.busy {
		r := &n.routes[k]
		first = min(first, max(r.ends.key[0]-r.got, 0)/r.rate)
	}
	return first
}

// advance lets seconds pass, no more than next says, and adds the transfers that
// have ended then, or within slack seconds after it, to done.
func (n *network) advance(seconds, slack float64, done []int32) []int32 {
	if n.stale {
		n.share()
	}
	for _, k := range n.busy {
		r := &n.routes[k]
		r.got += r.rate * seconds
		for r.ends.len() > 0 && r.ends.key[0]*(1-rounding) <= r.got+r.rate*slack {
			done = append(done, r.ends.pop())
			n.stale = true
		}
	}
	if n.stale {
		n.busy = slices.DeleteFunc(n.busy, func(k int32) bool { return n.routes[k].ends.len() == 0 })
	}
	return done
}

// share finds the rates: of all ports the one that gives its transfers least is
// filled, those transfers are fixed, and so on. A route that carries less than that
// for each of its transfers is fixed before: what it leaves can only raise what the
// ports give.
func (n *network) share() {
	n.stale = false
	copy(n.room, n.ports)
	clear(n.flows)
	for _, k := range n.busy {
		r := &n.routes[k]
		r.fixed = false
		from, to := n.portsOf(k)
		n.flows[from] += r.ends.len()
		n.flows[to] += r.ends.len()
	}
	for left := len(n.busy); left > 0; {
		tight, rate := 0, math.Inf(1)
		for p, flows := range n.flows {
			if flows > 0 && n.room[p]/float64(flows) < rate {
				tight, rate = p, n.room[p]/float64(flows)
			}
		}
		if fixed := n.fixSlow(rate); fixed > 0 {
			left -= fixed
			continue
		}
		for _, k := range n.busy {
			from, to := n.portsOf(k)
			if n.routes[k].fixed || from != tight && to != tight {
				continue
			}
			n.fix(k, rate)
			left--
		}
	}
}

// fixSlow fixes the routes that carry less for each of their transfers than a rate,
// and returns how many that were.
func (n *network) fixSlow(rate float64) (fixed int) {
	if n.ways == nil {
		return 0
	}
	for _, k := range n.busy {
		r := &n.routes[k]
		if most := n.ways[k] / float64(r.ends.len()); !r.fixed && most < rate {
			n.fix(k, most)
			fixed++
		}
	}
	return fixed
}

// fix gives each transfer of a route its rate.
func (n *network) fix(route int32, rate float64) {
	r := &n.routes[route]
	r.fixed, r.rate = true, rate
	from, to := n.portsOf(route)
	for _, p := range [2]int{from, to} {
		n.flows[p] -= r.ends.len()
		n.room[p] = max(n.room[p]-rate*float64(r.ends.len()), 0)
	}
}

func (n *network) portsOf(route int32) (from, to int) {
	return int(route) / n.hosts, n.hosts + int(route)%n.hosts
}
