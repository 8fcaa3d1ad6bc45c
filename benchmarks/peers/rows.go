package main

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// row is one number of the results: the median of its runs.
type row struct {
	Workload string    `json:"workload"`
	System   string    `json:"system"`
	Version  string    `json:"version"`
	Value    float64   `json:"value"`
	Unit     string    `json:"unit"`
	Higher   bool      `json:"higher_is_better"`
	Runs     []float64 `json:"runs"`
	Bound    bool      `json:"bound,omitempty"`
	Error    string    `json:"error,omitempty"` // why there is no value
	Run      int       `json:"run,omitempty"`   // which of the runs of results.json measured it
}

// log is what happened: one entry for each measurement.
type entry struct {
	workload string
	system   string
	values   map[string]float64
	err      string
	took     time.Duration // between the request and its answer
}

// errNone begins the words of a row whose workload was measured, but gave no such number.
const errNone = "no such number: "

// cell is what a table shows where there is no value: "error" where the system failed, "too long" where
// it did not end in its time, and a line where it does not take part, was not tried, or has no such number.
func (r row) cell() string {
	for _, begins := range []string{"not supported: ", errNone, errSmaller.Error(), errPace.Error(), errBudget.Error()} {
		if strings.HasPrefix(r.Error, begins) {
			return "—"
		}
	}
	if strings.HasPrefix(r.Error, errTime.Error()) {
		return "too long"
	}
	return "error"
}

// rows makes the results of what happened, in the order of the tables.
func rows(ws []workload, ss []system, versions map[string]string, happened []entry) (out []row) {
	for _, w := range ws {
		for _, m := range w.metrics {
			for _, s := range ss {
				r := row{Workload: w.row(m), System: s.name, Version: versions[s.name], Unit: m.unit, Higher: m.higher, Bound: s.bound, Runs: []float64{}}
				seen := false
				for _, e := range happened {
					if e.workload != w.name || e.system != s.name {
						continue
					}
					seen = true
					if e.err != "" {
						r.Error = firstLine(e.err)
					} else if x, ok := m.of(e.values); ok {
						r.Runs = append(r.Runs, x)
					} else if m.none != "" {
						r.Error = errNone + m.none
					}
				}
				if len(r.Runs) > 0 {
					r.Value, r.Error = median(r.Runs), ""
				} else if r.Error == "" {
					seen = false // not measured by this system: no row
				}
				if seen {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// firstLine shortens a system's words to what a table takes. Addresses are of the machine, not of the result.
func firstLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = regexp.MustCompile(`https?://[^\s)]+`).ReplaceAllString(text, "URL")
	if r := []rune(text); len(r) > 300 {
		return string(r[:297]) + "..."
	}
	return text
}

// median of some values; of an even number the mean of the middle two.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// spread is half of the distance between the quartiles' ends, the extremes of few runs, over the median.
func (r row) spread() float64 {
	if r.Value == 0 || len(r.Runs) == 0 {
		return 0
	}
	return (slices.Max(r.Runs) - slices.Min(r.Runs)) / 2 / r.Value
}

// times is how many times as good a is as b: above 1 a is ahead.
func times(a, b row) float64 {
	if a.Higher {
		return a.Value / b.Value
	}
	return b.Value / a.Value
}
