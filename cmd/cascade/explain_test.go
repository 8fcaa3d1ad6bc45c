//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

func TestExplainEnvironment(t *testing.T) {
	rows := []comms.EnvironmentRow{
		{Name: "ready", State: "ready", Agent: "h1"},
		{Name: "fields", State: "building", Agent: "h2"},
		{Name: "reader", State: "building", Agent: "h1", Error: "the index cannot be reached\nconnection refused"},
		{Name: "reader", State: "building", Agent: "h2"},
	}
	for _, c := range []struct{ name, agent, want string }{
		{"", "", ""},
		{"ready", "", ""},
		{"unused", "", ""},
		{"fields", "", "environment fields is being built on agent h2"},
		{"fields", "h2", "environment fields is being built on agent h2"},
		{"fields", "h1", ""},
		{"reader", "", "environment reader is being built on agent h1, which waits: the index cannot be reached; environment reader is being built on agent h2"},
		{"reader", "h2", "environment reader is being built on agent h2"},
	} {
		x := explanation{Agent: c.agent}
		if x.environment(c.name, rows); x.Building != c.want {
			t.Errorf("%q on %q: %q, want %q", c.name, c.agent, x.Building, c.want)
		}
	}
}

// licences is a plugin whose environment is made when somebody writes to the pipe.
const licences = `#!/bin/sh
export LC_ALL=C
case $(tr -d '\000') in
*do?describe*) printf '\000\000\000\033\203\250protocol\001\250priority\062\244done\303' ;;
*do?key*) printf '\000\000\000\015\202\243key\241k\244done\303' ;;
*do?create*)
	printf '\000\000\000\017\201\244tell\250licences'
	read -r _ < "$XDG_CONFIG_HOME/pipe"
	printf '\000\000\000\007\201\244done\303'
	;;
*) printf '\000\000\000\007\201\244done\303' ;;
esac
`

const waits = `job: waits
environments: {slow: {plugins: {licences: {}}}}
tasks:
  t: {command: ["true"], environment: slow}
  bad: {command: ["false"], out: [x], stdout: x, keep_going: true}
  never: {command: "cat ${in.x}", in: {x: bad.x}, environment: slow, keep_going: true}
`

// A task that waits for its environment says so, as long as that is so.
func TestExplainBuilding(t *testing.T) {
	h := newHost(t)
	settings := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", settings)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	plugins, pipe := filepath.Join(settings, "cascade", "plugins"), filepath.Join(settings, "pipe")
	for _, err := range []error{
		os.MkdirAll(plugins, 0o700), syscall.Mkfifo(pipe, 0o600),
		os.WriteFile(filepath.Join(plugins, "licences"), []byte(licences), 0o700),
		os.WriteFile("job.yaml", []byte(waits), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	run := h.start("", "run", "job.yaml")
	await(t, &run.err, "building environment slow (licences), which waits: licences")
	await(t, &run.err, "never: 0/1 done, 1 skipped")
	explained := h.start("", "explain", "last", "t").wait()
	skipped := h.start("", "explain", "last", "never").wait()
	if err := os.WriteFile(pipe, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	const want = `t: waiting
  waits for  environment slow is being built on agent local, which waits: licences
  planned  on local at DURATION: needs no task, starts at once
`
	if explained != want {
		t.Errorf("explained is\n%swant\n%s", explained, want)
	}
	if !strings.Contains(skipped, "never: skipped\n") || !strings.Contains(skipped, "needed  bad (failed on local)\n") || strings.Contains(skipped, "planned") || strings.Contains(skipped, "slow") {
		t.Errorf("a skipped task is explained as\n%s", skipped)
	}
	if code := <-run.code; code != exitOK {
		t.Errorf("the run ends with %d:\n%s", code, run.err.String())
	}
	if after := h.start("", "explain", "last", "t").wait(); after == explained {
		t.Errorf("afterwards: %s", after)
	}
}
