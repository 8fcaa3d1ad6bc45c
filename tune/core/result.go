package core

import (
	"fmt"
	"strings"
)

// The names of what each result has besides its metrics.
const (
	IterationKey = "training_iteration" // the number of the result in the history of its trial, from 1
	TimeKey      = "time_total_s"       // for how many seconds the trial has trained, over all its attempts
)

// Result is one report of a trial.
type Result struct {
	Iteration  int64   `json:"i"`
	Time       float64 `json:"t"`
	Metrics    Values  `json:"m,omitempty"`    // flat: "eval/loss"
	Checkpoint string  `json:"ckpt,omitempty"` // that the trainable wrote with this report
}

// Value returns a number of the result: a metric, IterationKey or TimeKey.
func (r *Result) Value(key string) (float64, bool) {
	switch key {
	case IterationKey:
		return float64(r.Iteration), true
	case TimeKey:
		return r.Time, true
	}
	switch x := r.Metrics[key].(type) {
	case float64:
		return x, true
	case int64:
		return float64(x), true
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// Condition holds for a result whose value at Key is at least, or with AtMost at most, Value.
type Condition struct {
	Key    string  `json:"key"`
	AtMost bool    `json:"at_most,omitempty"`
	Value  float64 `json:"value"`
}

// Holds tells whether the condition holds. A value that is missing or NaN meets none.
func (c Condition) Holds(r *Result) bool {
	x, ok := r.Value(c.Key)
	return ok && (c.AtMost && x <= c.Value || !c.AtMost && x >= c.Value)
}

func (c Condition) String() string {
	if c.AtMost {
		return fmt.Sprintf("%s <= %g", c.Key, c.Value)
	}
	return fmt.Sprintf("%s >= %g", c.Key, c.Value)
}

// Credit is how far a worker trains before it waits for the next decision: for that many reports, or until a condition
// holds, whichever is first. The zero Credit has no end.
type Credit struct {
	Reports int         `json:"reports,omitempty"`
	Until   []Condition `json:"until,omitempty"`
}

// Used tells whether the credit ends with r, the report with that number since the credit was received.
func (c Credit) Used(r *Result, number int) bool {
	if c.Reports > 0 && number >= c.Reports {
		return true
	}
	for _, u := range c.Until {
		if u.Holds(r) {
			return true
		}
	}
	return false
}

// With returns the credit that ends where either does.
func (c Credit) With(d Credit) Credit {
	out := Credit{Reports: c.Reports, Until: append(append([]Condition(nil), c.Until...), d.Until...)}
	if d.Reports > 0 && (c.Reports == 0 || d.Reports < c.Reports) {
		out.Reports = d.Reports
	}
	return out
}

func (c Credit) String() string {
	var parts []string
	if c.Reports > 0 {
		parts = append(parts, fmt.Sprintf("%d reports", c.Reports))
	}
	for _, u := range c.Until {
		parts = append(parts, u.String())
	}
	if len(parts) == 0 {
		return "to the end"
	}
	return strings.Join(parts, " or ")
}

// Checkpoint is a saved state of a trial.
type Checkpoint struct {
	Name      string   `json:"name"` // of a folder in the experiment's: the trial's, a slash, and a name that is never used again
	Iteration int64    `json:"i"`
	Time      float64  `json:"t,omitempty"`
	Results   int      `json:"results"` // how many results its trial had
	Score     *float64 `json:"-"`       // the value that retention goes by; nil: it has none

	last *Result
}
