//go:build linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/netlab"
)

// TestFilesOnAnotherHost runs a job whose files are on one host, on another that has
// none of them: there its folder is empty.
func TestFilesOnAnotherHost(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs and starts a cluster")
	}
	hand := &handbook{bin: t.TempDir()}
	lab, err := netlab.New(netlab.Config{Hosts: 2})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) || errors.Is(err, netlab.ErrNoNetem) {
		t.Skipf("no hosts on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	build(t, hand.bin)
	hand.head = lab.Host(0).Addr().String()
	home := func(i int) *place {
		dir, err := os.MkdirTemp("", "cascade") // a socket's path must be short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return &place{t: t, dir: dir, hand: hand, host: lab.Host(i), env: []string{"HOME=" + dir, "XDG_STATE_HOME=" + dir + "/state",
			"XDG_CONFIG_HOME=" + dir + "/config", "XDG_RUNTIME_DIR=" + dir + "/run", "XDG_CACHE_HOME=" + dir + "/cache"}}
	}
	head, person, node := home(0), home(0), home(1)
	head.must("cascade cluster init --name files --state " + head.dir + "/state")
	token := hand.token
	head.serves("cascade-controller --listen tcp://10.0.0.1:7420 --metrics 0 --state "+head.dir+"/state", "tcp://")
	hand.token = token
	node.serves("unshare --mount sh -c 'mount -t tmpfs none "+person.dir+" && exec cascade-agent --join 10.0.0.1 --token cascade1.… --store 64MiB --metrics 0'", "controller is there")
	head.must("cascade cluster user anna --role submit --state " + head.dir + "/state")
	person.must("cascade cluster join 10.0.0.1 --name anna --token cascade1.…")

	if err := os.MkdirAll(filepath.Join(person.dir, "work", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	person.write("work/data.txt", "winds\n")
	person.write("work/bin/shout", "#!/bin/sh\ntr a-z A-Z\n")
	if err := os.Chmod(filepath.Join(person.dir, "work/bin/shout"), 0o755); err != nil {
		t.Fatal(err)
	}
	person.write("job.yaml", `
job: files
environments: {tools: {working_dir: ./work}}
tasks:
  shout: {command: "bin/shout < data.txt > ${out.text}", environment: tools, out: [text]}
  list: {command: "ls -A > ${out.names}", out: [names]}
outputs: [shout.text, list.names]
`)
	run := func(want string) {
		t.Helper()
		person.must("cascade submit --wait job.yaml --to files")
		if out := person.must("cascade get last shout.text --to files"); out != want {
			t.Errorf("the task wrote %q, want %q", out, want)
		}
		if out := person.must("cascade get last list.names --to files"); out != "" {
			t.Errorf("the job's folder on the other host has %q", out)
		}
	}
	kept := func() (all []os.FileInfo) {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(head.dir, "state/packages/*"))
		for _, name := range found {
			info, e := os.Stat(name)
			all, err = append(all, info), errors.Join(err, e)
		}
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	run("WINDS\n")
	before := kept()
	run("WINDS\n")
	after := kept()
	if len(before) != 1 || len(after) != 1 || !os.SameFile(before[0], after[0]) {
		t.Errorf("packages %v, after a second submit %v", before, after)
	}
	person.write("work/data.txt", "waves\n")
	run("WAVES\n")
	if n := len(kept()); n != 2 {
		t.Errorf("%d packages after a change", n)
	}
	if out := node.must("cascade env ls"); strings.Count(out, "working_dir") != 2 {
		t.Errorf("environments of the other host:\n%s", out)
	}
}
