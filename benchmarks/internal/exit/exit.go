// Package exit ends benchmarks.
package exit

import (
	"fmt"
	"os"
)

// On tells the user of err, if there is one, and ends the process with code 1.
func On(program string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}
