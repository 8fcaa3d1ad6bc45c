package cascade_test

import (
	"context"
	"fmt"
	"iter"

	"github.com/cascade-run/cascade"
)

// Functions of tasks are declared at package level and registered by name.
var (
	Decode = cascade.Gen1("Decode", decodeFields, "with -> field")
	Spread = cascade.Func1x2("Spread", spreadOf, "field -> mean, stddev")
	Report = cascade.Func1("Report", report, "means -> text")
)

type source struct {
	File  string
	Steps int
}

func decodeFields(ctx context.Context, from source) iter.Seq2[cascade.Array[float64], error] {
	return func(yield func(cascade.Array[float64], error) bool) {
		for range from.Steps {
			field, err := cascade.Alloc[float64](ctx, 10, 181, 360) // in shared memory, filled in place
			if !yield(field, err) {
				return
			}
		}
	}
}

func spreadOf(_ context.Context, field cascade.Array[float64]) (mean, stddev []float64, err error) {
	return field.Row(0).Data, field.Row(1).Data, nil
}

func report(_ context.Context, means cascade.List[[]float64]) (string, error) {
	return fmt.Sprintf("%d steps", means.Len()), nil
}

// A graph with a generator, a family of tasks over its elements, a reduction and
// a command. The compiler checks that the edges fit.
func ExampleGraph() {
	g := cascade.NewGraph("ensemble")
	fields := Decode.Add(g, "decode", cascade.With(source{File: "fields.npy", Steps: 4}), cascade.Count(4))
	step := cascade.Range("step", 0, 3)
	mean, stddev := Spread.Map(g, "spread", cascade.Over(step), fields.At(step), cascade.Retries(2))
	text := Report.Add(g, "report", mean.All())
	upper := g.Command("shout", nil, cascade.CommandSpec{
		Args: []string{"tr", "a-z", "A-Z"}, Inputs: map[string]cascade.Source{"text": text}, Stdin: "text",
		Out: []string{"loud"}, Stdout: "loud",
	})
	g.Output(upper.Out("loud"), "report.txt")
	g.Output(stddev.At(3), "")

	d, err := g.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, i := range d.Order() {
		fmt.Println(d.TaskName(i))
	}
	// Output:
	// decode
	// spread[0]
	// spread[1]
	// spread[2]
	// spread[3]
	// report
	// shout
}
