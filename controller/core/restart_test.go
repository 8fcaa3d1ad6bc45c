package core

import (
	"path/filepath"
	"slices"
	"testing"
)

// Each restart that a transcript stores has its reason.
func TestRestartReasons(t *testing.T) {
	for file, want := range map[string][]RestartReason{
		"lost-agent.txt":    {RestartLost},
		"watch-rerun.txt":   {RestartRequested},
		"gang-begin.txt":    {RestartGang},
		"reserve-alone.txt": {RestartMemory, RestartMemory, RestartMemory},
		"vain-chain.txt":    {RestartUpstream},
		"rebuilt-rerun.txt": {RestartLost, RestartInput},
	} {
		if got := play(t, filepath.Join("testdata", file)).restarts; !slices.Equal(got, want) {
			t.Errorf("%s restarts tasks because of %v, want %v", file, got, want)
		}
	}
}
