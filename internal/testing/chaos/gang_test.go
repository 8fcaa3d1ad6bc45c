//go:build linux

package chaos

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/netlab"
)

// ringHosts starts a controller and an agent with so many cores on each of some hosts,
// which speak TCP; the first host has the controller, too.
func ringHosts(t *testing.T, hosts, cores int) (h *Host, restart func(i int) *Process) {
	t.Helper()
	needsHosts(t)
	lab := newLab(t, netlab.Config{Hosts: hosts})
	h = New(t)
	const insecure = "--insecure-test-network"
	controller := fmt.Sprintf("tcp://%s:%d", lab.Host(0).Addr(), killsPort)
	h.Begin = lab.Host(0).Start
	h.Controller("--listen", h.Address()+","+controller, "--grace", "2s", insecure)
	restart = func(i int) *Process {
		name := fmt.Sprintf("a%d", i+1)
		state := "agent" + strings.TrimPrefix(name[1:], "1")
		h.Begin = lab.Host(i).Start
		p := h.Agent("--controller", controller, "--listen", fmt.Sprintf("tcp://%s:%d", lab.Host(i).Addr(), killsPort+1), insecure,
			"--name", name, "--state", filepath.Join(h.State, state), "--runtime", filepath.Join(h.Sockets, name), "--cpu", fmt.Sprint(cores))
		h.Begin = nil
		return p
	}
	return h, restart
}

// ringJob is a gang that needs a core of each of four hosts, and small tasks that
// could take its slots.
const ringJob = `job: ring
tasks:
  small: {for: {i: "0..99"}, run: chaos_part, with: {size: 10}, out: [part], resources: {cpu: 1}}
  ring: {gang: 4, run: chaos_ring, with: {n: 1000, waits: %v}, out: [sums], resources: {cpu: 1}, retries: 2}
outputs: ["ring[*].sums"]
`

// checkRing compares what each member of the gang has with the sums.
func checkRing(t *testing.T, got Outcome) {
	t.Helper()
	if len(got.Data) != 4 {
		t.Fatalf("%d outputs: want one of each member", len(got.Data))
	}
	for name, b := range got.Data {
		sums := make([]float64, 1000)
		if err := binary.Read(bytes.NewReader(b), binary.LittleEndian, sums); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range sums {
			if want := float64(10 * i); sums[i] != want {
				t.Fatalf("%s has %g at %d, want %g", name, sums[i], i, want)
			}
		}
	}
}

// A ring allreduce runs on four hosts, with a member on each, while many small tasks
// want their cores.
func TestGangOverHosts(t *testing.T) {
	h, start := ringHosts(t, 4, 1)
	for i := range 4 {
		start(i)
	}
	got := h.Submit(h.ReadyClient(4), fmt.Sprintf(ringJob, false), nil).Done()
	checkRing(t, got)
	hosts := map[string]bool{}
	for _, l := range got.Lines {
		if strings.HasPrefix(l.Task, "ring") {
			hosts[l.Note] = true
		}
	}
	if len(hosts) != 4 {
		t.Errorf("members ran on %d hosts: want 4", len(hosts))
	}
}

// An agent is killed when all members of a gang have met, and comes back: the gang
// starts over as one, on all hosts.
func TestGangLosesAHost(t *testing.T) {
	h, start := ringHosts(t, 4, 1)
	agents := make([]*Process, 4)
	for i := range agents {
		agents[i] = start(i)
	}
	client := h.ReadyClient(4)
	met := 0
	killed := make(chan struct{})
	h.Journal.On(func(_ int, l Line) {
		if strings.HasPrefix(l.Task, "ring") && l.Event == "start" {
			if met++; met == 4 {
				close(killed)
			}
		}
	})
	j := h.Submit(client, fmt.Sprintf(ringJob, true), nil)
	<-killed
	agents[2].Kill()
	start(2)
	got := j.Done()
	checkRing(t, got)
	starts := map[string]int{}
	for _, l := range got.Lines {
		if strings.HasPrefix(l.Task, "ring") && l.Event == "start" {
			starts[l.Task]++
		}
	}
	for task, n := range starts {
		if n < 2 || n != starts["ring[0]"] {
			t.Errorf("%s has started %d times: want all members twice", task, n)
		}
	}
}
