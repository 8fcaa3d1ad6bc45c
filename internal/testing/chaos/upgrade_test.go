//go:build linux

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// previous builds the commands of the version before, testdata/previous, and returns
// their folder, which lies in the user's cache.
func previous(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/previous")
	if err != nil {
		t.Fatal(err)
	}
	commit := strings.TrimSpace(string(text))
	if out, err := exec.Command("git", "cat-file", "-e", commit).CombinedOutput(); err != nil {
		t.Skipf("this clone does not have the version before, %s: %v %s", commit, err, out)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "cascade-chaos", "previous", commit)
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	tree, built := t.TempDir(), dir+fmt.Sprint(".", os.Getpid())
	script := `set -e; git -C "$(git rev-parse --show-toplevel)" archive "$1" | tar x -C "$2"; mkdir -p "$3"; cd "$2"
go build -o "$3/" ./cmd/cascade ./cmd/cascade-controller ./cmd/cascade-agent; mv -T "$3" "$4" || test -d "$4"`
	if out, err := exec.Command("sh", "-c", script, "sh", commit, tree, built, dir).CombinedOutput(); err != nil {
		t.Fatalf("build the version before: %v\n%s", err, out)
	}
	return dir
}

// A cluster is upgraded while it works: the controller, then one agent after the
// other. What the version before has done is there, and its agents work for the new
// controller until it is their turn.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	h := New(t)
	before := previous(t)
	want := undisturbed(t)
	h.Write("first.yaml", "job: first\ntasks:\n  a: {command: \"echo 42 > ${out.text}\", out: [text]}\noutputs: [a.text]\n")

	h.Programs = before
	controller := h.Controller()
	agents := []*Process{h.Agent("--drain", "1s"), h.SecondAgent("--drain", "1s")}
	if p := h.start("cascade submit", filepath.Join(before, "cascade"), "submit", "first.yaml", "--wait", "--to", h.Address()); p.Wait() != 0 {
		t.Fatal(p.Output())
	}

	h.Programs = ""
	controller.Signal(syscall.SIGTERM)
	if code := controller.Wait(); code != 0 {
		t.Fatalf("the controller ended with %d", code)
	}
	h.Controller()
	gate, open := held(h)
	job := h.Submit(h.ReadyClient(2), mix, nil, gate)
	for i, start := range []func(...string) *Process{h.Agent, h.SecondAgent} {
		agents[i].Signal(syscall.SIGTERM)
		if code := agents[i].Wait(); code != 0 {
			t.Fatalf("agent %d ended with %d", i+1, code)
		}
		start()
	}
	open()
	job.Done().Same(t, want)
	p := h.Command("get", "first", "a.text", "-o", "first.txt", "--to", h.Address())
	if code, got := p.Wait(), h.Read("first.txt"); code != 0 || got != "42\n" {
		t.Errorf("the result of a job that ended before the upgrade: %q\n%s", got, p.Output())
	}
}
