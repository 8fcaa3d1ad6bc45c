//go:build !linux

// Command cascade-agent runs on Linux only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "cascade-agent: agents run on Linux only; clients run here: see cascade --help")
	os.Exit(3)
}
