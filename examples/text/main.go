// Command text is job.yaml as a Go program: it builds the same graph of commands
// in code, runs it on this host and writes the report.
//
//	go run ./examples/text
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
	cascade.Main() // this binary is also the executor that starts the commands
	dir := flag.String("dir", "examples/text", "folder of the data; the report goes to out/ in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, opts ...cascade.Option) (err error) {
	g, err := graph(4)
	if err != nil {
		return err
	}
	cluster, err := cascade.Local(ctx, opts...)
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
