//go:build linux

package chaos

import (
	"encoding/csv"
	"fmt"
	"image/color"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// rates is how many tasks end in a second, over time, and what was broken when.
type rates struct {
	began time.Time

	mu   sync.Mutex
	rows []rateRow
	what []string // since the last row
	n    int      // breaks
}

type rateRow struct {
	seconds, rate float64
	events        []string
}

func newRates(began time.Time) *rates { return &rates{began: began} }

func (r *rates) event(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.what = append(r.what, what)
	if what != "all is back" {
		r.n++
	}
}

func (r *rates) breaks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// sample writes a row each half second until stop is closed. What runs again is
// taken from the count first, and does not count below zero.
func (r *rates) sample(stop <-chan struct{}, done func() int64) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	most, at := done(), time.Now()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			n := max(done(), most)
			r.mu.Lock()
			r.rows = append(r.rows, rateRow{now.Sub(r.began).Seconds(), float64(n-most) / now.Sub(at).Seconds(), r.what})
			r.what = nil
			r.mu.Unlock()
			most, at = n, now
		}
	}
}

// write writes the files that are named.
func (r *rates) write(table, picture string) error {
	if table != "" {
		f, err := os.Create(table)
		if err != nil {
			return err
		}
		w := csv.NewWriter(f)
		rows := [][]string{{"seconds", "tasks_per_second", "events"}}
		for _, row := range r.rows {
			rows = append(rows, []string{strconv.FormatFloat(row.seconds, 'f', 2, 64), strconv.FormatFloat(row.rate, 'f', 1, 64), strings.Join(row.events, "; ")})
		}
		if err := w.WriteAll(rows); err != nil {
			f.Close()
			return fmt.Errorf("write %s: %w", table, err)
		}
		if err := f.Close(); err != nil {
			return fmt.Errorf("write %s: %w", table, err)
		}
	}
	if picture == "" {
		return nil
	}
	return r.draw(picture)
}

// drawn is how much of a run a plot shows: more could not be seen.
const drawn = 200 // seconds

func (r *rates) draw(file string) error {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text, p.Y.Min = "seconds", "tasks ended per second", 0
	var line, broken, back plotter.XYs
	for _, row := range r.rows {
		if row.seconds > drawn {
			break
		}
		line = append(line, plotter.XY{X: row.seconds, Y: row.rate})
		for _, e := range row.events {
			if e == "all is back" {
				back = append(back, plotter.XY{X: row.seconds})
			} else {
				broken = append(broken, plotter.XY{X: row.seconds})
			}
		}
	}
	l, err := plotter.NewLine(line)
	if err != nil {
		return err
	}
	l.Color = color.RGBA{R: 30, G: 90, B: 170, A: 255}
	p.Add(plotter.NewGrid(), l)
	for name, marks := range map[string]plotter.XYs{"something is broken": broken, "all is back": back} {
		if len(marks) == 0 {
			continue
		}
		s, err := plotter.NewScatter(marks)
		if err != nil {
			return err
		}
		s.Color = color.RGBA{R: 200, G: 40, B: 40, A: 255}
		if name == "all is back" {
			s.Color = color.RGBA{R: 40, G: 140, B: 60, A: 255}
		}
		s.Radius = vg.Points(2.5)
		p.Add(s)
		p.Legend.Add(name, s)
	}
	p.Legend.Top = true
	return p.Save(9*vg.Inch, 3*vg.Inch, file)
}
