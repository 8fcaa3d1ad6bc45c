//go:build linux

package chaos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/internal/scratchfs"
)

// gated is a job that waits for a line in the pipe gate, and goes on with five tasks.
const gated = `
job: gated
tasks:
  wait: {run: chaos_gate, with: {pipe: PIPE}, out: [sum]}
  after: {for: {i: "0..4"}, command: "cat ${in.n} > ${out.copy}; echo ${i} >> ${out.copy}", in: {n: wait.sum}, out: [copy]}
outputs: [{from: "after[*].copy", to: out/}]
`

// open lets a gate task go on.
func (h *Host) open(pipe string) {
	h.tb.Helper()
	if err := os.WriteFile(pipe, []byte("3\n"), 0); err != nil {
		h.tb.Fatal(err)
	}
}

// TestStoreDiskFull: the disk under the store is full when a task ends. Whoever
// watches is told, another submit is refused, and when there is room the job goes
// on as if nothing had been.
func TestStoreDiskFull(t *testing.T) {
	if !scratchfs.Enter(t) {
		return
	}
	state := scratchfs.Tmpfs(t, t.TempDir(), 96<<20)
	h := New(t)
	h.Controller("--state", state, "--min-free", "32MiB")
	h.Agent()
	h.Write("job.yaml", strings.ReplaceAll(gated, "PIPE", h.Pipe("gate")))
	job := h.Command("submit", "job.yaml", "--wait", "--to", h.Address())
	h.Journal.Await(Started("wait", 1))
	release := scratchfs.Fill(t, state, 1<<20)
	h.open(filepath.Join(h.Dir, "gate"))
	job.Await("is nearly full")
	if again := h.Command("submit", "job.yaml", "--to", h.Address()); again.Wait() != 3 || !strings.Contains(again.Output(), "nearly full") {
		t.Errorf("a submit on the full disk ended with %d: %s", again.Wait(), again.Output())
	}
	release()
	job.Await("the store goes on")
	if code := job.Wait(); code != 0 {
		t.Errorf("the job ended with %d:\n%s", code, job.Output())
	}
	starts := 0
	for _, l := range h.Journal.Lines(0) {
		if l.Event == "start" {
			starts++
		}
	}
	files, err := filepath.Glob(filepath.Join(h.Dir, "out", "*"))
	if starts != 1 || len(files) != 5 || err != nil {
		t.Errorf("the gate started %d times, outputs %v, error %v", starts, files, err)
	}
}
