//go:build linux

package chaos

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
)

var _ = cascade.Func1("chaos_fill", fill, "with -> part")

type fillSettings struct{ N int }

// fill makes an array of n numbers.
func fill(ctx context.Context, s fillSettings) (cascade.Array[float64], error) {
	a, err := begin(ctx, s.N)
	if err != nil {
		return a, err
	}
	fillWith(a.Data)
	return a, Say(ctx, "end", "")
}

// fillWith writes numbers that differ by the length.
func fillWith(a []float64) {
	for i := range a {
		a[i] = float64(i ^ len(a))
	}
}

// kinds is a job with a dataset in each way that the store has for them: a file
// of its own, a part of an arena, a page shared with others, a message, and a
// command's file. Its last task waits for the test.
func kinds(pipe string) string {
	return fmt.Sprintf(`job: kinds
tasks:
  file: {run: chaos_fill, with: {n: 33554432}, out: [part]}
  region: {run: chaos_fill, with: {n: 200000}, out: [part]}
  shared: {for: {i: "0..9"}, run: chaos_fill, with: {n: "${1000 + i}"}, out: [part]}
  inline: {run: chaos_fill, with: {n: 10}, out: [part]}
  command: {command: "echo start command $CASCADE_ATTEMPT > $CHAOS_JOURNAL; yes $CASCADE_TASK | head -c 50000000 > ${out.y}", out: [y]}
  read: {run: chaos_total, in: {parts: "shared[*].part"}, out: [sum]}
  gate: {run: chaos_gate, with: {pipe: %s}, out: [sum]}
  all:
    command: "cat ${in.gate} ${in.file} ${in.region} ${in.shared[*]} ${in.inline} ${in.command} ${in.read} | cksum > ${out.y}"
    in: {gate: gate, file: file, region: region, shared: "shared[*].part", inline: inline, command: command, read: read}
    out: [y]
outputs: [all.y, inline.part, "shared[*].part"]
`, pipe)
}

// An agent is killed when all that its last task waits for is finished, but for one
// that runs; every other time its executors and their reapers are frozen then, so that they
// outlive it. The next agent ends them and takes over what lies in memory: nothing but the
// task that ran starts again.
func TestAgentAdopts(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	agent := h.Agent("--store", "1GiB")
	c := h.Client()
	pipe := h.Pipe("gate")
	j := h.Submit(c, kinds(pipe), nil)
	h.open(pipe)
	want := j.Done()
	for round := range rounds(2, 20) {
		changed := make(chan struct{}, 1)
		j := h.SubmitWatched(c, kinds(pipe), func(*cascade.Progress) {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		for len(j.Finished()) < len(want.Tasks)-2 { // all but the gate and what waits for it
			select {
			case <-changed:
			case <-time.After(patience):
				t.Fatalf("finished are only %v\n%s", j.Finished(), j.Story(""))
			}
		}
		known := j.Finished()
		old := append(h.Reapers(), h.Executors()...)
		for _, pid := range old {
			if round%2 > 0 {
				_ = syscall.Kill(pid, syscall.SIGSTOP) // one may have ended by itself
			}
		}
		agent.Kill()
		agent = h.Agent("--store", "1GiB")
		for _, pid := range old {
			if !ended(pid) {
				t.Errorf("process %d of the agent before lives beside the next one", pid)
			}
		}
		h.open(pipe)
		got := j.Done()
		got.Same(t, want)
		for task := range known {
			if n := got.Starts(task); n != 1 {
				t.Errorf("%s has started %d times", task, n)
			}
		}
		if t.Failed() {
			t.Fatalf("%s\n%s", text(got.Lines), j.Story(""))
		}
	}
}
