package main

import (
	"errors"
	"fmt"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// pictures draws PREFIX-ratios.svg and PREFIX-noops.svg.
func (r results) pictures(prefix string) error {
	if prefix == "" {
		return nil
	}
	for _, picture := range []struct {
		name string
		draw func() (*plot.Plot, error)
	}{{"ratios", r.ratios}, {"noops", r.ladder}} {
		p, err := picture.draw()
		if err != nil {
			return fmt.Errorf("plot %s: %w", picture.name, err)
		}
		if p == nil {
			continue
		}
		if err := save(p, prefix+"-"+picture.name+".svg"); err != nil {
			return err
		}
	}
	return nil
}

// ratios draws a bar for each workload: how many times as good ours is as the best other.
func (r results) ratios() (*plot.Plot, error) {
	var names []string
	var bars plotter.Values
	for _, g := range r.grouped() {
		best, ok := g.bestPeer()
		ours, has := g.fair()
		if ok && has {
			names = append(names, g.name+" ("+best.System+")")
			bars = append(bars, math.Log10(times(ours, best)))
		}
	}
	if len(bars) == 0 {
		return nil, nil
	}
	for i, j := 0, len(bars)-1; i < j; i, j = i+1, j-1 { // the first on top
		names[i], names[j], bars[i], bars[j] = names[j], names[i], bars[j], bars[i]
	}
	p := plot.New()
	p.Title.Text = "Cascade with Python tasks, times as good as the best other"
	chart, err := plotter.NewBarChart(bars, vg.Points(9))
	if err != nil {
		return nil, err
	}
	chart.Horizontal, chart.Color, chart.LineStyle.Width = true, plotutil.Color(2), 0
	p.Add(chart, plotter.NewGrid())
	p.NominalY(names...)
	p.X.Tick.Marker = powers{}
	return p, nil
}

// powers are ticks of a logarithm.
type powers struct{}

// Ticks implements plot.Ticker.
func (powers) Ticks(low, high float64) (ticks []plot.Tick) {
	for k := math.Floor(low); k <= math.Ceil(high); k++ {
		ticks = append(ticks, plot.Tick{Value: k, Label: number(math.Pow(10, k))})
	}
	return ticks
}

// ladder draws the rate of independent tasks by their number, a line for each system.
func (r results) ladder() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "independent no-op tasks"
	p.X.Label.Text, p.Y.Label.Text = "tasks", "tasks/s"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	drawn := 0
	for i, s := range systems() {
		var line plotter.XYs
		for _, w := range workloads() {
			for _, x := range r.Rows {
				if w.axis != "" && x.Workload == w.name && x.System == s.name && x.Error == "" && x.Value > 0 {
					line = append(line, plotter.XY{X: w.size, Y: x.Value})
				}
			}
		}
		if len(line) == 0 {
			continue
		}
		l, points, err := plotter.NewLinePoints(line)
		if err != nil {
			return nil, err
		}
		l.Color, points.Color, points.Shape = plotutil.Color(i), plotutil.Color(i), draw.CircleGlyph{}
		if s.bound {
			l.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(l, points)
		p.Legend.Add(s.title, l, points)
		drawn++
	}
	if drawn == 0 {
		return nil, nil
	}
	p.Legend.Left, p.Legend.Top = true, true
	p.Y.Max *= 30 // room for the legend
	return p, nil
}

func save(p *plot.Plot, path string) (err error) {
	const width, height = 18 * vg.Centimeter, 13 * vg.Centimeter
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err = canvas.WriteTo(f); err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	return nil
}
