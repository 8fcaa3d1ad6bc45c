package main

import (
	"path/filepath"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/dag"
)

func TestMain(m *testing.M) { cascade.RunTests(m) }

// Program and job file, run by a local cluster, give the report that Python computed.
func TestReport(t *testing.T) {
	code, err := graph(4)
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*dag.Graph{"program": code, "job file": readJob(t)} {
		t.Run(name, func(t *testing.T) {
			cluster := cascadetest.Start(t)
			job := cascadetest.SubmitGraph(t, cluster, g, cascade.WithDir("."))
			cascadetest.Wait(t, cluster, job)
			dir := t.TempDir()
			if _, err := job.Save(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			compareFiles(t, filepath.Join(dir, "out/report.txt"), "testdata/report.txt")
		})
	}
}
