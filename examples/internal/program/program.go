// Package program is what the programs of the examples have in common:
//
//	graph ──Local──▶ cluster ──Submit, Wait──▶ job ──Save──▶ files, named on standard output
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
)

// Main runs a graph on this host, writes its outputs below dir, from which its
// tasks read too, and ends the process with code 1 when that fails. An interrupt
// ends it. The caller has called cascade.Main.
func Main(dir string, graph func() (*dag.Graph, error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, dir, graph); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, graph func() (*dag.Graph, error)) (err error) {
	g, err := graph()
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
