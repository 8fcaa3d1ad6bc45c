//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade/internal/testing/smallfs"
	"github.com/cascade-run/cascade/internal/testing/tier"
)

// lodger is a user whom a test makes, with a home and a range of subordinate user IDs as
// useradd gives one to each, and settings of podman as that user may have them.
func lodger(t *testing.T, hand *handbook) *place {
	t.Helper()
	p := homeOf(t, hand, 0)
	name := fmt.Sprintf("cascade-test-%d", os.Getpid())
	as := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	as("useradd", "--no-create-home", "--home-dir", p.dir, "--shell", "/bin/sh", "--user-group", name)
	t.Cleanup(func() {
		if out, err := exec.Command("userdel", "--force", name).CombinedOutput(); err != nil {
			t.Errorf("remove the user: %v\n%s", err, out)
		}
	})
	who, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.Atoi(who.Uid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endAllOf(t, who.Uid) })
	t.Cleanup(func() { os.RemoveAll(filepath.Join(os.TempDir(), "cascade-"+who.Uid)) })
	for _, dir := range []string{"run", ".config", ".config/containers"} {
		if err := os.Mkdir(filepath.Join(p.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.write(".config/containers/storage.conf", "[storage]\ndriver = \"vfs\"\n")
	p.write(".config/containers/containers.conf", "[engine]\nlock_type = \"file\"\n") // else they lie in shared memory for ever
	as("chown", "--recursive", who.Uid+":"+who.Gid, p.dir)
	p.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	p.env = append(p.env, "XDG_RUNTIME_DIR="+p.dir+"/run", "USER="+name, "LOGNAME="+name)
	return p
}

// endAllOf kills what a user of this test runs: podman keeps a process for its namespace,
// and a test that failed may have left more.
func endAllOf(t *testing.T, uid string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Error(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, ids, _ := strings.Cut(string(text), "\nUid:")
		if of := strings.Fields(ids); len(of) == 0 || of[0] != uid {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil {
			err = syscall.Kill(pid, syscall.SIGKILL)
		}
		if err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("end process %d: %v", pid, err)
		}
	}
}

// A user who is not root runs a job in an image of her own podman: it has files of several
// owners, which only subordinate user IDs can be. Nothing of hers is left in shared memory.
func TestRootlessPodman(t *testing.T) {
	tier.Nightly(t, "needs podman and users")
	t.Setenv("CGO_ENABLED", "0") // the image need not have the libraries of the program
	hand := programs(t)
	if os.Geteuid() != 0 {
		t.Skip("only root makes users")
	}
	for _, program := range []string{"podman", "newuidmap", "useradd", "userdel"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CASCADE_REQUIRE_PODMAN") != "" {
				t.Fatal(err)
			}
			t.Skip("no rootless podman here (Debian has newuidmap in uidmap): ", err)
		}
	}
	files := smallfs.Programs(t, "sh", "cat")
	mark := filepath.Join(files, "mark")
	if err := errors.Join(os.WriteFile(mark, []byte("image "), 0o644), os.Chown(mark, 77, 88)); err != nil {
		t.Fatal(err)
	}
	p := lodger(t, hand)
	if out, err := exec.CommandContext(t.Context(), "tar", "-C", files, "-cf", filepath.Join(p.dir, "image.tar"), ".").CombinedOutput(); err != nil {
		t.Fatalf("pack the image: %v\n%s", err, out)
	}
	if out, err := p.types("podman unshare true"); err != nil && os.Getenv("CASCADE_REQUIRE_PODMAN") == "" {
		t.Skipf("no user namespaces for podman here: %v\n%s", err, out)
	}
	p.must("podman import --change 'ENV OF=user' --change 'ENV PATH=/bin' image.tar localhost/of-a-user")
	if out := p.must("podman image inspect --format '{{.GraphDriver.Name}}' localhost/of-a-user"); out != "vfs\n" {
		t.Errorf("the storage driver is %q", out)
	}
	p.write("job.yaml", `job: rootless
environments:
  mine: {container: localhost/of-a-user}
tasks:
  make: {command: "printf 'dataset ' > ${out.x}", out: [x]}
  read: {command: "cat /mark ${in.x} > ${out.y} && echo $OF >> ${out.y}; echo lost > /mark", environment: mine, in: {x: make.x}, out: [y]}
  back: {command: "cat ${in.y} > ${out.z} && id -u >> ${out.z}", in: {y: read.y}, out: [z]}
outputs: [{from: back.z, to: z.txt}]
`)
	p.must("cascade run job.yaml")
	want := fmt.Sprintf("image dataset user\n%d\n", p.cred.Uid)
	if text, err := os.ReadFile(filepath.Join(p.dir, "z.txt")); err != nil || string(text) != want {
		t.Errorf("the output is %q, %v, want %q", text, err, want)
	}
	if out := p.must("podman ps --all --quiet"); out != "" {
		t.Errorf("containers are left: %s", out)
	}
	shared, err := os.ReadDir("/dev/shm")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range shared {
		if info, err := e.Info(); err == nil && info.Sys().(*syscall.Stat_t).Uid == p.cred.Uid {
			t.Errorf("left in shared memory: %s", e.Name())
		}
	}
}
