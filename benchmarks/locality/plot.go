//go:build linux

package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// draw plots how long tasks wait against the size of what they read, both in powers of ten.
func draw(path string, all []result) error {
	p := plot.New()
	p.Title.Text = "a task that reads a dataset on one of two hosts"
	p.X.Label.Text, p.Y.Label.Text = "size of the dataset, MB", "from its publication to the task's start, ms"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	for _, s := range []struct {
		name  string
		wait  func(*result) measured
		color color.Color
	}{
		{"where the planner says", func(r *result) measured { return r.aware }, color.RGBA{R: 30, G: 90, B: 170, A: 255}},
		{"by chance", func(r *result) measured { return r.unaware }, color.RGBA{R: 210, G: 110, A: 255}},
	} {
		points := make(plotter.XYs, len(all))
		for i := range all {
			points[i] = plotter.XY{X: float64(all[i].size) / 1e6, Y: max(0.01, s.wait(&all[i]).wait.Seconds()*1000)}
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("plot: %w", err)
		}
		line.Color, line.Width, dots.Color = s.color, vg.Points(1.3), s.color
		p.Add(line, dots)
		p.Legend.Add(s.name, line)
	}
	if err := p.Save(14*vg.Centimeter, 9*vg.Centimeter, path); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}
