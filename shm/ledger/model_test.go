package ledger

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestModel(t *testing.T) {
	for range 10 { // each with another seed and its default number of checks
		rapid.Check(t, modelRun)
	}
}

func modelRun(t *rapid.T) {
	cfg := Config{PageBytes: 16, ArenaBytes: 256, ReportFrees: true}
	cfg.Capacity = rapid.SampledFrom([]int64{64, 250, 512, 1024, 2000}).Draw(t, "capacity")
	cfg.LargeBytes = rapid.SampledFrom([]int64{50, 100, 200}).Draw(t, "large")
	cfg.ReserveBytes = rapid.SampledFrom([]int64{0, 32}).Draw(t, "reserve")
	cfg.PoolBytes = rapid.SampledFrom([]int64{0, -1, 300}).Draw(t, "pool")
	faults := rapid.Bool().Draw(t, "faults")
	outputs := rapid.Bool().Draw(t, "outputs")
	w := newWorld(t, cfg)
	w.sound = !faults && !outputs
	pick := func(n int, label string) int { return rapid.IntRange(0, n-1).Draw(t, label) }
	actions := w.taskActions(outputs, pick)
	maps.Copy(actions, w.otherActions(faults, pick))
	actions["crash"] = func(*rapid.T) { w.mustAdopt(cfg) }
	actions[""] = func(t *rapid.T) { w.mustProgress() }
	t.Repeat(actions)
	w.quiet()
	w.mustAdopt(cfg)
	w.end()
}

// taskActions are what tasks do.
func (w *world) taskActions(outputs bool, pick func(int, string) int) map[string]func(*rapid.T) {
	var nextID RequestID
	nextKey := 0
	return map[string]func(*rapid.T){
		"request": func(t *rapid.T) {
			nextID++
			r := Request{ID: nextID, Owner: Owner(pick(4, "owner")), Class: Class(pick(3, "class"))}
			keys := w.keys()
			if n := min(len(keys), pick(4, "pins")); n > 0 {
				for range n {
					r.Pins = append(r.Pins, keys[pick(len(keys), "pin")])
				}
			}
			for range pick(6, "leases") {
				s := LeaseSpec{Bytes: int64(pick(300, "bytes"))}
				if pick(4, "kind") == 0 {
					s.Kind = File
					if outputs {
						s.Kind = Output
					}
				}
				r.Leases = append(r.Leases, s)
			}
			if r.Class == Prefetch && len(r.Pins) > 0 {
				r.Leases = nil
			}
			w.request(r)
		},
		"seal": func(t *rapid.T) {
			open := sorted(w.open)
			if len(open) == 0 {
				t.Skip("no lease")
			}
			id := open[pick(len(open), "lease")]
			le := w.open[id]
			n := int64(pick(int(le.Place.Bytes-w.used[id])+1, "n"))
			if le.Kind == Output {
				n = int64(pick(300, "n"))
			}
			nextKey++
			w.seal(id, key(nextKey), n, 1+pick(2, "refs"))
		},
		"close": func(t *rapid.T) {
			open := sorted(w.open)
			if len(open) == 0 {
				t.Skip("no lease")
			}
			id := open[pick(len(open), "lease")]
			delete(w.open, id)
			delete(w.leaseOf, id)
			if err := w.l.CloseLease(id, w.used[id]); err != nil {
				t.Fatal(err)
			}
			w.drain()
		},
		"release": func(t *rapid.T) {
			ids := slices.Concat(sorted(w.granted), sorted(w.waiting))
			if len(ids) == 0 {
				t.Skip("no request")
			}
			w.release(ids[pick(len(ids), "request")])
		},
		"unpin": func(t *rapid.T) {
			for _, id := range sorted(w.granted) {
				g := w.granted[id]
				if w.class[id] != Prefetch && len(g.Pins) > 0 {
					k := g.Pins[0].Key
					g.Pins = g.Pins[1:]
					w.granted[id] = g
					if err := w.l.Unpin(id, k); err != nil {
						t.Fatal(err)
					}
					w.drain()
					return
				}
			}
			t.Skip("no pin")
		},
	}
}

// otherActions are what the cluster, the driver and fate do.
func (w *world) otherActions(faults bool, pick func(int, string) int) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"unref": func(t *rapid.T) {
			keys := w.keys()
			if len(keys) == 0 {
				t.Skip("no dataset")
			}
			k := keys[pick(len(keys), "key")]
			if i, ok := w.l.Dataset(k); !ok || i.Refs == 0 {
				t.Skip("on its way out")
			}
			if err := w.l.Unref(k, 1); err != nil {
				t.Fatal(err)
			}
			w.drain()
		},
		"elsewhere": func(t *rapid.T) {
			keys := w.keys()
			if len(keys) == 0 {
				t.Skip("no dataset")
			}
			if err := w.l.SetElsewhere(keys[pick(len(keys), "key")], pick(2, "there") == 0); err != nil {
				t.Fatal(err)
			}
			w.drain()
		},
		"death": func(t *rapid.T) {
			o := Owner(pick(4, "owner"))
			for id, of := range w.owner {
				if of == o {
					w.letGo(id)
				}
			}
			w.l.OwnerDead(o)
			w.drain()
		},
		"answer": func(t *rapid.T) {
			if len(w.todo) == 0 {
				t.Skip("nothing due")
			}
			w.answer(pick(len(w.todo), "which"), !faults || pick(4, "ok") > 0)
		},
		"answer all": func(t *rapid.T) { w.quiet() },
		"cold": func(t *rapid.T) {
			if keys := w.keys(); len(keys) > 0 {
				if err := w.l.MarkCold(keys[pick(len(keys), "key")]); err != nil {
					t.Fatal(err)
				}
			}
		},
		"prepare": func(t *rapid.T) { w.l.Prepare(int64(pick(2000, "bytes"))); w.drain() },
		"reserve": func(t *rapid.T) { w.l.SetReserve(int64(pick(64, "bytes"))); w.drain() },
		"retry":   func(t *rapid.T) { w.l.Retry(); w.drain() },
	}
}

// end answers everything and gives everything back, after which nothing may remain.
func (w *world) end() {
	for len(w.todo)+len(w.granted)+len(w.waiting) > 0 {
		w.quiet()
		w.mustProgress()
		if len(w.granted) > 0 {
			w.release(sorted(w.granted)[0])
		} else if len(w.waiting) > 0 && len(w.todo) == 0 {
			for id := range w.waiting {
				if w.class[id] != Prefetch {
					w.t.Fatalf("request %d waits in an idle world", id)
				}
			}
			w.release(sorted(w.waiting)[0])
		}
	}
	for _, k := range w.keys() {
		if err := w.l.Forget(k); err != nil {
			w.t.Fatal(err)
		}
		w.drain()
	}
	s := w.l.Stats()
	if s.Held != 0 || s.Datasets != 0 || s.Leases != 0 || s.Spilled != 0 || s.Waiting != 0 || len(w.disk) != 0 {
		w.t.Fatalf("something remains: %+v, %d spill files", s, len(w.disk))
	}
	for _, seg := range w.l.segs {
		if len(seg.regions) > 0 {
			w.t.Fatalf("segment %d still has regions", seg.id)
		}
	}
}

// TestEqualCallsGiveEqualEffects plays random calls twice.
func TestEqualCallsGiveEqualEffects(t *testing.T) {
	play := func(seed uint64) []string {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t, Config{PageBytes: 16, ArenaBytes: 256, LargeBytes: 100, Capacity: 1000, ReserveBytes: 64})
		for id := RequestID(1); id < 300; id++ {
			r := Request{ID: id, Owner: Owner(rnd.IntN(5)), Class: Class(rnd.IntN(3))}
			if keys := w.keys(); len(keys) > 0 {
				r.Pins = []Key{keys[rnd.IntN(len(keys))], keys[rnd.IntN(len(keys))]}
			}
			if r.Class != Prefetch || len(r.Pins) == 0 {
				r.Leases = []LeaseSpec{{Bytes: rnd.Int64N(150)}, {Bytes: rnd.Int64N(150)}}
			}
			w.request(r)
			for range rnd.IntN(4) {
				if len(w.todo) > 0 {
					w.answer(rnd.IntN(len(w.todo)), rnd.IntN(10) > 0)
				}
			}
			for _, le := range sorted(w.open) {
				if w.open[le].Kind == Arena && rnd.IntN(2) == 0 {
					w.seal(le, key(int(id)*100+int(le)), rnd.Int64N(w.open[le].Place.Bytes-w.used[le]+1), 1)
				}
			}
			if rnd.IntN(3) == 0 {
				o := Owner(rnd.IntN(5))
				for id, of := range w.owner {
					if of == o {
						w.letGo(id)
					}
				}
				w.l.OwnerDead(o)
				w.drain()
			}
			if rnd.IntN(4) == 0 {
				w.l.Retry()
				w.drain()
			}
		}
		return w.log
	}
	for seed := range uint64(5) {
		first := play(seed)
		for range 3 {
			if again := play(seed); !slices.Equal(first, again) {
				t.Fatalf("seed %d gives different effects", seed)
			}
		}
		if len(first) < 300 {
			t.Fatalf("seed %d gives only %d effects", seed, len(first))
		}
	}
}

func TestTransitions(t *testing.T) {
	ok := 0
	for from := Absent; from <= Reading; from++ {
		for ev := evSeal; ev <= evFree; ev++ {
			if to, can := next(from, ev); can {
				ok++
			} else if to != from {
				t.Errorf("%v by %v is not possible and leads to %v", from, ev, to)
			}
		}
	}
	if ok != 22 {
		t.Errorf("the table has %d transitions; correct state.go's drawing and this number", ok)
	}
	defer func() {
		if recover() == nil {
			t.Error("an impossible transition passed")
		}
	}()
	(&dataset{}).move(evPin)
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{{}, {Capacity: 100}, {Capacity: 1 << 30, PageBytes: 100}, {Capacity: 1 << 30, ArenaBytes: 5000},
		{Capacity: 1 << 30, LargeBytes: 1 << 30}, {Capacity: 1 << 30, ReserveBytes: -1}, {Capacity: 1 << 30, ReserveBytes: 2 << 30}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
	l, err := New(Config{Capacity: 8 << 30})
	if err != nil || l.cfg.ArenaBytes != 64<<20 || l.cfg.LargeBytes != 8<<20 || l.cfg.PoolBytes != 4<<30 {
		t.Errorf("%+v, %v", l.cfg, err)
	}
}

func TestAbsurdRequests(t *testing.T) {
	w := newWorld(t, Config{Capacity: 1 << 20})
	huge := int64(math.MaxInt64)
	for i, leases := range [][]LeaseSpec{{{Bytes: huge}}, {{Bytes: huge}, {Bytes: huge}}, {{Bytes: 1 << 20}, {Bytes: 1}}, make([]LeaseSpec, 257)} {
		id := RequestID(i + 1)
		w.request(Request{ID: id, Class: Start, Leases: leases})
		if !errors.Is(w.failed[id], ErrTooLarge) {
			t.Errorf("%d: %v", i, w.failed[id])
		}
	}
	for i, r := range []Request{{ID: 10, Leases: []LeaseSpec{{Bytes: -1}}}, {ID: 11, Leases: []LeaseSpec{{Kind: 9}}}, {ID: 12, Class: 9}} {
		if err := w.l.Request(r); err == nil {
			t.Errorf("%d was accepted", i)
		}
	}
}

func BenchmarkRequestSealRelease(b *testing.B) {
	w := newWorld(b, Config{Capacity: 1 << 30})
	w.request(Request{ID: 1, Owner: 1, Leases: []LeaseSpec{{Bytes: 1 << 12}}})
	w.quiet()
	l := w.l
	id, lease := RequestID(1), LeaseID(1)
	for b.Loop() {
		id++
		if err := l.Request(Request{ID: id, Owner: Owner(id % 2), Class: Start, Leases: []LeaseSpec{{Bytes: 1 << 12}}}); err != nil {
			b.Fatal(err)
		}
		lease++
		g := l.Take()[0].(Granted)
		k := DatasetKey([16]byte{}, 0, 0, uint64(id))
		if err := errors.Join(l.Seal(lease, k, g.Leases[0].Place.Offset, 1000, 1), l.Release(id), l.Unref(k, 1)); err != nil {
			b.Fatal(err)
		}
		l.Take()
	}
}
