// Command cities is job.yaml as a Go program: it builds the same graph in code,
// runs it on this host and writes the outputs.
//
//	go run ./examples/cities -level 500
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/cascade-run/cascade"
)

func main() {
	cascade.Main() // this binary is also the executor that runs the functions
	dir := flag.String("dir", "examples/cities", "folder of the data; outputs go to out/ in it")
	level := flag.Int("level", 850, "pressure level in hPa: 500 or 850")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *level); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, level int) (err error) {
	g, err := graph(level)
	if err != nil {
		return err
	}
	cluster, err := cascade.Local(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	job, err := cluster.Submit(ctx, g, cascade.WithDir(dir))
	if err != nil {
		return err
	}
	if _, err := job.Wait(ctx); err != nil {
		return err
	}
	files, err := job.Save(ctx, dir)
	for _, f := range files {
		fmt.Println(f)
	}
	return err
}
