package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/internal/wfformat"
	"github.com/cascade-run/cascade/planner"
)

// Bounds worked out by hand: 1000 bytes a second, so that latency is lost in rounding.
func TestBound(t *testing.T) {
	// fan is a task of a second, those that read its output, and one that reads theirs.
	fan := func(bytes float64, seconds ...float64) *job {
		n := len(seconds)
		j := &job{seconds: append(append([]float64{1}, seconds...), 1), data: []item{{bytes: bytes}}, makes: [][]int{{0}}, takes: [][]int{nil}}
		var all []int
		for i := 1; i <= n; i++ {
			j.data[0].takers = append(j.data[0].takers, i)
			j.data = append(j.data, item{maker: i, takers: []int{n + 1}})
			j.makes, j.takes = append(j.makes, []int{i}), append(j.takes, []int{0})
			all = append(all, i)
		}
		j.makes, j.takes = append(j.makes, nil), append(j.takes, all)
		return j
	}
	for _, x := range []struct {
		name  string
		cores []int
		j     *job
		want  float64
	}{
		{"the critical path", []int{4}, fan(0, 5, 1, 1), 1 + 5 + 1},
		{"all that is between two", []int{2}, fan(0, 3, 3, 2, 2), 1 + 5 + 1},
		{"one core has three of five", []int{2}, fan(0, 1, 1, 1, 1, 1), 1 + 3 + 1},
		{"nothing is worth its way", []int{1, 1}, fan(9000, 1, 1, 1, 1), 1 + 4 + 1},
		{"the second host begins two seconds later", []int{1, 1}, fan(2000, 1, 1, 1, 1), 1 + 3 + 1},
		{"the third has it after the second", []int{1, 1, 1}, fan(1000, 1.5, 1.5, 1.5), 1 + 3 + 1},
	} {
		c := cluster{"", x.cores, 1000}
		if got := c.bound(x.j); math.Abs(got-x.want) > 0.01 {
			t.Errorf("%s: %g, want %g", x.name, got, x.want)
		}
	}
}

// No plan ends before the bound, of all that there are of small jobs, and it is not below the planner's.
func TestNoPlanIsBelowTheBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(rt, "tasks")
		seconds, bytes, reads := make([]float64, n), make([]float64, n), make([][]int, n)
		for i := range n {
			seconds[i] = float64(rapid.IntRange(0, 4).Draw(rt, "seconds"))
			bytes[i] = float64(rapid.SampledFrom([]int{0, 100_000_000, 400_000_000}).Draw(rt, "bytes"))
			for k := range i {
				if rapid.IntRange(0, 2).Draw(rt, "reads") == 0 {
					reads[i] = append(reads[i], k)
				}
			}
		}
		im, err := wfformat.Read("r.json", recording(seconds, bytes, reads), wfformat.Defaults())
		if err != nil {
			rt.Fatal(err)
		}
		j, err := newJob(im.Graph, im.Profile.Snapshot())
		if err != nil {
			rt.Fatal(err)
		}
		c := cluster{"", rapid.SampledFrom([][]int{{1}, {2}, {1, 1}, {2, 1}}).Draw(rt, "cores"), 1e8}
		bound, best := c.bound(j), math.Inf(1)
		for hosts := range 1 << n {
			ch := choice{make([]int, n), make([]float64, n)}
			for i := range n {
				ch.host[i] = hosts >> i & 1 % len(c.cores)
			}
			turns(n, ch.first, func() { best = min(best, c.play(j, ch)) })
		}
		if bound > best+1e-6 {
			rt.Fatalf("a plan takes %g, and the bound is %g", best, bound)
		}
		p, err := planner.Make(im.Graph, im.Profile.Snapshot(), c.planned())
		if err != nil || bound < p.LowerBound-1e-6 {
			rt.Fatalf("the bound is %g, %v; that of the planner %g", bound, err, p.LowerBound)
		}
	})
}

// turns has each order of n numbers in first.
func turns(n int, first []float64, with func()) {
	if n == 0 {
		with()
		return
	}
	for i := range first {
		if first[i] == 0 {
			first[i] = float64(n)
			turns(n-1, first, with)
			first[i] = 0
		}
	}
}

func TestProof(t *testing.T) {
	dir := t.TempDir()
	// Five tasks of a second on four cores, proven; and four that exchange what one host cannot have soon, which is left open.
	for _, f := range []struct {
		name  string
		bytes float64
		reads [][]int
	}{{"proven", 0, [][]int{nil, nil, nil, nil, nil}}, {"open", 5e8, [][]int{nil, nil, {0, 1}, {0, 1}, {0, 1}}}} {
		b := recording([]float64{1, 1, 1, 1, 1}, slices.Repeat([]float64{f.bytes}, 5), f.reads)
		if err := os.WriteFile(filepath.Join(dir, f.name+".json"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	files := []string{filepath.Join(dir, "proven.json"), filepath.Join(dir, "open.json")}
	if err := (proof{evaluations: 20, search: 1}).run(&out, files, clusters()[1:2]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| recording | 4x1 1G | all |", "| proven | 1.000 | 1.000 |", "1 of 2 plans are proven to be within 1.05 of the best that there is.",
		"| recording | cluster | ours | ours for longer | HEFT and search |", "| open | 4x1 1G |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

// A search finds what a bad choice leaves open.
func TestClimb(t *testing.T) {
	j := &job{seconds: []float64{1, 1, 1, 3}, makes: make([][]int, 4), takes: make([][]int, 4)}
	c := cluster{"", []int{1, 1}, 1000}
	left := 1000
	if got := c.climb(j, choice{[]int{0, 0, 0, 0}, []float64{1, 2, 3, 4}}, func() bool { left--; return left > 0 }); got != 3 {
		t.Errorf("it takes %g s, and could take 3", got)
	}
}
