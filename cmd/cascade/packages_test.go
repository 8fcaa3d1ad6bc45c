//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/testing/netlab"
)

// twoHosts is a controller and a person on one host, and an agent on another, which
// sees none of the person's files.
type twoHosts struct {
	head, person, node *place
	near               *place // where another agent may run, on the person's host
	token              string // of agents
}

func newTwoHosts(t *testing.T) *twoHosts {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the programs and starts a cluster")
	}
	hand := &handbook{bin: t.TempDir()}
	lab, err := netlab.New(netlab.Config{Hosts: 2})
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) || errors.Is(err, netlab.ErrNoDelay) {
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
	h := &twoHosts{head: home(0), person: home(0), near: home(0), node: home(1)}
	h.head.must("cascade cluster init --name files --state " + h.head.dir + "/state")
	h.token = hand.token
	h.head.serves("cascade-controller --listen tcp://10.0.0.1:7420 --metrics 0 --state "+h.head.dir+"/state", "tcp://")
	h.agent(h.node, "unshare --mount sh -c 'mount -t tmpfs none "+h.person.dir+" && exec cascade-agent --resource far=1 %s'")
	h.head.must("cascade cluster user anna --role submit --state " + h.head.dir + "/state")
	h.person.must("cascade cluster join 10.0.0.1 --name anna --token cascade1.…")
	return h
}

// agent starts an agent; line has %s for what all agents are told.
func (h *twoHosts) agent(p *place, line string) {
	p.t.Helper()
	p.hand.token = h.token
	p.serves(fmt.Sprintf(line, "--join 10.0.0.1 --token cascade1.… --store 128MiB --metrics 0"), "controller is there")
}

// kept lists what the controller keeps for jobs.
func (h *twoHosts) kept() (all []os.FileInfo) {
	h.head.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.head.dir, "state/packages/*"))
	for _, name := range found {
		info, e := os.Stat(name)
		all, err = append(all, info), errors.Join(err, e)
	}
	if err != nil {
		h.head.t.Fatal(err)
	}
	return all
}

// TestFilesOnAnotherHost runs a job whose files are on one host, on another that has
// none of them: there its folder is empty.
func TestFilesOnAnotherHost(t *testing.T) {
	h := newTwoHosts(t)
	person, node := h.person, h.node
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
	run("WINDS\n")
	before := h.kept()
	run("WINDS\n")
	after := h.kept()
	if len(before) != 1 || len(after) != 1 || !os.SameFile(before[0], after[0]) {
		t.Errorf("packages %v, after a second submit %v", before, after)
	}
	person.write("work/data.txt", "waves\n")
	run("WAVES\n")
	if n := len(h.kept()); n != 2 {
		t.Errorf("%d packages after a change", n)
	}
	if out := node.must("cascade ls environments"); strings.Count(out, "working_dir") != 2 {
		t.Errorf("environments of the other host:\n%s", out)
	}
}

// TestInputsOnAnotherHost: what a job reads on the host of the person is there on the
// host of its tasks, small files by way of the controller, large ones from an agent.
func TestInputsOnAnotherHost(t *testing.T) {
	h := newTwoHosts(t)
	person := h.person
	person.write("one.txt", "winds\n")
	person.write("two.txt", "waves\n")
	person.write("job.yaml", `
job: inputs
inputs: {texts: {files: "*.txt"}}
tasks:
  join: {command: "cat ${in.texts[*]} > ${out.text}; ls -A `+person.dir+` >> ${out.text}", in: {texts: "texts[*]"}, out: [text], resources: {far: 1}}
outputs: [join.text]
`)
	run := func(file, dataset, want string) {
		t.Helper()
		person.must("cascade submit --wait " + file + " --to files")
		if out := person.must("cascade get last " + dataset + " --to files"); out != want {
			t.Errorf("%s is %q, want %q", dataset, out, want)
		}
	}
	run("job.yaml", "join.text", "winds\nwaves\n")
	if n := len(h.kept()); n != 2 {
		t.Errorf("the controller keeps %d files", n)
	}

	h.agent(h.near, "cascade-agent --name near %s")
	for !strings.Contains(person.must("cascade ls hosts --to files --json"), `"name":"near","state":"ready"`) { // each look takes its time
	}
	large := filepath.Join(person.dir, "large.bin")
	if err := errors.Join(os.WriteFile(large, []byte("large"), 0o600), os.Truncate(large, 65<<20)); err != nil {
		t.Fatal(err)
	}
	person.write("large.yaml", `
job: large
inputs: {field: {file: large.bin}}
tasks: {size: {command: "head -c 5 ${in.field} && wc -c < ${in.field}", in: {field: field}, out: [n], stdout: n, resources: {far: 1}}}
outputs: [size.n]
`)
	run("large.yaml", "size.n", "large68157440\n")
	if n := len(h.kept()); n != 2 {
		t.Errorf("the controller keeps %d files, and was to keep no large one", n)
	}
	if out := person.must("cascade ls tasks last --to files --json"); !strings.Contains(out, `"agent":"near"`) {
		t.Errorf("no task ran where the file is:\n%s", out)
	}
}
