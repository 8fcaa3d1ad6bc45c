package core

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIntake gives batches, some of them again, in the order in which a link carries
// them, and makes their commits durable in any order. What is acknowledged must be
// durable, must never fall, and must be all at the end.
func TestIntake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in intake
		var open []*batch
		undurable := map[uint64]bool{} // numbers
		owns := map[*batch][]uint64{}
		commits := func() {
			before := in.committed
			upTo, moved := in.durable()
			if moved != (upTo > before) || upTo < before || upTo > in.received {
				t.Fatalf("committed %d before, then %d of %d, moved %v", before, upTo, in.received, moved)
			}
			for n := range undurable {
				if n <= upTo {
					t.Fatalf("%d is not durable, and acknowledged by %d", n, upTo)
				}
			}
		}
		finish := func(i int) {
			b := open[i]
			if b.left--; b.left == 0 {
				for _, n := range owns[b] {
					delete(undurable, n)
				}
				open = append(open[:i:i], open[i+1:]...)
			}
			commits()
		}
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			if len(open) > 0 && rapid.Bool().Draw(t, "commit") {
				finish(rapid.IntRange(0, len(open)-1).Draw(t, "which"))
				continue
			}
			first := rapid.Uint64Range(in.committed+1, in.received+1).Draw(t, "first") // as a link that broke
			last := first + rapid.Uint64Range(0, 4).Draw(t, "more")
			fresh := last - first + 1 - min(passed(first, in.received), last-first+1)
			b := &batch{left: rapid.IntRange(0, 3).Draw(t, "commits")}
			if took := in.take(b, last); took != (fresh > 0) {
				t.Fatalf("%d to %d behind %d: taken %v", first, last, in.received, took)
			} else if took {
				for n := last - fresh + 1; n <= last && b.left > 0; n++ {
					owns[b] = append(owns[b], n)
					undurable[n] = true
				}
				if b.left > 0 {
					open = append(open, b)
				}
			}
			commits()
		}
		for len(open) > 0 {
			finish(0)
		}
		if in.committed != in.received || len(in.batches) > 0 {
			t.Fatalf("all is durable, and %d of %d acknowledged", in.committed, in.received)
		}
	})
}

func TestPassed(t *testing.T) {
	for _, tt := range []struct{ first, seen, want uint64 }{
		{1, 0, 0}, {1, 1, 1}, {1, 5, 5}, {5, 5, 1}, {6, 5, 0}, {3, 5, 3},
	} {
		if got := passed(tt.first, tt.seen); got != tt.want {
			t.Errorf("passed(%d, %d) = %d, want %d", tt.first, tt.seen, got, tt.want)
		}
	}
}
