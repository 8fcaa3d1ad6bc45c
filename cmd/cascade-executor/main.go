// Command cascade-executor runs commands for an agent without Go functions of its
// own. Agents start it; it is not for use by hand.
package main

import (
	"fmt"
	"os"

	"github.com/cascade-run/cascade/executor"
)

func main() {
	executor.Main()
	fmt.Fprintf(os.Stderr, "cascade-executor: do not start it by hand: cascade-agent starts it and sets %s.\n", executor.EnvAddr)
	os.Exit(2)
}
