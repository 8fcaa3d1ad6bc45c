package fields

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"path/filepath"

	"github.com/cascade-run/cascade"
)

// Fields is an array of numbers in shared memory.
type Fields = cascade.Array[float64]

// The functions that job files name, as fields:Describe and so on.
var (
	Describe    = cascade.Func1("Describe", describe, "with -> meta")
	Decode      = cascade.Gen1("Decode", decode, "with -> step")
	Mean        = cascade.Func3("Mean", mean, "fields, meta, with -> mean")
	Spread      = cascade.Func3("Spread", spread, "fields, meta, with -> spread")
	Probability = cascade.Func3("Probability", probability, "fields, meta, with -> probability")
	Compare     = cascade.Func4x2("Compare", compare, "means, spreads, meta, with -> csv, change")
	DrawMap     = cascade.Func3("DrawMap", drawMap, "values, meta, with -> png")
)

// Source names the archive and how much of it to read.
type Source struct {
	File  string
	Steps int // from the first on
}

// Choice picks a field and a level of a step.
type Choice struct {
	Field string
	Level int // hPa
}

// Above is a Choice and the threshold that members have to exceed.
type Above struct {
	Field     string
	Level     int
	Threshold float64 // in the field's unit
}

func describe(ctx context.Context, with Source) (Meta, error) {
	m, err := ReadMeta(sidecar(with.path(ctx)))
	if err != nil {
		return Meta{}, err
	}
	return *m, m.cut(with.Steps)
}

// decode publishes the steps one by one, each decoded into the store itself.
func decode(ctx context.Context, with Source) iter.Seq2[Fields, error] {
	return func(yield func(Fields, error) bool) {
		a, err := Open(with.path(ctx))
		if err == nil {
			err = a.cut(with.Steps)
		}
		if err != nil {
			yield(Fields{}, err)
			return
		}
		for i := range a.Times {
			step, err := cascade.Alloc[float64](ctx, a.StepShape()...)
			if err == nil {
				err = a.Step(step.Data, i)
			}
			if !yield(step, err) || err != nil {
				return
			}
		}
	}
}

// path returns the archive's path: a relative one starts at the job file's folder.
func (s Source) path(ctx context.Context) string {
	if filepath.IsAbs(s.File) {
		return s.File
	}
	return filepath.Join(cascade.Task(ctx).Dir, s.File)
}

func mean(ctx context.Context, fields Fields, meta Meta, with Choice) (Fields, error) {
	return overMembers(ctx, fields, meta, with, MeanInto)
}

func spread(ctx context.Context, fields Fields, meta Meta, with Choice) (Fields, error) {
	return overMembers(ctx, fields, meta, with, SpreadInto)
}

func probability(ctx context.Context, fields Fields, meta Meta, with Above) (Fields, error) {
	return overMembers(ctx, fields, meta, Choice{with.Field, with.Level}, func(dst, members []float64) error {
		return ProbabilityInto(dst, members, with.Threshold)
	})
}

// overMembers applies a statistic to the chosen members, straight from and to
// shared memory.
func overMembers(ctx context.Context, fields Fields, meta Meta, c Choice, f func(dst, members []float64) error) (Fields, error) {
	members, err := meta.Select(fields.Data, c.Level, c.Field)
	if err != nil {
		return Fields{}, err
	}
	out, err := cascade.Alloc[float64](ctx, len(meta.Lat), len(meta.Lon))
	if err != nil {
		return Fields{}, err
	}
	return out, f(out.Data, members)
}

// compare returns a table of consecutive steps, and the change of the mean from
// the first step to the last.
func compare(ctx context.Context, means, spreads cascade.List[Fields], meta Meta, with Choice) (csv []byte, change Fields, err error) {
	changes, err := CompareSteps(meta.Grid, data(means), data(spreads))
	if err != nil {
		return nil, Fields{}, err
	}
	var table bytes.Buffer
	if err := meta.WriteChanges(&table, with.Field, with.Level, changes); err != nil {
		return nil, Fields{}, err
	}
	if change, err = cascade.Alloc[float64](ctx, len(meta.Lat), len(meta.Lon)); err != nil {
		return nil, Fields{}, err
	}
	return table.Bytes(), change, Difference(change.Data, means.At(0).Data, means.At(means.Len()-1).Data)
}

func data(l cascade.List[Fields]) [][]float64 {
	out := make([][]float64, l.Len())
	for i, f := range l.Values() {
		out[i] = f.Data
	}
	return out
}

func drawMap(_ context.Context, values Fields, meta Meta, with Picture) ([]byte, error) {
	m, err := meta.NewMap(with, values.Data)
	if err != nil {
		return nil, err
	}
	var png bytes.Buffer
	if err := m.WritePNG(&png); err != nil {
		return nil, fmt.Errorf("%s of %s: %w", with.Product, with.Field, err)
	}
	return png.Bytes(), nil
}
