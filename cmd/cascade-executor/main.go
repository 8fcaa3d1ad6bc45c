// Command cascade-executor runs commands for an agent that has no Go functions of
// its own to offer. Agents start it; it is of no use by hand.
package main

import (
	"fmt"
	"os"

	"github.com/cascade-run/cascade/executor"
)

func main() {
	executor.Main()
	fmt.Fprintf(os.Stderr, "cascade-executor is started by cascade-agent, which tells it where to connect in %s.\n", executor.EnvAddr)
	os.Exit(2)
}
