package seqmap

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMap compares with a plain map while numbers come and go in many ways.
func TestMap(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var m Map[int]
		have := map[uint64]int{}
		var numbers []uint64                          // that will go
		next, stays := uint64(r.IntN(100)), r.IntN(4) // of so many in 16 each stays
		for range 3000 {
			switch {
			case r.IntN(200) == 0: // one that was there, or will be, or never
				n := next + uint64(r.IntN(10)) - min(next, uint64(r.IntN(100)))
				m.Set(n, int(n)+7)
				have[n] = int(n) + 7
			case len(numbers) == 0 || r.IntN(5) < 2+r.IntN(2):
				m.Set(next, int(next)+1)
				have[next] = int(next) + 1
				if r.IntN(16) >= stays {
					numbers = append(numbers, next)
				}
				next++
			default:
				i := r.IntN(min(len(numbers), 1+r.IntN(40)))
				n := numbers[i]
				numbers = append(numbers[:i], numbers[i+1:]...)
				m.Delete(n)
				delete(have, n)
			}
		}
		for n := range next + 20 {
			if m.Get(n) != have[n] {
				t.Fatalf("seed %d: number %d is %d, want %d", seed, n, m.Get(n), have[n])
			}
		}
		if got := maps.Collect(m.All()); !maps.Equal(got, have) || m.Len() != len(have) {
			t.Fatalf("seed %d: got %d of %d entries", seed, len(got), len(have))
		}
		if n, ok := m.First(); ok != (len(have) > 0) || ok && n != slices.Min(slices.Collect(maps.Keys(have))) {
			t.Fatalf("seed %d: the first number is %d, %v", seed, n, ok)
		}
		if n := len(m.list) - m.head; n > max(2*least, 8*(m.live+2)) {
			t.Errorf("seed %d: the list has %d places for %d entries", seed, n, m.live)
		}
	}
}

// TestStragglers has a few entries stay while very many come and go: the list does not
// grow with all that came.
func TestStragglers(t *testing.T) {
	var m Map[int]
	for n := range uint64(1 << 20) {
		m.Set(n, 1)
		if n%100_000 != 0 {
			m.Delete(n)
		}
	}
	if m.Len() != 11 || cap(m.list) > 4*keep {
		t.Errorf("%d entries, the list has room for %d", m.Len(), cap(m.list))
	}
	for n := range uint64(1 << 20) {
		if want := n%100_000 == 0; want != (m.Get(n) == 1) {
			t.Fatalf("number %d is %d", n, m.Get(n))
		}
	}
}
