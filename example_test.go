package cascade_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/cascade-run/cascade"
)

// A program that runs a job of its own functions on this host. In a program,
// main calls cascade.Main first; in a test, TestMain calls cascade.RunTests.
func ExampleLocal() {
	state, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(state)

	g := cascade.NewGraph("mean")
	values := ramp.Add(g, "values", cascade.With(size{N: 1000}))
	total := sum.Add(g, "total", values) // the compiler checks that it fits
	g.Output(total, "")
	graph, err := g.Build()
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	cluster, err := cascade.Local(ctx, cascade.WithState(state)) // without the option: the user's state folder
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	job, err := cluster.Submit(ctx, graph)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cascade.Result(ctx, job, total))
	// Output: 499500 <nil>
}

// A program that calls functions as a task does. On a cluster, Dial takes the place of Local.
func ExampleClient_Session() {
	state, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(state)
	ctx := context.Background()
	cluster, err := cascade.Local(ctx, cascade.WithState(state))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	session, err := cluster.Session(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	n := fibTask.Go(session.Context(), cascade.Val(fibOf{10}))
	fmt.Println(n.Get(session.Context()))
	fmt.Println(session.Close(ctx))
	// Output:
	// 55 <nil>
	// <nil>
}

// A program calls a function many times, and goes on with each result as it comes. A task
// does the same with its own context.
func ExampleCompleted() {
	err := inSession(func(ctx context.Context) error {
		factor, err := cascade.Put(ctx, 21)
		if err != nil {
			return err
		}
		var doubles []cascade.Future[int]
		for range 3 {
			doubles = append(doubles, doubledTask.Go(ctx, factor, cascade.CPU(0.5)))
		}
		for i, err := range cascade.Completed(ctx, doubles) {
			if err != nil {
				return err
			}
			x, err := doubles[i].Get(ctx)
			if err != nil {
				return err
			}
			fmt.Println("one is", x)
		}
		sum, err := addsTask.Go(ctx, cascade.Futures(doubles...)).Get(ctx)
		fmt.Println("all are", sum)
		return err
	})
	fmt.Println(err)
	// Output:
	// one is 42
	// one is 42
	// one is 42
	// all are 126
	// <nil>
}

// inSession runs a part of a program in a session on this host.
func inSession(part func(ctx context.Context) error) error {
	state, err := os.MkdirTemp("", "example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	ctx := context.Background()
	cluster, err := cascade.Local(ctx, cascade.WithState(state))
	if err != nil {
		return err
	}
	defer cluster.Close()
	session, err := cluster.Session(ctx)
	if err != nil {
		return err
	}
	return errors.Join(part(session.Context()), session.Close(ctx))
}

// Errors keep their identity across processes when they are registered.
func ExampleRegisterError() {
	g := cascade.NewGraph("bad day")
	bad.Add(g, "decode", cascade.With(how{How: "error"}))
	err := runHere(g)
	var task *cascade.TaskError
	fmt.Println(errors.Is(err, errNoData), errors.As(err, &task))
	fmt.Println(task.Task, "in attempt", task.Attempt, "on agent", task.Agent, "said:", task.Message)
	// Output:
	// true true
	// decode in attempt 1 on agent local said: 2026-02-30: no data for this date
}

// runHere runs a job as ExampleLocal does, and returns how it ended.
func runHere(g *cascade.Graph) error {
	graph, err := g.Build()
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "example-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	ctx := context.Background()
	cluster, err := cascade.Local(ctx, cascade.WithState(state))
	if err != nil {
		return err
	}
	defer cluster.Close()
	job, err := cluster.Submit(ctx, graph)
	if err != nil {
		return err
	}
	_, err = job.Wait(ctx)
	return err
}
