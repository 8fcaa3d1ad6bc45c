package pq_test

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/internal/pq"
)

type item struct{ key, at int }

type byKey struct{}

func (byKey) Before(a, b *item) bool { return a.key < b.key }
func (byKey) Placed(t *item, at int) { t.at = at }

// old is the same queue over container/heap.
type old []*item

func (h old) Len() int           { return len(h) }
func (h old) Less(i, k int) bool { return h[i].key < h[k].key }
func (h old) Swap(i, k int)      { h[i], h[k] = h[k], h[i]; h[i].at, h[k].at = i, k }
func (h *old) Push(x any)        { t := x.(*item); t.at = len(*h); *h = append(*h, t) }
func (h *old) Pop() any {
	t := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return t
}

// TestQueue holds a queue, under random operations, against a list that is sorted each
// time, and against container/heap, whose arrangement it has, also of equal values.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q pq.Queue[*item, byKey]
		var h old
		key := rapid.IntRange(0, 8)
		which := func() int { return rapid.IntRange(0, q.Len()-1).Draw(t, "which") }
		for range rapid.IntRange(1, 80).Draw(t, "operations") {
			op := rapid.SampledFrom([]string{"push", "push", "pop", "remove", "fix", "replace", "fix all", "clear"}).Draw(t, "operation")
			if q.Len() == 0 {
				op = "push"
			}
			switch op {
			case "push":
				k := key.Draw(t, "key")
				q.Push(&item{key: k})
				heap.Push(&h, &item{key: k})
			case "pop":
				least := slices.MinFunc(slices.Collect(q.All()), func(a, b *item) int { return cmp.Compare(a.key, b.key) })
				if got := q.First().key; got != least.key {
					t.Fatalf("First has key %d, the least is %d", got, least.key)
				}
				if got, want := q.Pop().key, heap.Pop(&h).(*item).key; got != want {
					t.Fatalf("Pop returned key %d, want %d", got, want)
				}
			case "remove":
				i := which()
				if got, want := q.Remove(i).key, heap.Remove(&h, i).(*item).key; got != want {
					t.Fatalf("Remove(%d) returned key %d, want %d", i, got, want)
				}
			case "fix":
				i, k := which(), key.Draw(t, "key")
				q.At(i).key, h[i].key = k, k
				q.Fix(i)
				heap.Fix(&h, i)
			case "replace":
				i, k := which(), key.Draw(t, "key")
				*q.Ref(i), h[i] = &item{k, i}, &item{k, i}
				q.Fix(i)
				heap.Fix(&h, i)
			case "fix all":
				for i := range h {
					k := key.Draw(t, "key")
					q.At(i).key, h[i].key = k, k
				}
				q.FixAll()
				heap.Init(&h)
			case "clear":
				if n := len(q.Clear()); n != len(h) || q.Len() != 0 {
					t.Fatalf("Clear returned %d values and left %d, want %d and 0", n, q.Len(), len(h))
				}
				h = nil
			}
			var got, want []item
			for t := range q.All() {
				got = append(got, *t)
			}
			for _, t := range h {
				want = append(want, *t)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("after %s the queue is %v, want %v", op, got, want)
			}
		}
		keys := make([]int, 0, q.Len())
		for q.Len() > 0 {
			keys = append(keys, q.Pop().key)
		}
		if !slices.IsSorted(keys) {
			t.Fatalf("keys left in the order %v", keys)
		}
	})
}

type rank []int

type byRank struct {
	pq.Unplaced[int]
	rank rank
}

func (o byRank) Before(a, b int) bool { return o.rank[a] < o.rank[b] }

// TestOrderWithFields is a queue of plain numbers whose order looks elsewhere.
func TestOrderWithFields(t *testing.T) {
	q := pq.Queue[int, byRank]{Order: byRank{rank: rank{30, 10, 20}}}
	for i := range 3 {
		q.Push(i)
	}
	if got := []int{q.Pop(), q.Pop(), q.Pop()}; !slices.Equal(got, []int{1, 2, 0}) {
		t.Errorf("left in the order %v", got)
	}
}

// BenchmarkQueue takes the first of n values, changes it and puts it back.
func BenchmarkQueue(b *testing.B) {
	for _, n := range []int{1, 32, 1024, 32768} {
		r := rand.New(rand.NewPCG(1, 1))
		var q pq.Queue[*item, byKey]
		var h old
		for range n {
			k := r.IntN(1 << 20)
			q.Push(&item{key: k})
			heap.Push(&h, &item{key: k})
		}
		b.Run(fmt.Sprintf("pq/%d", n), func(b *testing.B) {
			for b.Loop() {
				t := q.Pop()
				t.key += r.IntN(1 << 16)
				q.Push(t)
			}
		})
		b.Run(fmt.Sprintf("heap/%d", n), func(b *testing.B) {
			for b.Loop() {
				t := heap.Pop(&h).(*item)
				t.key += r.IntN(1 << 16)
				heap.Push(&h, t)
			}
		})
	}
}
