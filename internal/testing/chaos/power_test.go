//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/testing/smallfs"
)

// The power of the controller's host fails in the middle of a job: what was not synced
// never reaches its disk (see smallfs.Image.Cut). A controller as it is started by default has
// synced whatever it had acknowledged: jobs that were accepted are there, what was
// final stays so, and no task whose end an agent was told to be durable is lost. When
// the agent was on that host too, its memory is lost, and what is needed of it made again.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	if !smallfs.Enter(t) {
		return
	}
	want := undisturbed(t)
	for _, c := range []struct {
		name string
		both bool
	}{{"controller's host", false}, {"only host", true}} {
		t.Run(c.name, func(t *testing.T) {
			disk := smallfs.Ext4(t, t.TempDir(), 1<<30)
			h := New(t)
			args := []string{"--state", disk.Dir, "--durability", "power", "--min-free", "32MiB"}
			controller, agent := h.Controller(args...), h.Agent()
			client := h.Client()
			for round := range rounds(1, 20) {
				r := rand.New(rand.NewPCG(firstSeed(t)+uint64(round), 5))
				before := h.Submit(client, mix, nil)
				before.Done().Same(t, want)
				flag, open := heldAt(h, fmt.Sprint("gate", round))
				j := h.Submit(client, mix, nil, flag)
				accepted := h.Submit(client, mix, nil, flag)
				h.Journal.AwaitLen(j.Begun + 1 + r.IntN(mixLines-2))
				known := j.Finished()
				disk.Cut(controller.PID())
				controller.Kill()
				if c.both {
					agent.Kill()
					h.forgetMemory()
				}
				disk.Restart()
				controller = h.Controller(args...)
				if c.both {
					agent = h.Agent()
				}
				open()
				got := j.Done()
				got.Same(t, want)
				accepted.Done().Same(t, want)
				if !c.both {
					got.Rerun(t, nil)
				}
				if t.Failed() {
					t.Fatalf("round %d\n%s\n%s", round, text(got.Lines), j.Story(""))
				}
				rows, err := cascade.Rows[comms.JobRow](t.Context(), client, comms.QueryJobs, before.ID(), "")
				if err != nil || len(rows) != 1 || rows[0].Phase != comms.JobDone.String() {
					t.Errorf("a job that was done before the power failed is %+v, %v", rows, err)
				}
				t.Logf("round %d: %d tasks were known to be finished, %d started again", round, len(known), got.Again())
			}
		})
	}
}

// forgetMemory loses what is in shared memory, as a host without power does.
func (h *Host) forgetMemory() {
	h.tb.Helper()
	for _, f := range h.SharedMemory() {
		if err := os.RemoveAll(f); err != nil {
			h.tb.Fatal(err)
		}
	}
}
