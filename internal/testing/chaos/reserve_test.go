//go:build linux

package chaos

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade"
)

var _ = cascade.Func1("chaos_hoard", hoard, "with -> sum")

type hoardSettings struct{ N int }

// hoard takes N MiB of private memory, which neither a collector nor the race detector
// has a part in, and waits for its end when that is more than it was granted.
func hoard(ctx context.Context, s hoardSettings) (float64, error) {
	if err := Say(ctx, "start", ""); err != nil {
		return 0, err
	}
	all, err := unix.Mmap(-1, 0, s.N<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return 0, err
	}
	if int64(len(all)) > cascade.Task(ctx).Resources.Memory {
		<-ctx.Done()
		return 0, errors.Join(ctx.Err(), unix.Munmap(all))
	}
	return float64(len(all)), errors.Join(Say(ctx, "end", ""), unix.Munmap(all))
}

// A task takes more memory than its job says, and than its host has: it gets all that is
// there, and then goes to the agent that has more, also when the controller dies before
// it has heard of that. What reads from it does not notice.
func TestTooMuchMemoryForItsHost(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for _, c := range []string{"nothing", "the controller"} {
		t.Run(c+" is killed", func(t *testing.T) {
			h := New(t)
			controller := h.Controller()
			h.Agent("--cpu", "1", "--memory", "96MiB")
			h.SecondAgent("--cpu", "1", "--memory", "512MiB")
			j := h.Submit(h.ReadyClient(2), `job: hungry
tasks:
  big: {run: chaos_hoard, with: {n: 150}, out: [sum], resources: {memory: 64MiB}}
  after: {run: chaos_scale, in: {x: big.sum}, out: [sum]}
outputs: [after.sum]
`, nil)
			h.Journal.Await(Started("big", 2))
			if c != "nothing" {
				controller.Kill()
				h.Controller()
			}
			got := j.Done()
			if n, on := got.Starts("big"), got.Tasks["big"].Agent; n != 3 || on != "a2" {
				t.Errorf("it started %d times, last on %s\n%s", n, on, text(got.Lines))
			}
			if n := got.Starts("after"); n != 1 {
				t.Errorf("what reads from it started %d times", n)
			}
			story := j.Story("big")
			for _, want := range []string{"and was granted 64MiB", "; tried again with 96MiB", "and was granted 96MiB", "MiB on a host that has as much"} {
				if !strings.Contains(story, want) {
					t.Errorf("its story does not say %q:\n%s", want, story)
				}
			}
		})
	}
}
