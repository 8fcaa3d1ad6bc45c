//go:build linux

package chaos

import (
	"flag"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade/internal/testing/netlab"
)

var longFor = flag.Duration("long", 0, "how long the task of TestLongTask takes at least")

// A task runs while its controller is killed and starts anew, the link of its host is cut for
// longer than the silence after which links break, and the controller is stopped and starts anew.
// It runs on, once, and what it makes is delivered.
//
//	go test ./internal/testing/chaos -run 'TestLongTask$' -v -long 10m -timeout 20m
func TestLongTask(t *testing.T) {
	t.Parallel()
	needsHosts(t)
	const grace = "5m"
	flags := []string{"--silence", "2s"}
	lab := newLab(t, netlab.Config{Hosts: 3})
	h, controller, agents := startOn(t, lab, grace, flags...)
	h.Patience += *longFor
	gate := h.Pipe("gate")
	client := h.ReadyClient(2)
	j := h.Submit(client, `job: long
params: {gate: ""}
tasks:
  slow: {run: chaos_gate, with: {pipe: "${params.gate}"}, out: [sum], resources: {at_a2: 1}}
  next: {run: chaos_scale, in: {x: slow.sum}, out: [sum], resources: {at_a1: 1}}
outputs: [next.sum]
`, nil, "gate="+gate)
	h.Journal.Await(Started("slow", 1))
	over := time.After(*longFor)

	anew := func(by syscall.Signal) {
		controller.Signal(by)
		controller.Wait()
		controller = controllerOn(h, lab, grace, flags...)
		if err := client.Ready(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
	}
	anew(syscall.SIGKILL)

	silent := strings.Count(agents[1].Output(), "nothing heard for 2s")
	if err := lab.Host(2).Cut(); err != nil {
		t.Fatal(err)
	}
	controller.Await("nothing heard for 2s")
	agents[1].AwaitTimes("nothing heard for 2s", silent+1)
	if err := lab.Host(2).Mend(); err != nil {
		t.Fatal(err)
	}
	controller.Await(`"link is back"`)

	anew(syscall.SIGTERM)
	<-over
	openGate(t, gate)
	got := j.Done()
	if n := got.Starts("slow"); n != 1 {
		t.Errorf("the long task has started %d times\n%s", n, j.Story("slow"))
	}
	if on := got.Tasks["slow"].Attempt; on != 1 {
		t.Errorf("the long task is done in attempt %d\n%s", on, j.Story("slow"))
	}
}
