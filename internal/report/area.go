package report

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"

	"github.com/docker/go-units"
)

// Area is bytes over time, filled below.
type Area struct {
	Name  string
	Over  []Level // by time: each holds until the next
	Limit float64 // bytes that cannot be passed, drawn as a line; 0: none
}

// Level is bytes from a time on, in seconds.
type Level struct{ At, Bytes float64 }

const (
	areaHeight  = 60.0
	areaBetween = 14.0
)

// most is the highest level.
func (a *Area) most() (most float64) {
	for _, l := range a.Over {
		most = max(most, l.Bytes)
	}
	return most
}

// draw writes the area below top, with scale pixels a second: in each pixel the highest level.
func (a *Area) draw(w io.Writer, top, scale float64) {
	peaks := make([]float64, int(chartWidth-chartLeft-chartRight)+1)
	x, held := 0, 0.0
	for _, l := range a.Over {
		for to := min(int(l.At*scale), len(peaks)-1); x < to; {
			x++
			peaks[x] = held
		}
		held = l.Bytes
		peaks[x] = max(peaks[x], held)
	}
	for x++; x < len(peaks); x++ {
		peaks[x] = held
	}
	high, label := max(a.most(), a.Limit, 1), units.BytesSize(a.most())
	if a.Limit > 0 {
		label += " of " + units.BytesSize(a.Limit)
	}
	foot := top + areaHeight
	fmt.Fprintf(w, `<text x="10" y="%.1f">%s</text><text x="10" y="%.1f" fill="#666">%s</text><path d="M%g %.1f`,
		top+12, html.EscapeString(a.Name), top+28, label, chartLeft, foot)
	for x, p := range peaks {
		if x == 0 || x == len(peaks)-1 || p != peaks[x-1] || p != peaks[x+1] {
			fmt.Fprintf(w, "L%.0f %.1f", chartLeft+float64(x), foot-areaHeight*p/high)
		}
	}
	fmt.Fprintf(w, `V%.1f Z" fill="#9ac"/>`+"\n", foot)
	if a.Limit > 0 {
		fmt.Fprintf(w, `<path d="M%g %.1f H%g" stroke="#b00"/>`+"\n", chartLeft, foot-areaHeight*a.Limit/high, chartWidth-chartRight)
	}
}

// levels sums up changes of bytes over time, in any order.
func levels(changes []Level) (over []Level) {
	slices.SortFunc(changes, func(a, b Level) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Bytes, b.Bytes)) })
	sum := 0.0
	for _, c := range changes {
		sum += c.Bytes
		if n := len(over); n > 0 && over[n-1].At == c.At {
			over[n-1].Bytes = sum
			continue
		}
		over = append(over, Level{c.At, sum})
	}
	return over
}
