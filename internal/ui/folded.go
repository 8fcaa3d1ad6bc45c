package ui

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Limits of what is kept of the called tasks of a job, whatever their number.
const (
	mostFunctions = 200  // that have a row of their own; others are added up in one
	mostCauses    = 1000 // of errors that are told apart
	mostTimes     = 1000 // of a function: the newest, of which quantiles are
)

// calledRow sums up the called tasks of a function, as explain does. Counts are exact; quantiles are of the newest.
type calledRow struct {
	Function  string  `json:"function"` // empty: all functions that have no row
	Running   int     `json:"running"`
	Waiting   int     `json:"waiting"`
	Calls     int     `json:"calls"` // that ended
	Done      int     `json:"done"`
	Failed    int     `json:"failed"`
	Cancelled int     `json:"cancelled"`
	Tries     int     `json:"more_tries"`
	Total     float64 `json:"total_seconds"`
	Median    float64 `json:"median_seconds"`
	P95       float64 `json:"p95_seconds"`
	Waited    float64 `json:"median_wait_seconds"`
	Where     string  `json:"where,omitempty"`
	Error     string  `json:"error,omitempty"` // of the first that failed
}

// folded is what is known of the called tasks that ended, in bounded memory.
type folded struct {
	ended     int
	functions map[string]*function
	newest    ring[comms.CallRow]
	causes    causes
}

// function is what is known of the called tasks of one function that ended.
type function struct {
	row          calledRow
	times, waits ring[float64]
	at           map[string]int
}

// ring keeps the newest of many.
type ring[T any] struct {
	all  []T
	most int
	next int // where the oldest is, once there are most
}

func (r *ring[T]) add(v T) {
	if len(r.all) < r.most {
		r.all = append(r.all, v)
		return
	}
	r.all[r.next] = v
	r.next = (r.next + 1) % r.most
}

// backward returns what there is, the newest first.
func (r *ring[T]) backward() []T {
	all := slices.Concat(r.all[r.next:], r.all[:r.next])
	slices.Reverse(all)
	return all
}

func newFolded() *folded {
	return &folded{functions: map[string]*function{}, newest: ring[comms.CallRow]{most: shownRows}}
}

// of is the sum to which calls of a function add.
func (f *folded) of(name string) *function {
	name = placeOf(f.functions, name)
	fn := f.functions[name]
	if fn == nil {
		fn = &function{row: calledRow{Function: name}, times: ring[float64]{most: mostTimes}, waits: ring[float64]{most: mostTimes}, at: map[string]int{}}
		f.functions[name] = fn
	}
	return fn
}

// placeOf is the name by which a function is found: its own, or when there are too many that of all others.
func placeOf[T any](functions map[string]T, name string) string {
	if _, ok := functions[name]; !ok && len(functions) >= mostFunctions {
		return ""
	}
	return name
}

// add counts a called task that has ended.
func (f *folded) add(c *comms.CallRow) {
	f.ended++
	fn := f.of(c.Function)
	r := &fn.row
	r.Calls++
	switch c.State {
	case "done":
		r.Done++
	case "cancelled":
		r.Cancelled++
	default:
		if r.Failed++; r.Error == "" {
			r.Error = clip(c.Error)
		}
		f.causes.add(&cause{Family: c.Function, Message: c.Error, First: c.Ended, Task: c.Name, Host: c.Agent, Attempt: uint32(c.Tries)})
	}
	r.Tries += int(max(c.Tries, 1)) - 1
	if c.Started != "" && c.Agent != "" {
		r.Total += c.Seconds
		fn.at[c.Agent]++
		fn.times.add(c.Seconds)
		if waited, ok := between(c.Called, c.Started); ok {
			fn.waits.add(waited)
		}
	}
	kept := *c
	kept.Reads, kept.Error = nil, clip(c.Error)
	f.newest.add(kept)
}

func between(from, to string) (seconds float64, ok bool) {
	a, wrong := time.Parse(time.RFC3339Nano, from)
	b, err := time.Parse(time.RFC3339Nano, to)
	return max(0, b.Sub(a).Seconds()), wrong == nil && err == nil
}

// rows returns the sums of all functions, with those that have not ended: of most open ones first, then of most time.
func (f *folded) rows(open *opened) []calledRow {
	all := map[string]*calledRow{}
	for name, fn := range f.functions {
		row := fn.row
		row.Median, row.P95, row.Waited = quantileOf(fn.times.all, 0.5), quantileOf(fn.times.all, 0.95), quantileOf(fn.waits.all, 0.5)
		row.Where = whereText(fn.at)
		all[name] = &row
	}
	for _, function := range slices.Sorted(maps.Keys(open.functions)) {
		name := placeOf(all, function)
		row := all[name]
		if row == nil {
			row = &calledRow{Function: name}
			all[name] = row
		}
		running, waiting := open.functions[function].counts()
		row.Running, row.Waiting = row.Running+running, row.Waiting+waiting
	}
	rows := make([]calledRow, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		rows = append(rows, *all[name])
	}
	slices.SortStableFunc(rows, func(a, b calledRow) int {
		return cmp.Or(cmp.Compare(b.Running+b.Waiting, a.Running+a.Waiting), cmp.Compare(b.Total, a.Total))
	})
	return rows
}

// quantileOf is the smallest number that so large a share of them does not exceed; 0 of none.
func quantileOf(all []float64, share float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// whereText lists hosts with a number of tasks, those of most first.
func whereText(at map[string]int) string {
	hosts := slices.SortedFunc(maps.Keys(at), func(a, b string) int { return cmp.Or(cmp.Compare(at[b], at[a]), cmp.Compare(a, b)) })
	for i, name := range hosts {
		hosts[i] = fmt.Sprintf("%s (%d)", name, at[name])
	}
	if over := len(hosts) - 8; over > 0 {
		hosts = append(hosts[:8], fmt.Sprintf("and %d more", over))
	}
	return strings.Join(hosts, ", ")
}
