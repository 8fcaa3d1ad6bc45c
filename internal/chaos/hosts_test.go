//go:build linux

package chaos

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
)

// at calls do once when the journal has its n-th line, counted from 1. The channel
// is closed when do has returned.
func at(h *Host, n int, do func()) <-chan struct{} {
	done := make(chan struct{})
	var once sync.Once
	h.Journal.On(func(at int, _ Line) {
		if at >= n {
			once.Do(func() { do(); close(done) })
		}
	})
	return done
}

// A job that is worth it runs on two agents, and delivers what it does on one.
func TestTwoAgentsShareAJob(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	h := New(t)
	h.Controller()
	h.Agent()
	h.SecondAgent()
	j := h.Submit(h.Client(), mix, nil)
	got := j.Done()
	got.Same(t, want)
	on := map[string]int{}
	for _, row := range got.Tasks {
		on[row.Agent]++
	}
	if len(on) != 2 {
		t.Errorf("tasks ran on %v: want both agents", on)
	}
}

// One of two agents is killed in the middle of a job and does not come back: what
// it had is made again by the other, after the grace.
func TestOneOfTwoAgentsKilled(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	for i := range rounds(2, 30) {
		r := rand.New(rand.NewPCG(firstSeed(t)+uint64(i), 7))
		h := New(t)
		h.Controller("--grace", "500ms")
		agents := []*Process{h.Agent(), h.SecondAgent()}
		j := h.Submit(h.Client(), mix, nil)
		victim := r.IntN(2)
		killAt(h, j.First+1+r.IntN(mixLines-2), nil, agents[victim])
		got := j.Done()
		got.Same(t, want)
		if t.Failed() {
			t.Fatalf("round %d, agent %d\n%s\n%s", i, victim+1, text(got.Lines), j.Story(""))
		}
	}
}

// The controller is stopped when a job has just begun on two agents, and goes on
// only when every task has ended: the agents tell each other what they must know.
func TestControllerFrozenWhileTwoAgentsRun(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	h := New(t)
	controller := h.Controller()
	h.Agent()
	h.SecondAgent()
	j := h.Submit(h.Client(), mix, nil)
	<-at(h, j.First+1, func() { controller.Signal(syscall.SIGSTOP) })
	<-at(h, j.First+mixLines-1, func() { controller.Signal(syscall.SIGCONT) })
	h.Journal.On(nil)
	got := j.Done()
	got.Same(t, want)
	got.Rerun(t, nil)
}
