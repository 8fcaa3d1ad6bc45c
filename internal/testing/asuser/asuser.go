//go:build linux

// Package asuser runs tests of root as an ordinary user, for whom modes of files hold.
package asuser

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/rerun"
)

// The user that Enter becomes.
const nobody = 65534

// enteredVar names, in the process that Enter started, the test that it runs.
const enteredVar = "CASCADE_TEST_AS_USER"

// Enter tells whether this process is that of an ordinary user. For root it is not: then Enter runs the calling
// test, a top-level one, again as an unprivileged user, reports how it ended, and returns false.
func Enter(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return true
	}
	if os.Getenv(enteredVar) != "" {
		t.Fatal("it is root still")
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "cascade-asuser-") // t.TempDir may lie in a folder that others do not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	program, temp := filepath.Join(dir, "test"), filepath.Join(dir, "tmp")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, self, 0o755), //nolint:gosec // nobody runs it
		os.Mkdir(temp, 0o700), os.Chown(temp, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, rerun.Args(t)...)
	cmd.Dir, cmd.Env = temp, append(os.Environ(), "TMPDIR="+temp, "HOME="+temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	if err := rerun.Run(t, cmd, enteredVar, "as an ordinary user"); err != nil {
		t.Fatalf("as an ordinary user: %v", err)
	}
	return false
}
