// Command ensemble is job.yaml as a Go program: it builds the same graph in code,
// runs it on this host and writes the outputs.
//
//	go run ./examples/ensemble -field z
package main

import (
	"flag"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/examples/internal/program"
)

func main() {
	cascade.Main() // this binary is also the executor that runs the functions
	dir := flag.String("dir", "examples/ensemble", "folder of the data; outputs go to out/ in it")
	field := flag.String("field", "t", "t for temperature, z for geopotential")
	flag.Parse()
	program.Main(*dir, func() (*dag.Graph, error) { return graph(*field, 4) })
}
