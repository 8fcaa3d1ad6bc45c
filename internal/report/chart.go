package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"slices"
	"time"

	"github.com/cascade-run/cascade/internal/screen"
)

// Chart is bars over time in rows: one row for each host.
type Chart struct {
	Title string
	Rows  []string
	Bars  []Bar
	Areas []Area  // below the rows
	End   float64 // seconds that the axis shows; 0: until the last bar ends

	Classes []string // of bars: one has the same colour in each chart with the same list
}

// Bar is something that took time, in seconds.
type Bar struct {
	Row           int
	Start, Finish float64
	Class         string // bars of one class have one colour
	Failed        bool   // and those that failed another
	Text          string // what a reader sees who points at it
}

// Sizes of a chart, in pixels.
const (
	chartWidth   = 1200.0
	chartLeft    = 120.0
	chartRight   = 20.0
	chartLane    = 14.0
	chartTop     = 46.0
	chartBetween = 10.0
	chartLeast   = 0.5 // narrower bars of one class that follow each other become one
)

// SVG draws the chart: time to the right, in each row as many lanes as bars lie
// side by side.
func (c *Chart) SVG() []byte {
	lanes, counts := c.lanes()
	top := make([]float64, len(c.Rows)+1)
	top[0] = chartTop
	for r, n := range counts {
		top[r+1] = top[r] + float64(max(n, 1))*chartLane + chartBetween
	}
	rows, end := top[len(c.Rows)], c.end()
	bottom := rows + float64(len(c.Areas))*(areaHeight+areaBetween)
	colours := map[string]string{}
	for k, name := range c.classes() {
		colours[name] = colourOf(k)
	}
	var foot bytes.Buffer
	high := drawLegend(&foot, c.legend(colours), bottom+8)
	scale := (chartWidth - chartLeft - chartRight) / max(end, 1e-9)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" font-family="sans-serif" font-size="11">`+"\n", chartWidth, bottom+20+high)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	fmt.Fprintf(&b, `<text x="10" y="18" font-size="14">%s</text>`+"\n", html.EscapeString(c.Title))
	for _, at := range ticks(end) {
		x := chartLeft + at*scale
		fmt.Fprintf(&b, `<path d="M%.1f %g V%g" stroke="#ddd"/><text x="%.1f" y="%g" text-anchor="middle" fill="#666">%s</text>`+"\n",
			x, chartTop-4, bottom, x, chartTop-8, tickText(at))
	}
	for r, name := range c.Rows {
		fmt.Fprintf(&b, `<text x="10" y="%.1f">%s</text>`+"\n", top[r]+11, html.EscapeString(name))
	}
	for _, bar := range joined(c.Bars, lanes, chartLeast/scale) {
		fmt.Fprintf(&b, `<rect x="%.2f" y="%.1f" width="%.2f" height="%g" fill="%s"><title>%s</title></rect>`+"\n",
			chartLeft+bar.Start*scale, top[bar.Row]+float64(bar.lane)*chartLane, max((bar.Finish-bar.Start)*scale-0.25, chartLeast), chartLane-2,
			bar.colour(colours), html.EscapeString(bar.Text))
	}
	for k := range c.Areas {
		c.Areas[k].draw(&b, rows+float64(k)*(areaHeight+areaBetween), scale)
	}
	b.Write(foot.Bytes())
	b.WriteString("</svg>\n")
	return screen.Bytes(b.Bytes())
}

func (b *Bar) colour(of map[string]string) string {
	if b.Failed {
		return failedColour
	}
	return of[b.Class]
}

func (c *Chart) end() float64 {
	end := c.End
	for i := range c.Bars {
		end = max(end, c.Bars[i].Finish)
	}
	return end
}

// lanes gives each bar the first lane of its row that is free, and tells how many
// lanes each row has.
func (c *Chart) lanes() (lane, counts []int) {
	lane, counts = make([]int, len(c.Bars)), make([]int, len(c.Rows))
	order := make([]int, len(c.Bars))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.Bars[a].Start, c.Bars[b].Start) })
	free := make([][]float64, len(c.Rows)) // since when each lane is
	for _, i := range order {
		bar := &c.Bars[i]
		k := slices.IndexFunc(free[bar.Row], func(since float64) bool { return since <= bar.Start+1e-9 })
		if k < 0 {
			k = len(free[bar.Row])
			free[bar.Row] = append(free[bar.Row], 0)
		}
		free[bar.Row][k], lane[i] = bar.Finish, k
		counts[bar.Row] = len(free[bar.Row])
	}
	return lane, counts
}

// laid is a bar in its lane; of several it says how many.
type laid struct {
	Bar
	lane, n int
}

// joined makes one bar of those of a class that follow each other in a lane, when
// neither they nor the time between them are as long as least.
func joined(bars []Bar, lanes []int, least float64) []laid {
	all := make([]laid, len(bars))
	for i, b := range bars {
		all[i] = laid{b, lanes[i], 1}
	}
	slices.SortStableFunc(all, func(a, b laid) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.lane, b.lane), cmp.Compare(a.Start, b.Start))
	})
	kept := all[:0]
	for _, b := range all {
		if n := len(kept); n > 0 {
			a := &kept[n-1]
			short := b.Finish-b.Start < least && (a.n > 1 || a.Finish-a.Start < least)
			if short && a.Row == b.Row && a.lane == b.lane && a.Class == b.Class && a.Failed == b.Failed && b.Start-a.Finish < least {
				a.Finish, a.n = b.Finish, a.n+1
				a.Text = fmt.Sprintf("%d of %s, %s to %s", a.n, a.Class, Seconds(a.Start), Seconds(a.Finish))
				continue
			}
		}
		kept = append(kept, b)
	}
	return kept
}

// Seconds prints a duration in the unit that fits it.
func Seconds(s float64) string {
	switch d := time.Duration(s * 1e9); {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.2fs", s)
	case d >= time.Millisecond:
		return fmt.Sprintf("%.1fms", s*1e3)
	}
	return fmt.Sprintf("%.0fus", s*1e6)
}
