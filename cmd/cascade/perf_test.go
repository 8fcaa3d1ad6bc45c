package main

import (
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
