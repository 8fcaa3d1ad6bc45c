package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Bandwidth: each host sends and receives so many bytes a second, which the transfers
// under way share as fairly as they can. It takes the place of the random time of a
// transfer in a third of the seeds.

// rate is what a host can carry, in bytes a second.
type rate struct{ up, down float64 }

// drawBandwidth decides what hosts carry, nil when a transfer takes a random time. It
// draws from numbers of its own, as drawDrains does.
func drawBandwidth(seed uint64) (hosts []rate) {
	r := rand.New(rand.NewPCG(seed, 32))
	if r.IntN(3) > 0 {
		return nil
	}
	const kB = 1000
	for range 4 {
		hosts = append(hosts, rate{pick(r, 50.0, 500, 5000, 50_000) * kB, pick(r, 50.0, 500, 5000, 50_000) * kB})
	}
	return hosts
}

// wire carries the bytes of transfers.
type wire struct {
	w     *world
	hosts map[string]rate
	flows []*flow // in order of their beginning
	at    time.Duration
	turn  int // counts changes: what was planned before is void
}

// flow is a transfer whose bytes are on their way.
type flow struct {
	from, to string
	left     float64 // bytes, at wire.at
	speed    float64
	arrive   func()
}

func newWire(w *world) *wire {
	n := &wire{w: w, hosts: map[string]rate{}}
	for i, a := range w.agents {
		n.hosts[a.name] = w.fate.hosts[i%len(w.fate.hosts)]
	}
	return n
}

// carry sends bytes, and calls arrive when the last one is there.
func (n *wire) carry(from, to string, bytes uint64, arrive func()) *flow {
	f := &flow{from: from, to: to, left: float64(bytes), arrive: arrive}
	n.advance()
	n.flows = append(n.flows, f)
	n.share()
	return f
}

// stop gives a flow up; nil, or one that has arrived, is none.
func (n *wire) stop(f *flow) {
	if k := slices.Index(n.flows, f); k >= 0 {
		n.advance()
		n.flows = slices.Delete(n.flows, k, k+1)
		n.share()
	}
}

// advance counts what was carried since the last change.
func (n *wire) advance() {
	for _, f := range n.flows {
		f.left -= f.speed * (n.w.now - n.at).Seconds()
	}
	n.at = n.w.now
}

// share divides what hosts carry anew, and plans the next arrival.
func (n *wire) share() {
	n.turn++
	fairly(n.flows, n.hosts)
	next := math.Inf(1)
	for _, f := range n.flows {
		next = min(next, f.left/f.speed)
	}
	if len(n.flows) == 0 {
		return
	}
	turn := n.turn
	n.w.after(time.Duration(math.Ceil(max(next, 0)*1e9)), func() {
		if n.turn == turn {
			n.arrivals()
		}
	})
}

// arrivals ends what has arrived.
func (n *wire) arrivals() {
	const rest = 0.001 // of a byte: times are whole nanoseconds
	n.advance()
	var there []*flow
	n.flows = slices.DeleteFunc(n.flows, func(f *flow) bool {
		if f.left > rest {
			return false
		}
		there = append(there, f)
		return true
	})
	n.share()
	for _, f := range there {
		f.arrive()
	}
}

// fairly gives each flow its max-min fair share: no flow could have more without
// another that has less, or as much, losing some.
func fairly(flows []*flow, hosts map[string]rate) {
	type end struct {
		host string
		down bool
	}
	left, users := map[end]float64{}, map[end]int{}
	var ends []end // in an order that equal runs have
	use := func(e end, capacity float64) {
		if users[e]++; users[e] == 1 {
			left[e] = capacity
			ends = append(ends, e)
		}
	}
	for _, f := range flows {
		use(end{f.from, false}, hosts[f.from].up)
		use(end{f.to, true}, hosts[f.to].down)
		f.speed = 0
	}
	for range flows { // each time the narrowest end gets what it can carry
		narrow, share := end{}, math.Inf(1)
		for _, e := range ends {
			if users[e] > 0 && left[e]/float64(users[e]) < share {
				narrow, share = e, left[e]/float64(users[e])
			}
		}
		for _, f := range flows {
			from, to := end{f.from, false}, end{f.to, true}
			if f.speed > 0 || from != narrow && to != narrow {
				continue
			}
			f.speed = share
			for _, e := range []end{from, to} {
				left[e] -= share
				users[e]--
			}
		}
	}
}
