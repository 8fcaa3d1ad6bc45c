//go:build linux

package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

func readLines(path string) (out []sample, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the csv: %w", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the csv: %w", err)
	}
	if len(rows) < 3 || len(rows[0]) != len(columns) {
		return nil, fmt.Errorf("%s: want the columns %v and two lines at least", path, columns)
	}
	for i, row := range rows[1:] {
		var x [6]float64
		for k := range row {
			if x[k], err = strconv.ParseFloat(row[k], 64); err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", path, i+2, err)
			}
		}
		out = append(out, sample{x[0], int64(x[1]), int64(x[2]), int64(x[3]), int64(x[4]), int64(x[5])})
	}
	return out, nil
}

// drawPanels makes two plots over time: of memory, and of disk.
func drawPanels(lines []sample, memory int64) ([]*plot.Plot, error) {
	series := func(y func(*sample) float64) plotter.XYs {
		out := make(plotter.XYs, len(lines))
		for i := range lines {
			out[i] = plotter.XY{X: lines[i].seconds, Y: y(&lines[i])}
		}
		return out
	}
	mib := func(n int64) float64 { return float64(n) / (1 << 20) }
	blue, orange, grey := color.RGBA{R: 30, G: 90, B: 170, A: 255}, color.RGBA{R: 210, G: 110, A: 255}, color.RGBA{R: 110, G: 110, B: 110, A: 255}
	green := color.RGBA{R: 40, G: 140, B: 60, A: 255}
	add := func(p *plot.Plot, name string, xys plotter.XYs, c color.Color, dashes ...vg.Length) error {
		l, err := plotter.NewLine(xys)
		if err != nil {
			return err
		}
		l.Color, l.Dashes, l.Width = c, dashes, vg.Points(1.3)
		p.Add(l)
		p.Legend.Add(name, l)
		return nil
	}
	last := lines[len(lines)-1]
	top, bottom := plot.New(), plot.New()
	top.Title.Text = fmt.Sprintf("%.3g million tasks, each stored", float64(last.tasks)/1e6)
	top.Y.Label.Text = "memory, MiB"
	bottom.Y.Label.Text, bottom.X.Label.Text = "disk, MiB; tasks, 10,000", "seconds"
	bound := mib(memory << 20)
	for _, e := range []error{
		add(top, "controller, agent and client", series(func(s *sample) float64 { return mib(s.anon) }), blue),
		add(top, "of it the store's memtables, caches and indices", series(func(s *sample) float64 { return mib(s.heap) }), green),
		add(top, "pages of the store's files", series(func(s *sample) float64 { return mib(s.mapped) }), orange),
		add(top, "--gcs-memory", series(func(*sample) float64 { return bound }), grey, vg.Points(4), vg.Points(3)),
		add(bottom, "the store's files", series(func(s *sample) float64 { return mib(s.disk) }), orange),
		add(bottom, "tasks that ended", series(func(s *sample) float64 { return float64(s.tasks) / 1e4 }), grey, vg.Points(4), vg.Points(3)),
	} {
		if e != nil {
			return nil, e
		}
	}
	for _, p := range []*plot.Plot{top, bottom} {
		p.Legend.Top, p.Legend.Left = true, true
		p.Y.Min = 0
		p.Y.Max *= 1.25 // room for the legend
		p.Add(plotter.NewGrid())
	}
	return []*plot.Plot{top, bottom}, nil
}

// draw writes the panels, one above the other, as SVG or PNG by the file's name.
func draw(lines []sample, memory int64, path string) (err error) {
	panels, err := drawPanels(lines, memory)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	const width, height = 16 * vg.Centimeter, 14 * vg.Centimeter
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	switch filepath.Ext(path) {
	case ".svg":
		canvas = vgsvg.New(width, height)
	case ".png":
		canvas = vgimg.PngCanvas{Canvas: vgimg.New(width, height)}
	default:
		return fmt.Errorf("plot %s: want a name that ends in .svg or .png", path)
	}
	tiles := vgdraw.Tiles{Rows: 2, Cols: 1, PadY: vg.Points(8), PadTop: vg.Points(4), PadBottom: vg.Points(4), PadRight: vg.Points(6)}
	at := plot.Align([][]*plot.Plot{{panels[0]}, {panels[1]}}, tiles, vgdraw.New(canvas))
	panels[0].Draw(at[0][0])
	panels[1].Draw(at[1][0])
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = canvas.WriteTo(f)
	return err
}
