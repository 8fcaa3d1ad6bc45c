package executor

import (
	"math/rand/v2"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// TestCallIndex compares the index with a map while calls come and go in many ways.
func TestCallIndex(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var x callIndex
		have := map[uint64]*callState{}
		var numbers []uint64
		next, stays := uint64(0), r.IntN(4) // of so many in 16 calls each stays
		for range 3000 {
			if len(have) == 0 || r.IntN(5) < 2+r.IntN(2) {
				s := &callState{ref: comms.CallRef{Number: next}}
				x.add(s)
				have[next] = s
				if r.IntN(16) >= stays {
					numbers = append(numbers, next)
				}
				next++
			} else if len(numbers) > 0 {
				i := r.IntN(min(len(numbers), 1+r.IntN(40)))
				n := numbers[i]
				numbers = append(numbers[:i], numbers[i+1:]...)
				x.remove(n)
				delete(have, n)
			}
		}
		for n := range next + 2 {
			if x.find(n) != have[n] {
				t.Fatalf("seed %d: call %d is %v, want %v", seed, n, x.find(n), have[n])
			}
		}
		if len(x.list)-x.head > max(2*indexLeast, 8*(x.live+2)) {
			t.Errorf("seed %d: the list has %d places for %d calls", seed, len(x.list)-x.head, x.live)
		}
	}
}
