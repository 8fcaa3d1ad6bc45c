package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/wfformat"
	"github.com/cascade-run/cascade/profiles"
)

// The synthetic forecast: ten members perturb one analysis; a model on the one device
// makes 21 steps of all members; each field is regridded and derived from, and each
// step gets the ensemble's mean and the probability of a threshold over two steps.
const (
	members = 10
	steps   = 21
)

// stages are the tasks of the forecast with what one takes: seconds, and bytes that it writes.
var stages = []struct {
	name           string
	seconds, bytes float64
}{
	{"analysis", 20, 4e9}, {"perturb", 5, 1e9}, {"model", 4, 2e9 + members*fieldBytes}, {"regrid", 2, 5e7}, {"derive", 1, 5e7}, {"mean", 1, 5e7}, {"prob", 1, 5e7}, {"page", 0.5, 1e6},
}

const fieldBytes = 1e8 // of a member at one step

// forecast is the job for the judge, which knows no generators: the steps of the
// model are tasks, each of which reads the state that the one before left.
func forecast() (*wfformat.Import, error) {
	var b strings.Builder
	b.WriteString("job: forecast\ntasks:\n  analysis: {run: analysis, out: [x]}\n")
	var fields []string
	for m := range members {
		fmt.Fprintf(&b, "  perturb%d: {run: perturb, in: {x: analysis}, out: [x]}\n", m)
		fields = append(fields, fmt.Sprint("f", m))
	}
	for s := range steps {
		in := strings.Join(names("perturb", members), ", ")
		if s > 0 {
			in = fmt.Sprintf("model%d.state", s-1)
		}
		fmt.Fprintf(&b, "  model%d: {run: model, in: {x: [%s]}, out: [state, %s], resources: {gpu: 1}}\n", s, in, strings.Join(fields, ", "))
		var now, both []string
		for m := range members {
			fmt.Fprintf(&b, "  regrid%d_%d: {run: regrid, in: {x: model%d.f%d}, out: [x]}\n", s, m, s, m)
			fmt.Fprintf(&b, "  derive%d_%d: {run: derive, in: {x: regrid%d_%d}, out: [x]}\n", s, m, s, m)
			now = append(now, fmt.Sprintf("derive%d_%d", s, m))
			if both = append(both, now[m]); s > 0 {
				both = append(both, fmt.Sprintf("derive%d_%d", s-1, m))
			}
		}
		fmt.Fprintf(&b, "  mean%d: {run: mean, in: {x: [%s]}, out: [x]}\n", s, strings.Join(now, ", "))
		fmt.Fprintf(&b, "  prob%d: {run: prob, in: {x: [%s]}, out: [x]}\n", s, strings.Join(both, ", "))
		fmt.Fprintf(&b, "  page%d: {run: page, in: {x: [mean%d, prob%d]}, out: [x]}\n", s, s, s)
	}
	fmt.Fprintf(&b, "outputs: [%s]\n", strings.Join(names("page", steps), ", "))
	g, err := dag.ParseYAML("forecast", []byte(b.String()), dag.Override{}, dag.Options{})
	if err != nil {
		return nil, err
	}
	im := &wfformat.Import{Graph: g}
	for _, s := range stages {
		e := profiles.Entry{Function: s.name, Runs: 1, Seconds: s.seconds, Bytes: s.bytes}
		if s.name == "model" {
			e.Outputs = map[string]float64{"state": s.bytes - members*fieldBytes}
			for _, f := range fields {
				e.Outputs[f] = fieldBytes
			}
		}
		im.Profile.Profiles = append(im.Profile.Profiles, e)
	}
	return im, nil
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// Tasks of the forecast that runs for real.
var (
	_ = cascade.Gen1("Model", runModel, "with -> field")
	_ = cascade.Func2("Step", runStep, "x, with -> out")
	_ = cascade.Func2("Merge", runMerge, "xs, with -> out")
)

// work is what a task of the forecast that runs for real does.
type work struct {
	Seconds float64
	Floats  int // of the field that it makes
}

func (w work) field(ctx context.Context, from float64) (cascade.Array[float64], error) {
	time.Sleep(time.Duration(w.Seconds * float64(time.Second)))
	a, err := cascade.Alloc[float64](ctx, w.Floats)
	for i := range a.Data {
		a.Data[i] = from + 1
	}
	return a, err
}

func runModel(ctx context.Context, w work) iter.Seq2[cascade.Array[float64], error] {
	return func(yield func(cascade.Array[float64], error) bool) {
		for range members * steps {
			if a, err := w.field(ctx, 0); !yield(a, err) || err != nil {
				return
			}
		}
	}
}

func runStep(ctx context.Context, x cascade.Array[float64], w work) (cascade.Array[float64], error) {
	return w.field(ctx, x.Data[0])
}

func runMerge(ctx context.Context, xs cascade.List[cascade.Array[float64]], w work) (cascade.Array[float64], error) {
	sum := 0.0
	for _, x := range xs.Values() {
		sum += x.Data[0]
	}
	return w.field(ctx, sum)
}

// after is how many tasks of a field follow each other, each reading nothing but the one before.
const after = 4

// running is the forecast to run for real: the model is one generator, and what is
// made of a field is a path of tasks.
func running(w work) (*dag.Graph, error) {
	with := fmt.Sprintf("{seconds: %g, floats: %d}", w.Seconds, w.Floats)
	var b strings.Builder
	fmt.Fprintf(&b, "job: forecast\ntasks:\n  model: {run: Model, with: {seconds: 0, floats: %d}, generates: {field: %d}}\n", w.Floats, members*steps)
	from := fmt.Sprintf("model.field[${s*%d+m}]", members)
	for k := range after {
		fmt.Fprintf(&b, "  step%d: {for: {s: 0..%d, m: 0..%d}, run: Step, in: {x: \"%s\"}, with: %s, out: [out]}\n", k, steps-1, members-1, from, with)
		from = fmt.Sprintf("step%d[${s},${m}]", k)
	}
	fmt.Fprintf(&b, "  mean: {for: {s: 0..%d}, run: Merge, in: {xs: \"step%d[${s},*]\"}, with: %s, out: [out]}\n", steps-1, after-1, with)
	fmt.Fprintf(&b, "  all: {run: Merge, in: {xs: \"mean[*]\"}, with: %s, out: [out]}\noutputs: [all]\n", with)
	return dag.ParseYAML("forecast", []byte(b.String()), dag.Override{}, dag.Options{})
}

// fusion prints what the forecast takes on one host with tasks fused and without, in
// turn on two clusters of the same shape.
func fusion(w io.Writer, cores, rounds int, all []work) error {
	fmt.Fprintf(w, "| a task takes | and writes | fused | apart | ratio |\n|---|---|---|---|---|\n")
	for _, one := range all {
		g, err := running(one)
		if err != nil {
			return err
		}
		var took [2][]float64
		if err := onBoth(cores, func(ctx context.Context, on [2]*cascade.Client) error {
			for r := range rounds + 1 {
				for k := range on {
					seconds, _, _, err := submit(ctx, on[k], g)
					if err != nil {
						return err
					}
					if r > 0 { // the first warms up
						took[k] = append(took[k], seconds)
					}
				}
			}
			return nil
		}); err != nil {
			return err
		}
		fused, apart := middle(took[0]), middle(took[1])
		fmt.Fprintf(w, "| %g ms | %d KiB | %.1f ms | %.1f ms | %.2f |\n", one.Seconds*1e3, one.Floats/128, fused*1e3, apart*1e3, apart/fused)
	}
	return nil
}

// onBoth runs f with a cluster that fuses tasks and one that does not.
func onBoth(cores int, f func(context.Context, [2]*cascade.Client) error) error {
	fused := execution{hosts: 1, cores: cores, memory: 3 << 30} // nothing is spilled
	return fused.run(func(ctx context.Context, with *cascade.Client) error {
		apart := fused
		apart.apart = true
		return apart.run(func(ctx context.Context, without *cascade.Client) error {
			return f(ctx, [2]*cascade.Client{with, without})
		})
	})
}

func middle(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
