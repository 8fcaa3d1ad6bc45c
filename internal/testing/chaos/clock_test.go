//go:build linux

package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// otherClocks are the arguments that start a program with monotonic and boot
// clocks of its own, so many seconds before those of the host, or behind them.
func otherClocks(t *testing.T, seconds int) []string {
	t.Helper()
	args := []string{"unshare", "--time", "--monotonic", strconv.Itoa(seconds), "--boottime", strconv.Itoa(seconds)}
	before, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(args[0], append(args[1:], "cat", "/proc/uptime")...).Output(); err != nil || len(out) == len(before) && string(out[:4]) == string(before[:4]) {
		t.Skipf("a program cannot be started with other clocks here: %v", err)
	}
	return args
}

// Controller and agent are killed in the middle of a job and started again with
// clocks that were set: forward by a year, then back. What they remember in the
// store and in shared memory counts all the same, the job goes on, and `cascade
// clean` knows whose remains they are.
func TestClocksSet(t *testing.T) {
	t.Parallel()
	forward := otherClocks(t, 365*24*3600)
	want := undisturbed(t)
	h := New(t)
	controller, agent := h.Controller(), h.Agent()
	c := h.Client()
	for i, clocks := range [][]string{forward, nil} {
		j := h.Submit(c, mix, nil)
		var known map[string]bool
		killAt(h, j.Begun+mixLines/2, func() { known = j.Finished() }, controller, agent)
		h.before = clocks
		controller = h.Controller()
		known = intersection(known, j.Stored())
		agent = h.Agent()
		got := j.Done()
		got.Same(t, want)
		got.Once(t, known)
		t.Logf("round %d: %d tasks were finished, %d started again", i, len(known), got.Again())
		if t.Failed() {
			t.Fatalf("round %d\n%s\n%s", i, text(got.Lines), j.Story(""))
		}
	}
	h.before = forward
	agent.Kill()
	agent = h.Agent()
	agent.Kill()
	h.before = nil
	if said := h.Command("clean", "--state", filepath.Join(h.State, "agent")); said.Wait() != 0 {
		t.Errorf("cascade clean of an agent with other clocks: %s", said.Output())
	}
}

func intersection(a, b map[string]bool) map[string]bool {
	both := map[string]bool{}
	for name := range a {
		if b[name] {
			both[name] = true
		}
	}
	return both
}
