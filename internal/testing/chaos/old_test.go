//go:build linux

package chaos

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The state folder of a build whose store had schema version 1, with a job that
// had ended: it is listed, its output fetched, its tasks run again, by the build of
// today, which writes it in its own schema.
func TestOldStore(t *testing.T) {
	t.Parallel()
	h := New(t)
	if out, err := exec.Command("tar", "xzf", "testdata/schema1.tgz", "-C", h.State).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The job was submitted in a folder that its tasks still run in.
	switch err := os.Mkdir("/tmp/oldst", 0o700); {
	case err == nil:
		t.Cleanup(func() { os.RemoveAll("/tmp/oldst") })
	case !errors.Is(err, fs.ErrExist):
		t.Fatal(err)
	}
	say := func(want string, args ...string) {
		t.Helper()
		p := h.Command(args[0], args[1:]...)
		if code := p.Wait(); code != 0 || !strings.Contains(p.Output(), want) {
			t.Errorf("cascade %s ended with %d and does not say %q:\n%s", strings.Join(args, " "), code, want, p.Output())
		}
	}
	say("old   done", "ls", "jobs")
	say("make[2]", "ls", "tasks", "last")
	for _, name := range []string{"first.txt", "again.txt"} {
		say("", "get", "last", "all.list", "-o", name)
		if got := h.Read(name); got != "7\n14\n21\n" {
			t.Errorf("its output is %q", got)
		}
		say("old", "rerun", "last", "make[2]")
	}
	h.Write("new.yaml", "job: new\ntasks:\n  a: {command: \"true\"}\n")
	if p := h.Run("new.yaml"); p.Wait() != 0 {
		t.Errorf("a new job: %s", p.Output())
	}
	say("old ", "ls", "jobs")
}
