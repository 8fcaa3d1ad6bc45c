//go:build linux

package main

import (
	"fmt"
	"image/color"
	"maps"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// draw plots tasks a second against hosts, both in powers of ten.
func draw(file string, cores int, all []point) error {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("Predicted: hosts of %d cores", cores)
	p.X.Label.Text, p.Y.Label.Text = "hosts", "tasks a second"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	add := func(name string, c color.Color, xy plotter.XYs) error {
		line, dots, err := plotter.NewLinePoints(xy)
		if err != nil {
			return err
		}
		line.Color, dots.Color = c, c
		p.Add(line, dots)
		p.Legend.Add(name, line, dots)
		return nil
	}
	colors := []color.RGBA{{R: 0xc0, G: 0x50, B: 0x20, A: 0xff}, {R: 0x20, G: 0x60, B: 0xa0, A: 0xff}, {R: 0xe0, G: 0xa0, B: 0x20, A: 0xff}, {R: 0x50, G: 0xa0, B: 0x80, A: 0xff}}
	for i := 0; len(all) > 0; i++ {
		var xy plotter.XYs
		name := all[0].name()
		for len(all) > 0 && all[0].name() == name {
			xy = append(xy, plotter.XY{X: float64(all[0].n), Y: all[0].res.Rate})
			all = all[1:]
		}
		if err := add(name, colors[i%len(colors)], xy); err != nil {
			return err
		}
	}
	var paper plotter.XYs
	for _, n := range slices.Sorted(maps.Keys(ray)) {
		paper = append(paper, plotter.XY{X: float64(n), Y: ray[n]})
	}
	if err := add("Ray paper, empty tasks", color.RGBA{A: 0xff}, paper); err != nil {
		return err
	}
	return p.Save(16*vg.Centimeter, 11*vg.Centimeter, file)
}
