//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/netlab"
)

// at calls do once when the journal has its n-th line, counted from 1, which it may
// have already. The channel is closed when do has returned.
func at(h *Host, n int, do func()) <-chan struct{} {
	done := make(chan struct{})
	var once sync.Once
	now := func() { once.Do(func() { do(); close(done) }) }
	h.Journal.On(func(at int, _ Line) {
		if at >= n {
			now()
		}
	})
	if h.Journal.Len() >= n {
		now()
	}
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
	j := h.Submit(h.ReadyClient(2), mix, nil)
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

// One of two agents is killed in the middle of a job and does not come back: its
// datasets are recomputed by the other. The grace, which is longer than the test may last, is for
// agents that may still live: this one's connection was closed, and nothing listens where it did.
func TestOneOfTwoAgentsKilled(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	for i := range rounds(2, 30) {
		r := rand.New(rand.NewPCG(firstSeed(t)+uint64(i), 7))
		h := New(t)
		controller := h.Controller("--grace", "1h")
		agents := []*Process{h.Agent(), h.SecondAgent()}
		gate, open := held(h)
		j := h.Submit(h.ReadyClient(2), mix, nil, gate)
		victim := r.IntN(2)
		killAt(h, j.Begun+1+r.IntN(mixLines-2), nil, agents[victim])
		controller.Await(fmt.Sprintf(`"peer":"a%d","error"`, victim+1)) // see TestHostKilled
		open()
		got := j.Done()
		got.Same(t, want)
		if t.Failed() {
			t.Fatalf("round %d, agent %d\n%s\n%s", i, victim+1, text(got.Lines), j.Story(""))
		}
	}
}

// needsHosts skips a test that makes hosts of one machine, where that cannot be or takes too long.
func needsHosts(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds programs and starts many processes")
	}
	if os.Getuid() != 0 {
		t.Skip("hosts of one machine need root")
	}
}

// threeHosts starts a controller and two agents on hosts of their own, with a short grace.
// All have the flags that are given.
func threeHosts(t *testing.T, flags ...string) (h *Host, lab *netlab.Lab, controller *Process, agents [2]*Process) {
	t.Helper()
	lab = newLab(t, netlab.Config{Hosts: 3})
	h, controller, agents = startOn(t, lab, "500ms", flags...)
	return h, lab, controller, agents
}

// startOn starts a controller on the first host of a lab and agents a1 and a2 on the next, which
// speak TCP. Each agent has the resource at_ and its name.
func startOn(t *testing.T, lab *netlab.Lab, grace string, flags ...string) (h *Host, controller *Process, agents [2]*Process) {
	t.Helper()
	h = New(t)
	controller = controllerOn(h, lab, grace, flags...)
	flags = append(flags, "--insecure-test-network")
	address := fmt.Sprintf("tcp://%s:7420", lab.Host(0).Addr())
	for i, start := range []func(...string) *Process{h.Agent, h.SecondAgent} {
		h.Begin = lab.Host(i + 1).Start
		agents[i] = start(slices.Concat(flags, []string{"--controller", address, "--listen", fmt.Sprintf("tcp://%s:7421", lab.Host(i+1).Addr()),
			"--resource", fmt.Sprintf("at_a%d=100", i+1)})...)
	}
	h.Begin = nil
	return h, controller, agents
}

// controllerOn starts the controller of startOn.
func controllerOn(h *Host, lab *netlab.Lab, grace string, flags ...string) *Process {
	h.tb.Helper()
	h.Begin = lab.Host(0).Start
	defer func() { h.Begin = nil }()
	return h.Controller(slices.Concat(flags, []string{"--insecure-test-network",
		"--listen", fmt.Sprintf("%s,tcp://%s:7420", h.Address(), lab.Host(0).Addr()), "--grace", grace})...)
}

// Controller and agents have hosts of their own and speak TCP. All that runs on one
// agent's host is killed in the middle of a job: the other goes on.
func TestHostKilled(t *testing.T) {
	t.Parallel()
	needsHosts(t)
	want := undisturbed(t)
	h, lab, controller, _ := threeHosts(t)
	gate, open := held(h)
	j := h.Submit(h.ReadyClient(2), mix, nil, gate)
	<-at(h, j.Begun+mixLines/4, func() {
		// It stands still first: what it had made may be all that is missing.
		if err := errors.Join(lab.Host(2).Freeze(), lab.Host(2).Kill()); err != nil {
			t.Error(err)
		}
	})
	controller.Await(`"peer":"a2","error"`) // an output of a job that had ended before would stay lost
	open()
	h.Journal.On(nil)
	j.Done().Same(t, want)
}

// Nothing is heard of a host in the middle of a job, for longer than the silence that
// the daemons were told and the grace: the other makes what it had. Then it is back,
// with all that it had begun: nothing of that counts. The next job it runs alone.
func TestHostIsBack(t *testing.T) {
	t.Parallel()
	needsHosts(t)
	want := undisturbed(t)
	for _, c := range []struct {
		name         string
		breaks, mend func(*netlab.Host) error
	}{
		{"cut off", (*netlab.Host).Cut, (*netlab.Host).Mend},
		{"frozen", (*netlab.Host).Freeze, (*netlab.Host).Thaw},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, lab, controller, agents := threeHosts(t, "--silence", "3s") // a busy host may be late by one
			gate, open := held(h)
			client := h.ReadyClient(2)
			j := h.Submit(client, mix, nil, gate)
			<-at(h, j.Begun+mixLines/4, func() {
				if err := c.breaks(lab.Host(2)); err != nil {
					t.Error(err)
				}
			})
			h.Journal.On(nil)
			controller.Await(`"peer":"a2","error"`) // given up: after the silence and the grace
			h.Journal.AwaitFrom(j.Begun, Started("total", 0))
			if c.name == "cut off" { // its agent goes on, and finds all others silent
				agents[1].Await("nothing heard for 3s")
			}
			if err := c.mend(lab.Host(2)); err != nil {
				t.Fatal(err)
			}
			if err := client.Ready(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			open()
			got := j.Done()
			got.Same(t, want)
			if on := got.Tasks["total"].Agent; on != "a1" {
				t.Errorf("the last task ran on %s: want a1, which was never away", on)
			}
			agents[0].Stop()
			h.Submit(client, mix, nil).Done().Same(t, want)
		})
	}
}

// The controller is stopped when a job has just begun on two agents, and goes on
// only when every task has ended: the agents tell each other what they must know.
func TestControllerFrozenWhileTwoAgentsRun(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	h := New(t)
	controller := h.Controller()
	h.Agent("--resource", "at_a1=1")
	h.SecondAgent("--resource", "at_a2=1")
	first, open := heldBy(h, "first", "first")
	j := h.Submit(h.ReadyClient(2), strings.Replace(mix, "tasks:\n", `tasks:
  here: {run: chaos_number, with: {n: 1, work: 0}, resources: {at_a1: 1}}
  there: {run: chaos_number, with: {n: 1, work: 0}, resources: {at_a2: 1}}
`, 1), nil, first)
	for _, task := range []string{"here", "there", "source"} { // both agents have their part of the job
		h.Journal.AwaitFrom(j.Begun, Started(task, 1))
	}
	controller.Signal(syscall.SIGSTOP)
	open()
	<-at(h, j.Begun+mixLines+4-1, func() { controller.Signal(syscall.SIGCONT) })
	h.Journal.On(nil)
	got := j.Done()
	got.Same(t, want)
	got.Rerun(t, nil)
	on := map[string]int{}
	for name, row := range got.Tasks {
		if name != "here" && name != "there" {
			on[row.Agent]++
		}
	}
	if len(on) != 2 {
		t.Errorf("tasks ran on %v: want both agents", on)
	}
}
