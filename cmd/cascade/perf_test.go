package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/executor"
)

// A cluster whose executors are another program refuses the jobs of one that
// has functions they lack: what perf runs must not be among those of the command.
func TestCommandRegistersNothingOfPerf(t *testing.T) {
	sigs, err := executor.Default.Signatures()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sigs {
		if strings.HasPrefix(s.Name, "cascade-perf") {
			t.Errorf("the command has registered %s", s.Name)
		}
	}
}

// Each figure is an object on a line of its own, with the fields that scripts read.
func TestPerfPrintsFigures(t *testing.T) {
	h := newHost(t)
	c := h.start("", "perf", "--json", "--quick", "--only", "plan_100k,gcs_commit")
	if code := <-c.code; code != exitOK {
		t.Fatalf("ended with %d: %s%s", code, c.out.String(), c.err.String())
	}
	var names []string
	for line := range strings.Lines(c.out.String()) {
		var f struct {
			Name, Unit             string
			Value, Baseline, Ratio *float64
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		names = append(names, f.Name)
		if f.Unit == "" || f.Value == nil || f.Baseline == nil || f.Ratio == nil {
			t.Errorf("%q: want name, value, unit, baseline and ratio", line)
		}
	}
	if !slices.Equal(names, []string{"plan_1k", "gcs_commit"}) {
		t.Errorf("figures %v", names)
	}
	if c := h.start("", "perf", "--only", "speed"); <-c.code != exitBadInput {
		t.Errorf("a figure that there is not: %s", c.err.String())
	}
}
