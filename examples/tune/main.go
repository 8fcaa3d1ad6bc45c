// Command tune finds the learning rate and the size of a small neural network by a search: 24 trials, of which the bad
// ones are stopped early, in actors of a cluster on this host.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/tune"
	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/sched"
	"github.com/cascade-run/cascade/tune/space"
)

// trainable is registered in a package-level variable: the processes of actors have it too.
var trainable = tune.RegisterClass("moons", func() tune.Class { return &network{} })

func tuner(folder string, in tune.Executor) *tune.Tuner {
	return &tune.Tuner{
		Name: "moons", Storage: folder, Trainable: trainable, Executor: in,
		Space: space.Space{"lr": space.LogUniform(1e-4, 1), "hidden": space.Choice(2, 4, 8, 16)},
		Options: tune.Options{
			Metric: "accuracy", Max: true, Samples: 24, Seed: 1,
			MaxFailures: 2, Every: 9, Keep: 1, AtEnd: true, // checkpoints: each 9 epochs, and the last
		},
		Scheduler: &sched.ASHA{MaxT: 81, Factor: 3},
	}
}

func main() {
	cascade.Main() // first: this program, started again, is the executor
	folder, err := os.MkdirTemp("", "tune")
	if err == nil {
		err = errors.Join(search(context.Background(), folder, os.Stdout), os.RemoveAll(folder))
	}
	if err != nil {
		log.Fatal(err)
	}
}

func search(ctx context.Context, folder string, out *os.File) (err error) {
	c, err := cascade.Local(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s, err := c.Session(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	g, err := tuner(folder, tune.Actors(s.Context(), 2)).Run(ctx)
	if err != nil {
		return err
	}
	best, accuracy, err := g.Best(tune.Query{})
	if err != nil {
		return err
	}
	results := 0
	for i := range g.Trials {
		results += g.Trials[i].Results
	}
	_, err = fmt.Fprintf(out, "best %s %v: accuracy %.3f; %d of %d trials failed; %d of %d epochs were trained\n",
		best.Name, best.Config, accuracy, g.Count(core.Errored), len(g.Trials), results, 81*len(g.Trials))
	return err
}
