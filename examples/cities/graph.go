package main

import (
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/examples/cities/weather"
)

// graph builds what job.yaml describes, for a level in hPa.
func graph(level int) (*dag.Graph, error) {
	g := cascade.NewGraph("cities")
	small := []cascade.TaskOption{cascade.CPU(0.5), cascade.Memory(32 << 20)}
	first := cascade.Priority(10)

	list := g.Command("fetch", nil, cascade.CommandSpec{Args: []string{"cat", "data/cities.csv"}, Out: []string{"csv"}, Stdout: "csv"},
		cascade.Retries(3), cascade.Timeout(time.Minute), cascade.CPU(0.1)).Out("csv")

	// Without Count the number of elements is open.
	city := weather.Read.Add(g, "read", list, cascade.With(weather.Source{File: "../ensemble/data/era5-ensemble.npy", Level: level}),
		cascade.Buffer(8), cascade.CPU(1), cascade.Memory(256<<20))
	c := city.Each("c")
	each := cascade.Over(c)
	records := weather.Assess.Map(g, "assess", each, city.At(c), append(small, first, cascade.MayFail())...)
	series := weather.Series.Map(g, "series", each, city.At(c), small...)

	by := cascade.Values("by", "warmest", "coldest", "uncertain", "changed")
	table := weather.Rank.Map(g, "rank", cascade.Over(by), records.All().Min(45),
		cascade.With(weather.By{Top: 5}).Set("by", by), first)
	report := g.Command("report", nil, cascade.CommandSpec{
		Args:   []string{"cat", "${in.tables[*]}"},
		Inputs: map[string]cascade.Source{"tables": cascade.Refs(table.At("uncertain"), table.At("changed"), table.At("warmest"), table.At("coldest"))},
		Out:    []string{"text"}, Stdout: "text",
	}).Out("text")

	g.Output(report, "out/report.txt")
	g.Output(series, "out/cities/")
	return g.Build()
}
