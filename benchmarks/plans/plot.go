package main

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// save draws a plot, as the file's name says: .svg, .png, .pdf.
func save(p *plot.Plot, path string) error {
	if err := p.Save(18*vg.Centimeter, 11*vg.Centimeter, path); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// tenths marks each tenth.
func tenths(least, most float64) (ticks []plot.Tick) {
	for k := math.Ceil(least*10 - 1e-9); k <= most*10; k++ {
		ticks = append(ticks, plot.Tick{Value: k / 10, Label: fmt.Sprintf("%.1f", k/10)})
	}
	return ticks
}

// plot shows the table: a point for each method over each name.
func (t *table) plot() (*plot.Plot, error) {
	shorter := strings.NewReplacer("-chameleon", "", "-dirt02", "", "-001", "") // where and how often it was recorded
	p := plot.New()
	p.Y.Label.Text = "makespan over lower bound"
	short := make([]string, len(t.names))
	for i, name := range t.names {
		short[i] = shorter.Replace(name)
	}
	p.NominalX(short...)
	p.Y.Tick.Marker = plot.TickerFunc(tenths)
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/5, draw.XRight, draw.YTop
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for k, method := range t.columns() {
		points := make(plotter.XYs, len(t.names))
		for i, name := range t.names {
			beside := (float64(k) - float64(len(t.columns())-1)/2) * 0.1 // equal ones do not hide each other
			points[i] = plotter.XY{X: float64(i) + beside, Y: math.Exp(t.sums[name][k] / float64(t.n[name]))}
		}
		s, err := plotter.NewScatter(points)
		if err != nil {
			return nil, fmt.Errorf("plot %s: %w", method, err)
		}
		s.Color, s.Shape, s.Radius = plotutil.Color(k), plotutil.Shape(k), vg.Points(2.5)
		p.Add(s)
		p.Legend.Add(method, s)
	}
	p.Y.Min = 1
	p.Y.Max += (p.Y.Max - p.Y.Min) / 3 // room for the legend
	return p, nil
}

// plotTimes shows what planning takes by the number of tasks.
func plotTimes(tasks []int, seconds [2][]float64) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "tasks", "processor seconds"
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Scale, a.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for k, name := range []string{"first plan", "four evaluations more"} {
		points := make(plotter.XYs, len(tasks))
		for i, n := range tasks {
			points[i] = plotter.XY{X: float64(n), Y: max(seconds[k][i], 1e-4)}
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("plot %s: %w", name, err)
		}
		line.Color, dots.Color, dots.Shape = plotutil.Color(k), plotutil.Color(k), plotutil.Shape(k)
		p.Add(line, dots)
		p.Legend.Add(name, line, dots)
	}
	return p, nil
}
