package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"time"
)

// ticks are the times on an axis of so many seconds: multiples of a number that people
// count in, at most eleven.
func ticks(end float64) (at []float64) {
	step := tickStep(end / 10)
	for k := 0.0; k*step <= end*(1+1e-9); k++ {
		at = append(at, k*step)
	}
	return at
}

// tickStep is the least of 1, 2 and 5 times a power of ten, and of the usual parts of
// minutes, hours and days, that is no less than so many seconds.
func tickStep(least float64) float64 {
	if least <= 0 {
		return 1
	}
	if least <= 20 {
		power := math.Pow(10, math.Floor(math.Log10(least)))
		for _, n := range []float64{1, 2, 5, 10} {
			if step := n * power; step >= least*(1-1e-9) && step <= 20 {
				return step
			}
		}
	}
	const minute, hour, day = 60, 3600, 86400
	for _, step := range []float64{30, minute, 2 * minute, 5 * minute, 10 * minute, 30 * minute, hour, 2 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day} {
		if step >= least {
			return step
		}
	}
	return math.Ceil(least/(7*day)) * 7 * day
}

// tickText prints a time on an axis, without digits that say nothing.
func tickText(s float64) string {
	d := time.Duration(math.Round(s * 1e9))
	switch {
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return fmt.Sprintf("%gus", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%gms", float64(d)/1e6)
	case d < time.Minute:
		return fmt.Sprintf("%gs", float64(d)/1e9)
	}
	text := ""
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.of; n > 0 {
			text += fmt.Sprintf("%d%s", n, unit.name)
		}
		d %= unit.of
	}
	return text
}

// failedColour is that of what failed, and of nothing else.
const failedColour = "#d00000"

// colourOf is the colour of the class with a number: hues that lie far apart, as multiples of
// the golden section do, none of them red and none so light that it is lost on white.
func colourOf(number int) string {
	_, part := math.Modf(0.55 + float64(number)*0.6180339887498949)
	hue := (30 + 300*part) / 60
	dark := []float64{1, 0.68, 0.84}[number%3]
	one := func(shift float64) int { // one of red, green and blue: a ramp up, a plateau and a ramp down over the hues
		at := math.Mod(hue+shift, 6)
		return int(dark * (70 + 140*max(0, min(1, min(at, 4-at)))))
	}
	return fmt.Sprintf("#%02x%02x%02x", one(2), one(0), one(4))
}

// classes are the names of what has a colour, in the order of Classes; those that it lacks
// follow by name.
func (c *Chart) classes() (names []string) {
	there := map[string]bool{}
	for i := range c.Bars {
		there[c.Bars[i].Class] = true
	}
	names = slices.Clone(c.Classes)
	var others []string
	for name := range there {
		if !slices.Contains(names, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return append(names, others...)
}

// The legend: a box and a name for each class that is drawn, in lines.
const (
	legendLine   = 18.0
	legendBox    = 10.0
	legendLetter = 6.5
	legendMost   = 40
)

type legendEntry struct{ name, colour string }

// legend lists what the colours of a chart stand for.
func (c *Chart) legend(colours map[string]string) (entries []legendEntry) {
	drawn, failed := map[string]bool{}, false
	for i := range c.Bars {
		drawn[c.Bars[i].Class] = drawn[c.Bars[i].Class] || !c.Bars[i].Failed
		failed = failed || c.Bars[i].Failed
	}
	if failed {
		entries = append(entries, legendEntry{"failed", failedColour})
	}
	more := 0
	for _, name := range c.classes() {
		switch {
		case !drawn[name] || name == "":
		case len(entries) == legendMost:
			more++
		default:
			entries = append(entries, legendEntry{name, colours[name]})
		}
	}
	if more > 0 {
		entries = append(entries, legendEntry{fmt.Sprintf("and %d more", more), "white"})
	}
	return entries
}

// drawLegend writes the entries below top and returns how high they are.
func drawLegend(w io.Writer, entries []legendEntry, top float64) (height float64) {
	x, y := chartLeft, top
	for _, e := range entries {
		wide := legendBox + 8 + legendLetter*float64(len([]rune(e.name))) + 14
		if x > chartLeft && x+wide > chartWidth-chartRight {
			x, y = chartLeft, y+legendLine
		}
		fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%g" height="%g" fill="%s"/><text x="%.1f" y="%.1f">%s</text>`+"\n",
			x, y, legendBox, legendBox, e.colour, x+legendBox+5, y+legendBox-1, html.EscapeString(e.name))
		x += wide
	}
	if len(entries) == 0 {
		return 0
	}
	return y - top + legendLine
}
