// Package rerun runs a test once more in a process of its own, with another user or with mounts of its own.
package rerun

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Args are the arguments of a test binary that runs the calling test, a top-level one.
func Args(t *testing.T) []string {
	t.Helper()
	left := 5 * time.Minute
	if end, ok := t.Deadline(); ok {
		left = time.Until(end) - 5*time.Second // it reports its stacks before this process has to
	}
	args := []string{"-test.run=^" + regexp.QuoteMeta(t.Name()) + "$", "-test.v", "-test.timeout=" + left.String()}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	return args
}

// Here tells whether this process is one in which Run runs the calling test.
func Here(t *testing.T, variable string) bool { return os.Getenv(variable) == t.Name() }

// Run starts a test binary with Args, marked by an environment variable, and lets the calling test end as it did
// there. The place is for people: "as an ordinary user". It returns why the process could not be started.
func Run(t *testing.T, cmd *exec.Cmd, variable, place string) error {
	t.Helper()
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, variable+"="+t.Name())
	out, err := cmd.CombinedOutput()
	switch {
	case cmd.Process == nil:
		return err
	case err != nil:
		t.Fatalf("%s: %v\n%s", place, err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Skipf("%s:\n%s", place, out)
	default:
		t.Logf("%s:\n%s", place, out)
	}
	return nil
}
