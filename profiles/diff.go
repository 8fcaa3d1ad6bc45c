package profiles

import (
	"cmp"
	"math"
	"slices"
)

// Drift is how what tasks of one signature cost has changed. A ratio is the later
// value over the earlier, 0 where one of them is 0 or unknown.
type Drift struct {
	Job      string  `json:"job,omitempty"`
	Task     string  `json:"task,omitempty"`
	Function string  `json:"function,omitempty"`
	Change   string  `json:"change"` // "drift", "new", "gone"
	Before   float64 `json:"before_seconds"`
	After    float64 `json:"after_seconds"`
	Time     float64 `json:"time_ratio"`
	Bytes    float64 `json:"bytes_ratio"`
	Memory   float64 `json:"memory_ratio"`
	Spreads  float64 `json:"spreads"` // by how many standard deviations of the earlier the mean has moved; 0 unknown
}

// Diff returns how entries of b differ from those of a for the same tasks, those
// that moved most in time first, and which are in one of them alone.
func Diff(a, b []Entry) []Drift {
	old := map[Signature]*Entry{}
	for i := range a {
		old[a[i].Signature()] = &a[i]
	}
	var out []Drift
	for i := range b {
		e := &b[i]
		was := old[e.Signature()]
		delete(old, e.Signature())
		if was == nil {
			out = append(out, Drift{Job: e.Job, Task: e.Task, Function: e.Function, Change: "new", After: e.Seconds})
			continue
		}
		if same(e.Seconds, was.Seconds) && same(e.Bytes, was.Bytes) && same(e.Memory, was.Memory) {
			continue
		}
		out = append(out, drift(e, was.Seconds, was.SecondsDeviation, was.Bytes, was.Memory))
	}
	for _, e := range old {
		out = append(out, Drift{Job: e.Job, Task: e.Task, Function: e.Function, Change: "gone", Before: e.Seconds})
	}
	order(out)
	return out
}

// DiffVersions returns how entries differ from what the code before cost, for those
// whose code has changed.
func DiffVersions(of []Entry) []Drift {
	var out []Drift
	for i := range of {
		if b := of[i].Before; b != nil {
			out = append(out, drift(&of[i], b.Seconds, 0, b.Bytes, b.Memory))
		}
	}
	order(out)
	return out
}

func drift(e *Entry, seconds, deviation, bytes, memory float64) Drift {
	d := Drift{Job: e.Job, Task: e.Task, Function: e.Function, Change: "drift", Before: seconds, After: e.Seconds,
		Time: over(e.Seconds, seconds), Bytes: over(e.Bytes, bytes), Memory: over(e.Memory, memory)}
	if deviation > 0 {
		d.Spreads = (e.Seconds - seconds) / deviation
	}
	return d
}

// same tells whether two costs are equal but for the rounding of their means.
func same(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(a, b) }

func over(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	return a / b
}

// moved is how far a ratio is from 1, either way; 0 when it is unknown.
func moved(ratio float64) float64 {
	if ratio == 0 {
		return 0
	}
	return math.Abs(math.Log(ratio))
}

func order(all []Drift) {
	slices.SortFunc(all, func(x, y Drift) int {
		return cmp.Or(cmp.Compare(x.Change, y.Change), cmp.Compare(moved(y.Time), moved(x.Time)),
			cmp.Compare(x.Job, y.Job), cmp.Compare(x.Task, y.Task), cmp.Compare(x.Function, y.Function))
	})
}
