//go:build linux

package chaos

import (
	"fmt"
	"strings"
	"testing"
)

// stealJob keeps the only core of an agent with its first task, which waits for the
// test; the others are ready meanwhile.
const stealJob = `job: steal
params: {one: ""}
tasks:
  one: {run: chaos_gate, with: {pipe: "${params.one}"}, out: [sum], priority: 1}
  n: {run: chaos_number, for: {i: "0..39"}, with: {n: "${i}", work: 20000}, out: [sum]}
  twice: {run: chaos_scale, for: {i: "0..39"}, in: {x: "n[${i}].sum"}, out: [sum]}
outputs: [one.sum, "twice[*].sum"]
`

// An agent that joins while a job runs takes what the other has not begun: each task
// runs once, and the results are those of one agent. Killed or not, nothing is lost.
func TestJoinedAgentTakesWork(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for _, c := range []string{"none", "giver", "taker", "controller"} {
		t.Run(c+" is killed", func(t *testing.T) {
			h := New(t)
			var grace []string
			if c == "giver" || c == "taker" { // else an agent that is slow to come back would be taken for lost
				grace = []string{"--grace", "500ms"}
			}
			controller := h.Controller(grace...)
			first := h.Agent("--cpu", "1")
			client := h.ReadyClient(1)
			run := func(on func(one string)) Outcome {
				one := h.Pipe(fmt.Sprintf("one%d", h.Journal.Len()))
				begun := h.Journal.Len()
				job := h.Submit(client, stealJob, nil, "one="+one)
				h.Journal.AwaitFrom(begun, Started("one", 1))
				on(one)
				return job.Done()
			}
			want := run(func(one string) { openGate(t, one) }) // what a task takes is known from now on
			got := run(func(one string) {
				begun := h.Journal.Len()
				second := h.SecondAgent("--cpu", "1")
				h.Journal.AwaitFrom(begun, func(l Line) bool { return l.Event == "end" && strings.HasPrefix(l.Task, "n[") })
				switch c {
				case "giver":
					before := h.Journal.Len()
					first.Kill()
					h.Journal.AwaitFrom(before, Started("one", 0))
				case "taker":
					second.Kill()
				case "controller":
					controller.Kill()
					h.Controller(grace...)
				}
				openGate(t, one)
			})
			got.Same(t, want)
			if c == "giver" || c == "taker" {
				return
			}
			if on := got.Tasks["one"].Agent; on != "a1" {
				t.Errorf("one ran on %s", on)
			}
			taken := 0
			for name, row := range got.Tasks {
				if n := got.Starts(name); n != 1 {
					t.Errorf("%s started %d times\n%s", name, n, text(got.Lines))
				}
				if row.Agent == "a2" {
					taken++
				}
			}
			if taken == 0 {
				t.Error("the agent that joined ran nothing")
			}
		})
	}
}
