//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// keeper starts a controller again whenever it has died of its failpoint.
type keeper struct {
	h    *Host
	arm  func(nth int) string // the failpoint of the n-th controller; "" none
	stop chan struct{}
	once sync.Once
	done chan struct{}

	deaths int // its own until done is closed
	now    *Process
}

func keep(h *Host, arm func(nth int) string) *keeper {
	k := &keeper{h: h, arm: arm, stop: make(chan struct{}), done: make(chan struct{})}
	k.now = k.start()
	k.now.Await("ipc://")
	go k.run()
	h.tb.Cleanup(k.close)
	return k
}

func (k *keeper) start() *Process {
	return k.h.startWith([]string{"CASCADE_FAILPOINT=" + k.arm(k.deaths)}, "cascade-controller", Program(k.h.tb, "cascade-controller"), k.h.controllerArgs("--shards", "8")...)
}

func (k *keeper) run() {
	defer close(k.done)
	for {
		select {
		case <-k.now.done:
			if code := k.now.cmd.ProcessState.ExitCode(); code >= 0 {
				k.h.tb.Errorf("the controller ended with %d and was not killed", code)
				return
			}
			k.deaths++
			k.now = k.start()
		case <-k.stop:
			return
		}
	}
}

// close ends the keeper; who lives goes on.
func (k *keeper) close() {
	k.once.Do(func() { close(k.stop) })
	<-k.done
}

// end leaves a controller without a failpoint and returns how many died.
func (k *keeper) end() int {
	k.close()
	k.now.Kill()
	k.h.Controller()
	return k.deaths
}

// The controller dies between the receipt of events and their commit, between the
// commit and telling of it, and between the commits of two shards; the next one
// soon dies too. Every task runs exactly once all the same.
func TestControllerKilled(t *testing.T) {
	t.Parallel()
	h := New(t)
	want := undisturbed(t)
	r := rand.New(rand.NewPCG(firstSeed(t), 1))
	points := []string{"controller.received", "controller.received", "controller.stored", "gcs.group"}
	var armed string
	deaths := make(chan string, 10_000)
	k := keep(h, func(nth int) string {
		if nth > 0 {
			deaths <- armed
		}
		armed = points[r.IntN(len(points))]
		return fmt.Sprintf("%s=%d", armed, 1+r.IntN(9))
	})
	h.Agent()
	c := h.Client()
	died := map[string]int{}
	for wanted := rounds(5, 100); died["controller.received"] < wanted || died["controller.stored"] == 0 || died["gcs.group"] == 0; {
		// Two jobs at once have their records in different shards, but for one time in eight.
		jobs := []*Job{h.Submit(c, mix, nil), h.Submit(c, mix, nil)}
		for _, j := range jobs {
			got := j.Done()
			got.Same(t, want)
			got.Rerun(t, nil)
			if t.Failed() {
				t.Fatalf("after deaths at %v\n%s\n%s", died, text(got.Lines), j.Story(""))
			}
		}
		for len(deaths) > 0 {
			died[<-deaths]++
		}
	}
	t.Logf("the controller died %d times, at %v", k.end(), died)
}
