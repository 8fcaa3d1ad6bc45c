//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade/internal/testing/netlab"
)

// While jobs run, the controller notices that an agent is killed by the end of its
// connection, not by its silence; that its host is frozen, by that, and not before.
//
//	CASCADE_TIER=nightly go test ./internal/testing/chaos -run TestNoticed -v     # prints how long it took
func TestNoticed(t *testing.T) {
	needsHosts(t)
	const silence = 3 * time.Second
	seed := firstSeed(t)
	lab := newLab(t, netlab.Config{Hosts: 3}) // which ends last
	c := &cluster{Host: New(t), lab: lab, silence: silence.String(), rnd: rand.New(rand.NewPCG(seed, 11))}
	c.found()
	c.startController().Await("ipc://")
	agents := []int{1, 2}
	for _, i := range agents {
		c.startAgent(i).Await("controller is there")
	}
	w := &waves{h: c.Host, client: c.ReadyClient(len(agents)), want: map[int]map[string][]byte{}}
	w.want[0] = w.run(t.Context(), 0, func(uint64) {})
	stop := make(chan struct{})
	var jobs sync.WaitGroup
	jobs.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				w.same(0)
			}
		}
	})
	defer jobs.Wait()
	defer close(stop)

	var kills, freezes []time.Duration
	for n := range rounds(4, 50) {
		i := agents[n%len(agents)]
		took, why := c.noticed(i, func() { c.agents[i].Signal(syscall.SIGKILL) })
		if strings.Contains(why, "nothing heard") {
			t.Errorf("that an agent was killed was noticed by its silence, after %v: %s", took, why)
		}
		kills = append(kills, took)
		c.agents[i].Wait()
		c.startAgent(i)
	}
	for n := range rounds(1, 20) {
		host := c.lab.Host(agents[n%len(agents)])
		took, why := c.noticed(agents[n%len(agents)], func() {
			if err := host.Freeze(); err != nil {
				t.Error(err)
			}
		})
		if !strings.Contains(why, "nothing heard for "+silence.String()) {
			t.Errorf("that a host was frozen was noticed after %v: %s", took, why)
		}
		freezes = append(freezes, took)
		if err := host.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d: noticed that an agent was killed after %s; that a host was frozen after %s", seed, spread(kills), spread(freezes))
}

// noticed has something happen to an agent at some moment, and returns how long it took until the
// controller had said that the agent's link is broken, and why it is.
func (c *cluster) noticed(i int, happen func()) (took time.Duration, why string) {
	c.tb.Helper()
	peer := fmt.Sprintf(`"peer":"a%d"`, i+1)
	is := func(what ...string) func(string) bool {
		return func(output string) bool {
			at := strings.LastIndex(output, peer)
			why, _, whole := strings.Cut(output[max(at, 0):], "\n")
			return whole && slices.ContainsFunc(what, func(w string) bool { return strings.Contains(why, w) })
		}
	}
	c.controller.awaitThat("that the link is there", is(`"link is up"`, `"link is back"`))
	c.pause(0, 300*time.Millisecond)
	before := len(c.controller.Output())
	began := time.Now()
	happen()
	c.controller.awaitThat("that the link is broken", is(`"link is broken`, `"link is down"`))
	took = time.Since(began)
	_, why, _ = strings.Cut(c.controller.Output()[before:], peer+`,"why":`)
	why, _, _ = strings.Cut(why, "\n")
	return took, why
}

// spread describes some times.
func spread(all []time.Duration) string {
	slices.Sort(all)
	at := func(q float64) time.Duration {
		return all[int(q*float64(len(all)-1)+0.5)].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf("%v (p50), %v (p99), %v (most), of %d", at(0.5), at(0.99), at(1), len(all))
}
