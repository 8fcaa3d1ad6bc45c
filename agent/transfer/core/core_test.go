package core

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

func copyNo(i int) Copy {
	return Copy{Data: comms.DatasetID{DatasetRef: comms.DatasetRef{Task: dag.TaskIndex(i)}}, Attempt: 1}
}

const never = 1000 * time.Hour

// drawn returns choices from a seed: rapid's own would record each of them.
func drawn(t *rapid.T) func(int) int {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	return r.IntN
}

func drawConfig(t *rapid.T) Config {
	return Config{Chunk: 4, Window: rapid.IntRange(1, 4).Draw(t, "window"), Connections: rapid.IntRange(1, 3).Draw(t, "connections"),
		Stripe: 8, Fanout: rapid.IntRange(1, 3).Draw(t, "fanout"), Stall: never, Idle: never, Tries: 8}
}

// Whatever breaks, everybody who lives gets every byte once, from an origin that
// lives, and nobody needs the clock for it: none waits in a circle. The origin
// sends the copy to as many as it may, and once more for each thing that breaks.
func TestBroadcast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"origin"}
		for i := range rapid.IntRange(1, 9).Draw(t, "receivers") {
			names = append(names, fmt.Sprint("r", i))
		}
		cfg := drawConfig(t)
		w := newWorld(t, drawn(t), cfg, names...)
		w.oneOrigin = true
		w.breaks = rapid.SampledFrom([]int{0, 0, 1, 5, 20}).Draw(t, "breaks")
		w.deaths = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "deaths")
		w.corrupt = rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "corrupt")
		size := uint64(rapid.IntRange(5, 80).Draw(t, "size"))
		w.offer("origin", copyNo(1), size)
		for _, name := range names[1:] {
			if w.nodes[name] != nil {
				w.pull(name, copyNo(1), size, "origin")
			}
			for range w.pick(12) { // some come late
				w.next()
			}
		}
		w.run()
		for name, n := range w.nodes {
			if name != "origin" && (len(n.done[copyNo(1)]) != 1 || n.done[copyNo(1)][0] != nil) {
				t.Fatalf("%s ended with %v", name, n.done[copyNo(1)])
			}
			for _, h := range n.core.copies {
				if len(h.services) > 0 {
					t.Fatalf("%s still serves transfer %d", name, h.services[0].transfer)
				}
			}
		}
		if sent, most := w.nodes["origin"].sent[copyNo(1)], uint64(cfg.Fanout+w.broken)*size; sent > most {
			t.Errorf("the origin sent %d bytes of %d; with %d things broken %d are right", sent, size, w.broken, most)
		}
	})
}

// Several copies, several origins of some, agents that pull and serve at once.
// A circle is possible here when origins and links flap; then the clock helps.
func TestManyOrigins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"origin", "b", "c", "d", "e", "f"}
		cfg := drawConfig(t)
		cfg.Stall = time.Second
		w := newWorld(t, drawn(t), cfg, names...)
		w.breaks = rapid.SampledFrom([]int{0, 3, 10}).Draw(t, "breaks")
		w.deaths = rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "deaths")
		w.corrupt = rapid.SampledFrom([]int{0, 0, badPieces - 1}).Draw(t, "corrupt")
		for i := range rapid.IntRange(1, 4).Draw(t, "copies") {
			size := uint64(rapid.IntRange(0, 60).Draw(t, "size"))
			from := []string{"origin"}
			for _, name := range names[1:3] {
				if w.nodes[name] != nil && w.pick(2) == 0 {
					from = append(from, name)
					w.offer(name, copyNo(i), size)
				}
			}
			w.offer("origin", copyNo(i), size)
			for _, name := range names {
				if w.nodes[name] == nil || w.nodes[name].core.copies[copyNo(i)] != nil {
					continue
				}
				from := append([]string(nil), from...)
				w.shuffle(from)
				w.pull(name, copyNo(i), size, from...)
				for range w.pick(12) {
					w.next()
				}
			}
		}
		for range 40 {
			w.run()
			w.tick(time.Second)
		}
		for name, n := range w.nodes {
			for c := range n.sizes {
				if n.core.copies[c] == nil || n.core.copies[c].pull != nil {
					t.Fatalf("%s: %v ended with %v", name, c, n.done[c])
				}
			}
		}
	})
}

func (w *world) shuffle(s []string) {
	for i := range s {
		j := i + w.pick(len(s)-i)
		s[i], s[j] = s[j], s[i]
	}
}

// Without a fault the order is a chain with Fanout 1: each byte leaves the origin once.
func TestChain(t *testing.T) {
	w := newWorld(t, func(int) int { return 0 }, Config{Chunk: 4, Stall: never}, "origin", "a", "b", "c", "d")
	w.offer("origin", copyNo(1), 40)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.pull(name, copyNo(1), 40, "origin")
	}
	w.run()
	for name, n := range w.nodes {
		if n.sent[copyNo(1)] > 40 {
			t.Errorf("%s sent %d bytes", name, n.sent[copyNo(1)])
		}
	}
}

// A pull with no source left says what was wrong with each.
func TestNoSource(t *testing.T) {
	w := newWorld(t, func(int) int { return 0 }, Config{Chunk: 4, Tries: 2}, "a", "b", "c")
	w.offer("c", copyNo(1), 8)
	w.pull("a", copyNo(1), 9, "gone", "b", "c")
	w.run()
	const want = "no source is left: gone: nobody answers; b: it has no copy of attempt 1; c: its copy has 8 bytes, not 9"
	err := w.nodes["a"].done[copyNo(1)][0]
	if !errors.Is(err, ErrNoSource) || err.Error() != fmt.Sprintf("pull %s: %s", copyNo(1), want) {
		t.Error(err)
	}
	w.pull("b", copyNo(1), 8)
	if err := w.nodes["b"].done[copyNo(1)][0]; !errors.Is(err, ErrNoSource) {
		t.Error(err)
	}
}

// When an agent in the middle gives up, those behind it go back to the origin.
func TestCancelInTheMiddle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	w := newWorld(t, r.IntN, Config{Chunk: 4, Window: 1, Stall: never}, "origin", "a", "b")
	w.offer("origin", copyNo(1), 40)
	w.pull("a", copyNo(1), 40, "origin")
	w.pull("b", copyNo(1), 40, "origin")
	for len(w.nodes["b"].has[copyNo(1)]) < 3 {
		w.next()
	}
	w.step(w.nodes["a"], Withdraw{Copy: copyNo(1)})
	if err := w.nodes["a"].done[copyNo(1)]; len(err) != 1 || !errors.Is(err[0], ErrCancelled) {
		t.Fatal(err)
	}
	w.run()
	if err := w.nodes["b"].done[copyNo(1)]; len(err) != 1 || err[0] != nil {
		t.Fatal(err)
	}
	if s := w.nodes["origin"].core.Stats(); s.Serving != 0 {
		t.Errorf("the origin still serves: %+v", s)
	}
}
