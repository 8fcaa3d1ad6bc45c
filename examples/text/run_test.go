package main

import (
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/examples/internal/twin"
)

func TestMain(m *testing.M) { cascade.RunTests(m) }

// Program and job file, run by a local cluster, give the report that Python computed.
func TestReport(t *testing.T) {
	code, err := graph(4)
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*dag.Graph{"program": code, "job file": twin.Read(t, "job.yaml")} {
		t.Run(name, func(t *testing.T) {
			twin.SameFiles(t, filepath.Join(twin.Run(t, g).Dir, "out/report.txt"), "testdata/report.txt")
		})
	}
}
