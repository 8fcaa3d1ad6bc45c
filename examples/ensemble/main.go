// Command ensemble is job.yaml as a Go program: it builds the same graph in code,
// runs it on this host and writes the outputs.
//
//	go run ./examples/ensemble -field z
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
	dir := flag.String("dir", "examples/ensemble", "folder of the data; outputs go to out/ in it")
	field := flag.String("field", "t", "t for temperature, z for geopotential")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *field); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir, field string) (err error) {
	g, err := graph(field, 4)
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
