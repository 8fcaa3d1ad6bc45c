//go:build linux

package main

import (
	"fmt"
	"image/color"

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
	var empty, long plotter.XYs
	for _, pt := range all {
		xy := plotter.XY{X: float64(pt.n), Y: pt.res.Rate}
		if pt.task == 0 {
			empty = append(empty, xy)
		} else {
			long = append(long, xy)
		}
	}
	if err := add("empty tasks", color.RGBA{R: 0xc0, G: 0x50, B: 0x20, A: 0xff}, empty); err != nil {
		return err
	}
	if err := add(fmt.Sprintf("tasks of %v", longTask), color.RGBA{R: 0x20, G: 0x60, B: 0xa0, A: 0xff}, long); err != nil {
		return err
	}
	return p.Save(16*vg.Centimeter, 11*vg.Centimeter, file)
}
