//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// rows is a job whose tasks travel in columns, there and back: many of a family
// without outputs, which are told to have ended in a row, and paths whose values
// nobody but the next task has.
func rows() string {
	var b strings.Builder
	b.WriteString(`job: rows
tasks:
  tick: {for: {i: "0..399"}, run: chaos_number, with: {n: 1, work: 0}}
  s0: {for: {i: "0..3"}, run: chaos_part, with: {size: "${500 + i}"}, out: [part]}
`)
	for k := 1; k <= pathSteps; k++ {
		fmt.Fprintf(&b, "  s%d: {for: {i: \"0..3\"}, run: chaos_step, in: {part: \"s%d[${i}].part\"}, with: {work: 0}, out: [part]}\n", k, k-1)
	}
	fmt.Fprintf(&b, "outputs: [\"s%d[*].part\"]\n", pathSteps)
	return b.String()
}

const (
	pathSteps = 40
	rowsLines = 2 * (400 + 4*(pathSteps+1))
)

// An executor is killed somewhere in rows and paths that are told in columns. What
// was told as finished does not run again, everything else does, once, and the
// same numbers come out.
func TestRowsKilled(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	c := h.Client()
	want := h.Submit(c, rows(), nil).Done()
	if len(want.Lines) != rowsLines || len(want.Data) != 4 {
		t.Fatalf("%d lines and %d outputs, want %d and 4", len(want.Lines), len(want.Data), rowsLines)
	}
	for i := range rounds(2, 60) {
		seed := firstSeed(t) + uint64(i)
		of, left := "tick", 1+rand.New(rand.NewPCG(seed, 6)).IntN(790)
		if i%2 == 1 {
			of, left = "s", left*320/790
		}
		var once sync.Once
		var victim Line
		var known map[string]bool
		submitted := make(chan struct{})
		var j *Job
		h.Journal.On(func(_ int, l Line) {
			if strings.HasPrefix(l.Task, of) {
				left--
			}
			if left > 0 {
				return
			}
			once.Do(func() {
				<-submitted
				known, victim = j.Finished(), l
				if err := syscall.Kill(l.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // one that was spare may have ended
					t.Errorf("seed %d: %v", seed, err)
				}
			})
		})
		j = h.Submit(c, rows(), nil)
		close(submitted)
		got := j.Done()
		h.Journal.On(nil)
		got.Same(t, want)
		got.Rerun(t, known, victim.PID)
		ended := map[string]bool{}
		for _, l := range got.Lines {
			if l.Event == "end" {
				ended[l.Task] = true
			}
		}
		if len(ended) != rowsLines/2 {
			t.Errorf("%d tasks have ended, want %d", len(ended), rowsLines/2)
		}
		t.Logf("seed %d: killed at %v; %d tasks were known to be finished, %d started again", seed, victim, len(known), got.Again())
		if t.Failed() {
			t.Fatalf("seed %d: %s", seed, j.Story(victim.Task))
		}
	}
}
