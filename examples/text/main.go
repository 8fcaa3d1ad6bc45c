// Command text is job.yaml as a Go program: it builds the same graph of commands
// in code, runs it on this host and writes the report.
//
//	go run ./examples/text
package main

import (
	"flag"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/examples/internal/program"
)

func main() {
	cascade.Main() // this binary is also the executor that starts the commands
	dir := flag.String("dir", "examples/text", "folder of the data; the report goes to out/ in it")
	flag.Parse()
	program.Main(*dir, func() (*dag.Graph, error) { return graph(4) })
}
