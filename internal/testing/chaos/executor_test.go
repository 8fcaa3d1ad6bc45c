//go:build linux

package chaos

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// An executor is killed at a random moment: up to 2 ms after the n-th line, the one
// that wrote it or another. What was lost runs again, and nothing else does.
func TestExecutorKilled(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent()
	c := h.Client()
	want := h.Submit(c, mix, nil).Done()
	if len(want.Lines) != mixLines {
		t.Fatalf("%d lines, want %d", len(want.Lines), mixLines)
	}
	var noticed, again []time.Duration
	for i := range rounds(8, 200) {
		seed := firstSeed(t) + uint64(i)
		r := rand.New(rand.NewPCG(seed, 0))
		at, other := 1+r.IntN(mixLines-2), r.IntN(3) == 0
		later := time.Duration(r.IntN(2)) * time.Duration(r.IntN(2000)) * time.Microsecond
		var once sync.Once
		var victim int
		var killed time.Time
		var j *Job
		var known map[string]bool
		submitted := make(chan struct{})
		from := h.Journal.Len()
		h.Journal.On(func(n int, l Line) {
			if n < from+at {
				return
			}
			once.Do(func() {
				<-submitted
				time.Sleep(later) // the moment between two lines that the seed names
				known = j.Finished()
				victim = l.PID
				if other {
					for _, pid := range h.Executors() {
						if pid != l.PID {
							victim = pid
						}
					}
				}
				killed = time.Now()
				if err := syscall.Kill(victim, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // one that was spare may have ended
					t.Errorf("seed %d: %v", seed, err)
				}
			})
		})
		j = h.Submit(c, mix, nil)
		close(submitted)
		got := j.Done()
		t.Log(seed, time.Since(killed), got.Progress.Ended-got.Progress.Started)
		h.Journal.On(nil)
		got.Same(t, want)
		got.Rerun(t, known, victim)
		for _, l := range got.Lines {
			if l.Event == "start" && l.Attempt > 1 && l.At.After(killed) {
				again = append(again, l.At.Sub(killed))
				if at, ok := j.First("retried"); ok {
					noticed = append(noticed, at.Sub(killed))
				}
				break
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: killed %d at line %d (another than the one that wrote it: %v)\n%s\n%s", seed, victim, at, other, text(got.Lines), j.Story(""))
		}
	}
	report(t, "from the kill of an executor to a new attempt at its task", noticed)
	report(t, "from the kill of an executor to the next start of its task", again)
}

// report logs the distribution of what was measured.
func report(t *testing.T, what string, all []time.Duration) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[min(len(all)-1, int(q*float64(len(all))))] }
	t.Logf("%s: p50 %v, p99 %v, worst %v of %d", what, at(0.5), at(0.99), all[len(all)-1], len(all))
}
