package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A first job runs as it was written, in each language.
func TestInit(t *testing.T) {
	h := newHost(t)
	for _, kind := range startKinds {
		t.Run(kind, func(t *testing.T) {
			h.expect(h.start("", "init", kind, "--kind", kind), "next:\n  cascade validate "+kind+"/job.yaml")
			if got := h.start("", "init", kind, "--kind", kind).wait(); !strings.Contains(got, "is there already") {
				t.Errorf("it writes again:\n%s", got)
			}
			if kind == "go" {
				clone, err := filepath.Abs(filepath.Join(h.source, "..", ".."))
				if err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile("go/go.mod")
				if err != nil {
					t.Fatal(err)
				}
				h.write("go/go.mod", strings.Replace(string(b), "/path/to/cascade", clone, 1))
				tidy := exec.Command("go", "mod", "tidy")
				tidy.Dir, tidy.Env = "go", append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
				if out, err := tidy.CombinedOutput(); err != nil {
					t.Skipf("go mod tidy without a network: %v\n%s", err, out)
				}
			}
			h.expect(h.start("", "run", kind+"/job.yaml", "--param", "parts=2"), "job "+kind+" done: 5 tasks")
			got, err := os.ReadFile(filepath.Join(kind, "report.txt"))
			if err != nil || string(got) != "55\n210\n" {
				t.Errorf("the report is %q, %v", got, err)
			}
		})
	}
}

// One command writes the pages of all.
func TestMan(t *testing.T) {
	h := newHost(t)
	h.expect(h.start("", "man", "-o", "pages"), "pages in pages")
	b, err := os.ReadFile("pages/cascade-run.1")
	if err != nil || !strings.Contains(string(b), "Run a job on this host") {
		t.Errorf("%v: %.300s", err, b)
	}
}
