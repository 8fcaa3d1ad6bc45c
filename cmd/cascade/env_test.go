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
		return h.start("", append(args, "--cache", dir)...).wait()
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
	expect(run("ls", "environments"), "ID", id[:len("binary-")+12], "10B", "now", "tool")
	expect(run("environment", id), id, "tool", "mine in "+job)
	expect(run("environment", "python"), `no environment on this host has an ID that begins with "python"`)
	expect(run("rm", "environments"), "0 entries removed")
	if err := cache.Close(); err != nil {
		t.Fatal(err)
	}
	expect(run("ls", "environments", "--json"), `"plugin":"binary"`, `"what":"tool"`)
	expect(run("rm", "environments", "--age", "1h"), "0 entries removed")
	expect(run("rm", "environments", "--keep", "1GiB"), "0 entries removed")
	expect(run("rm", "environments"), "a replay needs tool in "+job+" as it was", "1 entry removed, 10B")
	expect(run("ls", "environments"), "ID")
}

// What an environment names and is not there is told before the job is submitted.
func TestPlacesOfEnvironments(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "m.py"), []byte("def f(): pass\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ environment, want string }{
		{"go: ./m.py", "there is no folder " + dir + "/m.py (go: names the folder of a Go package"},
		{"python: {}, py_modules: [m.py, n.py]", "job.yaml:3:38: environment e: there is no folder or file " + dir + "/n.py (py_modules: names"},
		{"python: {wheels: m.py}", "job.yaml:3:24: environment e: there is no folder " + dir + "/m.py (wheels: names"},
		{"working_dir: w", "there is no folder or file " + dir + "/w (working_dir: names"},
		{"python: {}, py_modules: [../m.py], source: sub", ""},
	} {
		file := filepath.Join(dir, "job.yaml")
		text := "job: x\nenvironments:\n  e: {" + c.environment + "}\ntasks:\n  a: {run: \"e:m.f\"}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out := h.start("", "validate", file).wait()
		if c.want == "" && strings.HasPrefix(out, "exit") || !strings.Contains(out, c.want) {
			t.Errorf("%s: want %q in:\n%s", c.environment, c.want, out)
		}
	}
}

// A Go package that does not compile is told by validate, with the compiler's words.
func TestGoThatDoesNotCompile(t *testing.T) {
	h := newHost(t)
	if err := os.Mkdir("pkg", 0o700); err != nil {
		t.Fatal(err)
	}
	h.write("pkg/go.mod", "module example.org/pkg\n\ngo 1.24\n")
	h.write("job.yaml", "job: x\nenvironments:\n  e: {go: ./pkg}\ntasks:\n  a: {run: \"e:F\"}\n")
	for _, c := range []struct{ text, want string }{
		{"package pkg\n\nfunc F() int { return \"a\" }\n", "exit 2\n2> job.yaml:3:11: environment \"e\": the Go package does not compile: # example.org/pkg\n2> ./pkg.go:3:"},
		{"package pkg\n\nfunc F() int { return 1 }\n", "job.yaml: job x is valid: 1 task\n"},
	} {
		h.write("pkg/pkg.go", c.text)
		if out := h.start("", "validate", "job.yaml").wait(); !strings.HasPrefix(out, c.want) {
			t.Errorf("want %q in:\n%s", c.want, out)
		}
	}
	t.Setenv("PATH", "")
	if out := h.start("", "validate", "job.yaml").wait(); !strings.Contains(out, "not checked  packages of Go: each is compiled when its environment is built, and this host has no Go") {
		t.Errorf("without Go:\n%s", out)
	}
}
