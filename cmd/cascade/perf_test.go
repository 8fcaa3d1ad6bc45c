package main

import (
	"testing"

	"github.com/cascade-run/cascade/executor"
)

// A cluster whose executors are another program refuses the jobs of one that
// has functions they lack: what perf runs must not be among those of the command.
func TestCommandRegistersNothing(t *testing.T) {
	sigs, err := executor.Default.Signatures()
	if err != nil || len(sigs) > 0 {
		t.Errorf("the command has registered %v, %v", sigs, err)
	}
}
