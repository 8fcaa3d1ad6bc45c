//go:build linux

package agent

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	exec "github.com/cascade-run/cascade/executor"
)

// The test binary is also the executor, and the agent that TestAgentKilled kills.
func TestMain(m *testing.M) {
	exec.Main()
	if state := os.Getenv("CASCADE_TEST_AGENT"); state != "" {
		if err := runAgent(state); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
