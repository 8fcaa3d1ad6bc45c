package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/sched"
)

func TestMain(m *testing.M) { cascade.RunTests(m) }

// TestProgram runs the program: in actors, on a cluster of its own.
func TestProgram(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if err := search(t.Context(), t.TempDir(), out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil || !strings.Contains(string(b), "0 of 24 trials failed") {
		t.Errorf("it printed %q, %v", b, err)
	}
}

// TestSearch finds a network that is nearly always right, with a part of the epochs; and all that is decided can be decided again.
func TestSearch(t *testing.T) {
	folder := t.TempDir()
	g, err := tuner(folder, tune.Local(2)).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	best, accuracy, err := g.Best(tune.Query{})
	if err != nil || accuracy < .98 || g.Checkpoint(best) == "" {
		t.Errorf("the best is %v with %g, %v", best.Config, accuracy, err)
	}
	results := 0
	for i := range g.Trials {
		results += g.Trials[i].Results
	}
	if g.Count(core.Terminated) != 24 || results > 24*81*2/3 {
		t.Errorf("%d trials ended, with %d results", g.Count(core.Terminated), results)
	}
	if _, err := tune.Replay(g.Folder); err != nil {
		t.Error(err)
	}
	est, err := tune.WhatIf(g.Folder, &sched.Median{Time: core.IterationKey, Grace: 5}, 0)
	if err != nil || est.Results > est.Of {
		t.Errorf("the median rule would have trained %d of %d, %v", est.Results, est.Of, err)
	}
}

// TestFile runs the Python program of the YAML file.
func TestFile(t *testing.T) {
	tuner, err := tune.ReadFile("tune.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tuner.Storage = t.TempDir()
	g, err := tuner.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	best, loss, err := g.Best(tune.Query{})
	if err != nil || loss > .25 || len(g.Errors()) > 0 {
		t.Errorf("the best is %v with %g, %v; failed: %v", best, loss, err, g.Errors())
	}
}
