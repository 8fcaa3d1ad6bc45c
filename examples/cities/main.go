// Command cities is job.yaml as a Go program: it builds the same graph in code,
// runs it on this host and writes the outputs.
//
//	go run ./examples/cities -level 500
package main

import (
	"flag"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/examples/internal/program"
)

func main() {
	cascade.Main() // this binary is also the executor that runs the functions
	dir := flag.String("dir", "examples/cities", "folder of the data; outputs go to out/ in it")
	level := flag.Int("level", 850, "pressure level in hPa: 500 or 850")
	flag.Parse()
	program.Main(*dir, func() (*dag.Graph, error) { return graph(*level) })
}
