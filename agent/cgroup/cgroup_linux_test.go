package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const growVar = "CGROUP_TEST_GROW"

// The test binary is also a process that takes 100 MB.
func TestMain(m *testing.M) {
	if os.Getenv(growVar) != "" {
		fmt.Println("child")
		all := make([]byte, 100_000_000)
		for i := 0; i < len(all); i += 4096 {
			all[i] = 1
		}
		fmt.Println("grown")
		return
	}
	os.Exit(m.Run())
}

// What the folders of a hierarchy say when it is not ours.
func TestNotDelegated(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"of/self": "4:memory:/x\n0::/a\n", "of/v1": "4:memory:/x\n", "of/nocontroller": "0::/cpu\n", "of/root": "0::/\n", "of/busy": "0::/busy\n",
		"cgroup.controllers": "cpu memory", "cpu/cgroup.controllers": "cpu io",
		"busy/cgroup.controllers": "memory", "busy/memory.max": "max", "busy/cgroup.procs": "1\n2\n", "busy/cgroup.subtree_control": "",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for self, want := range map[string]string{
		"self": "is cgroup v2 mounted", "v1": "names no cgroup v2", "nocontroller": "no memory controller", "root": "is the root", "busy": "process 1 is in", "nosuch": "no such file",
	} {
		if _, err := Open(dir, filepath.Join(dir, "of", self)); !errors.Is(err, ErrNotDelegated) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", self, err, want)
		}
	}
}

// delegated opens the real hierarchy, or skips the test.
func delegated(t *testing.T) *Tree {
	t.Helper()
	tree, err := Open(Mount, Self)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

// A process and its child that left it grow beyond the limit: the kernel ends both.
func TestLimit(t *testing.T) {
	tree := delegated(t)
	g, err := tree.New("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Limit(40 << 20); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", "setsid \"$0\" & wait; sleep 1000", os.Args[0])
	cmd.Env, cmd.Stdout = append(os.Environ(), growVar+"=1"), &out
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.File().Fd())}
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != -1 || out.String() != "child\n" {
		t.Errorf("the group ended with %v and said %q", err, out.String())
	}
	if !g.Killed() {
		t.Error("the kernel does not tell that it ended the group")
	}
	if peak := g.Peak(); peak != 0 && (peak < 30<<20 || peak > 41<<20) {
		t.Errorf("peak %d", peak)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}
