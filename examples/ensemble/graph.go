package main

import (
	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/examples/ensemble/fields"
)

// threshold of the probability: -20 degrees Celsius at 500 hPa and 0 at 850, in K,
// or a height of 5520 and 1500 m, as geopotential in m2 s-2.
func threshold(field string) cascade.Expr {
	if field == "z" {
		return "level == 500 ? 54132.708 : 14709.975"
	}
	return "level == 500 ? 253.15 : 273.15"
}

// graph builds what job.yaml describes, for a field and a number of steps.
// Wrong edges, such as a map of a table, do not compile.
func graph(field string, steps int) (*dag.Graph, error) {
	g := cascade.NewGraph("ensemble")
	source := cascade.With(fields.Source{File: "data/era5-ensemble.npy", Steps: steps})
	about := fields.Describe.Add(g, "about", source)
	decode := fields.Decode.Add(g, "decode", source, cascade.Count(steps))

	step, level := cascade.Range("step", 0, steps-1), cascade.Values("level", 500, 850)
	each, levels := cascade.Over(step, level), cascade.Over(level)
	choice := cascade.With(fields.Choice{Field: field}).Set("level", level)
	above := cascade.With(fields.Above{Field: field}).Set("level", level).Set("threshold", threshold(field))

	mean := fields.Mean.Map(g, "mean", each, decode.At(step), about, choice)
	spread := fields.Spread.Map(g, "spread", each, decode.At(step), about, choice)
	probability := fields.Probability.Map(g, "probability", each, decode.At(step), about, above)
	csv, change := fields.Compare.Map(g, "compare", levels, mean.Some(cascade.All, level), spread.Some(cascade.All, level), about, choice)

	last := steps - 1
	picture := func(product string) cascade.Params[fields.Picture] {
		return cascade.With(fields.Picture{Product: product, Field: field, Step: last}).Set("level", level)
	}
	maps := []cascade.Family[[]byte]{
		fields.DrawMap.Map(g, "map_mean", levels, mean.At(last, level), about, picture("mean")),
		fields.DrawMap.Map(g, "map_spread", levels, spread.At(last, level), about, picture("spread")),
		fields.DrawMap.Map(g, "map_probability", levels, probability.At(last, level), about,
			picture("probability").Set("threshold", threshold(field))),
		fields.DrawMap.Map(g, "map_change", levels, change.At(level), about, picture("change")),
	}

	for _, kept := range []cascade.Family[fields.Fields]{mean, spread, probability} {
		g.Output(kept, "")
	}
	g.Output(csv, "out/")
	for _, m := range maps {
		g.Output(m, "out/")
	}
	return g.Build()
}
