package sim

import (
	"math/rand/v2"
	"time"
)

// One-way partitions: the messages of one of two nodes do not arrive, and those of the
// other do. A node that receives nothing for long ends the link.

// drawOneWay decides how many there are. It draws from numbers of its own, as drawDrains does.
func (f *fates) drawOneWay(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 33))
	f.oneWay = pick(r, 0, 0, 0, 1, 3)
	f.silence = pick(r, 50*time.Millisecond, 500*time.Millisecond, 3*time.Second)
}

// disturbOneWay plans them.
func (w *world) disturbOneWay(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 34))
	for range w.fate.oneWay {
		from, to := w.anyPair(r)
		if r.IntN(2) == 0 {
			from, to = to, from
		}
		at := time.Duration(r.Int64N(int64(w.fate.heal)))
		d := pick(r, 5*time.Millisecond, 100*time.Millisecond, 800*time.Millisecond, 4*time.Second)
		w.at(at, func() { w.mute(from, to, d) })
	}
}

// mute keeps what one node sends from another for some time, messages and transfers.
func (w *world) mute(from, to string, d time.Duration) {
	p := pairOf(from, to)
	if w.halfway[p] {
		return // one at a time
	}
	w.tell("fault", nil, "nothing from %s arrives at %s for %v", from, to, d)
	w.net.Mute(w.now, from, to)
	w.halfway[p] = true
	over := min(w.now+d, w.fate.heal)
	if silent := w.now + w.fate.silence; silent < over {
		w.at(silent, func() { w.silent[p] = true })
	}
	w.at(over, func() {
		w.net.Unmute(w.now, from, to)
		delete(w.halfway, p)
		delete(w.silent, p)
	})
}
