package ui

import (
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/cascade-run/cascade/internal/report"
)

// timelineState is what ran where in a window of time. Times are seconds since the first task began.
// It has the runs themselves when they are few, else bins.
type timelineState struct {
	End      float64    `json:"end"` // of the job so far
	From     float64    `json:"from"`
	To       float64    `json:"to"`
	Hosts    []laneRow  `json:"hosts"`
	Families []classRow `json:"families"`
	Runs     []runRow   `json:"runs,omitempty"`
	Bins     []binRow   `json:"bins,omitempty"`
	Width    float64    `json:"width,omitempty"`  // of a bin, in seconds
	Tasks    int        `json:"tasks"`            // in the window
	Absent   string     `json:"absent,omitempty"` // why there is none
}

type laneRow struct {
	Name string `json:"name"`
	Rows int    `json:"rows"` // runs beside each other, at most
}

type classRow struct {
	Name   string `json:"name"`
	Colour string `json:"colour"`
}

// runRow is a run: host, row in its lane, family, start, length, name and state.
type runRow struct {
	Host   int     `json:"h"`
	Row    int     `json:"r"`
	Family int     `json:"f"`
	Start  float64 `json:"s"`
	Took   float64 `json:"d"`
	Task   string  `json:"t"`
	State  string  `json:"x,omitempty"` // unless done
}

// binRow is a stretch of time on a host: how many tasks ran on average, of which family most.
type binRow struct {
	Host   int     `json:"h"`
	Bin    int     `json:"b"`
	Family int     `json:"f"`
	Busy   float64 `json:"n"`
	Failed bool    `json:"x,omitempty"`
}

// Limits of a timeline.
const (
	singleRuns = 2000
	bins       = 400
	laneRows   = 32
	mostLanes  = 64
)

// timeline answers with a window of what ran.
func (h *Handler) timeline(r *http.Request) (any, error) {
	id, err := jobOf(r)
	if err != nil {
		return nil, err
	}
	window := [2]float64{0, 0}
	for k, name := range []string{"from", "to"} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, badf("%s=%q: want seconds since the first task began", name, text)
		}
		window[k] = v
	}
	p, err := h.pictureOf(r, id)
	if err != nil {
		return nil, err
	}
	switch {
	case !p.sight.whole:
		return &timelineState{Absent: "The job has more tasks than the page draws one by one: cascade timeline writes all of them."}, nil
	case p.run == nil:
		return &timelineState{Absent: "No task has begun."}, nil
	}
	return drawTimeline(p.run, p.sight, window[0], window[1]), nil
}

// drawTimeline is the window from..to of a run; to of 0 or less is its end.
func drawTimeline(run *report.Run, s *sight, from, to float64) *timelineState {
	t := &timelineState{End: run.End(), Hosts: []laneRow{}, Families: []classRow{}}
	if to <= from {
		from, to = 0, t.End
	}
	t.From, t.To = max(0, from), min(to, max(t.End, from+1e-3))
	family := map[string]int{}
	for i := range s.graph.Groups {
		family[s.graph.Groups[i].Name] = i
		t.Families = append(t.Families, classRow{s.graph.Groups[i].Name, report.ColourOf(i)})
	}
	for _, name := range run.Hosts[:min(len(run.Hosts), mostLanes)] {
		t.Hosts = append(t.Hosts, laneRow{Name: name})
	}
	var inside []*report.Task
	for i := range run.Tasks { // they are in the order of their starts
		if k := &run.Tasks[i]; k.Host < len(t.Hosts) && k.Finish >= t.From && k.Start <= t.To {
			inside = append(inside, k)
		}
	}
	if t.Tasks = len(inside); t.Tasks <= singleRuns {
		t.single(inside, family)
	} else {
		t.binned(inside, family)
	}
	return t
}

// single puts runs into rows so that none lie on each other, as long as there are rows.
func (t *timelineState) single(inside []*report.Task, family map[string]int) {
	free := make([][]float64, len(t.Hosts)) // when the last run of each row ends
	for _, k := range inside {
		row := slices.IndexFunc(free[k.Host], func(end float64) bool { return end <= k.Start+1e-6 })
		switch {
		case row >= 0:
			free[k.Host][row] = k.Finish
		case len(free[k.Host]) < laneRows:
			row, free[k.Host] = len(free[k.Host]), append(free[k.Host], k.Finish)
		default:
			row = laneRows - 1
		}
		r := runRow{Host: k.Host, Row: row, Family: family[k.Group], Start: millis(k.Start), Took: millis(k.Finish - k.Start), Task: k.Name}
		if k.State != "done" {
			r.State = k.State
		}
		t.Runs = append(t.Runs, r)
	}
	for i := range free {
		t.Hosts[i].Rows = len(free[i])
	}
}

// binned adds up runs by time.
func (t *timelineState) binned(inside []*report.Task, family map[string]int) {
	t.Width = (t.To - t.From) / bins
	type cell struct {
		busy   map[int]float64
		failed bool
	}
	cells := make([]cell, len(t.Hosts)*bins)
	for _, k := range inside {
		first, last := int(max(0, (k.Start-t.From)/t.Width)), int(min(bins-1, (k.Finish-t.From)/t.Width))
		for b := first; b <= last; b++ {
			c := &cells[k.Host*bins+b]
			if c.busy == nil {
				c.busy = map[int]float64{}
			}
			begin := t.From + float64(b)*t.Width
			c.busy[family[k.Group]] += max(0, min(k.Finish, begin+t.Width)-max(k.Start, begin)) / t.Width
			c.failed = c.failed || k.State == "failed"
		}
	}
	for i := range cells {
		c := &cells[i]
		if c.busy == nil {
			continue
		}
		b := binRow{Host: i / bins, Bin: i % bins, Family: -1, Failed: c.failed}
		most := 0.0
		for f, n := range c.busy {
			b.Busy += n
			if n > most || n == most && f < b.Family {
				most, b.Family = n, f
			}
		}
		if b.Busy = millis(b.Busy); b.Family >= 0 {
			t.Bins = append(t.Bins, b)
			t.Hosts[b.Host].Rows = max(t.Hosts[b.Host].Rows, int(math.Ceil(b.Busy)))
		}
	}
}

// millis rounds to a thousandth: pages need no more.
func millis(s float64) float64 { return math.Round(s*1000) / 1000 }
