package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/dag"
)

func TestEnv(t *testing.T) {
	h := newHost(t)
	dir, job := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(job, "tool"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cache := runtimeenv.New(dir)
	act, err := cache.Prepare(t.Context(), dag.Environment{Name: "mine", Source: job, Binary: "tool"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		return h.start("", append(append([]string{"env"}, args...), "--cache", dir)...).wait()
	}
	expect := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%q is missing in:\n%s", w, out)
			}
		}
	}
	id := act.Keys[0]
	expect(run("ls"), "ID", id[:len("binary-")+12], "10B", "now", "tool")
	expect(run("show", id), id, "tool", "mine in "+job)
	expect(run("show", "python"), `nothing was built on this host whose ID begins with "python"`)
	expect(run("prune"), "0 entries removed")
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
	expect(run("ls", "--json"), `"plugin":"binary"`, `"what":"tool"`)
	expect(run("prune", "--age", "1h"), "0 entries removed")
	expect(run("prune", "--keep", "1GiB"), "0 entries removed")
	expect(run("prune"), "a replay needs tool in "+job+" as it was", "1 entry removed, 10B")
	expect(run("ls"), "ID")
}
