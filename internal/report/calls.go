package report

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

// Call is a called task that began: its last try, in seconds as of a Run.
type Call struct {
	comms.CallRow
	Host          int // place in Run.Hosts
	Made          float64
	Start, Finish float64
	started, made time.Time
	by            int   // place in Run.Calls of the task that called it; -1: none of them
	root          int   // place in Run.Tasks of the task of the graph from which it comes; -1: none
	from          []int // places in Run.Calls of those that it read
}

// Waited is how long a call waited for its inputs and for a place.
func (c *Call) Waited() float64 { return max(0, c.Start-c.Made) }

// callPlace names a call as its parent does.
type callPlace struct {
	parent         string
	strand, number uint64
}

// addCalls takes in called tasks that began, and places them in time.
func (r *Run) addCalls(rows []comms.CallRow) error {
	r.Called = rows
	for i := range rows {
		row := &rows[i]
		if row.Started == "" || row.Agent == "" {
			continue
		}
		start, err := time.Parse(time.RFC3339Nano, row.Started)
		if err != nil {
			return fmt.Errorf("start of call %s: %w", row.Name, err)
		}
		made, err := time.Parse(time.RFC3339Nano, cmp.Or(row.Called, row.Started))
		if err != nil {
			return fmt.Errorf("when call %s was made: %w", row.Name, err)
		}
		r.begins(row.Agent, start)
		r.Calls = append(r.Calls, Call{CallRow: *row, started: start, made: made, by: -1, root: -1})
	}
	return nil
}

// link finds what calls have to do with each other: the task that made each, and those whose
// results it read. Of a call that was repeated the last end counts.
func (r *Run) link() {
	byName, byPlace := map[string]int{}, map[callPlace]int{}
	for i := range r.Calls {
		c := &r.Calls[i]
		byName[c.Name], byPlace[callPlace{c.Parent, c.Strand, c.Number}] = i, i
	}
	r.roots()
	for i := range r.Calls {
		c := &r.Calls[i]
		if at, ok := byName[c.Parent]; ok && c.Parent != "" && at != i {
			c.by = at
		}
		for _, in := range c.Reads {
			if at, ok := byPlace[callPlace{c.Parent, in.Strand, in.Number}]; ok && !in.OfParent && at != i {
				c.from = append(c.from, at)
			}
		}
	}
}

// roots finds the task of the graph behind each call, by its place among the tasks.
func (r *Run) roots() {
	places := map[string]int{}
	for i := range r.Tasks {
		places[r.Tasks[i].Name] = i
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		if at, ok := places[c.Task]; ok {
			c.root = at
		}
	}
}

// parent is the host and executor of the task that made a call, and false when it is not known.
func (r *Run) parent(c *Call) (host int, executor uint32, ok bool) {
	switch {
	case c.by >= 0:
		return r.Calls[c.by].Host, r.Calls[c.by].Executor, true
	case c.root >= 0 && c.Parent == r.Tasks[c.root].Name:
		return r.Tasks[c.root].Host, r.Tasks[c.root].Executor, true
	}
	return 0, 0, false
}

// callsWait calls f with how much later the clock of one host must be than that of another, as no call
// starts before it was made, nor before the end of what it read.
func (r *Run) callsWait(f func(from, to int, by float64)) {
	for i := range r.Calls {
		c := &r.Calls[i]
		if host, _, ok := r.parent(c); ok && host != c.Host {
			f(host, c.Host, c.Made-c.Start)
		}
		for _, k := range c.from {
			if p := &r.Calls[k]; p.Host != c.Host && p.State == "done" {
				f(p.Host, c.Host, p.Finish-c.Start)
			}
		}
	}
}

// callArrows draws who called whom, and who read what another returned.
func (r *Run) callArrows(t *tracer, id int) {
	arrow := func(kind string, from int, executor uint32, at float64, c *Call) {
		id++
		t.write(event{Name: kind, Cat: kind, Ph: "s", TS: min(at, c.Start) * 1e6, PID: from + 1, TID: executor, ID: id})
		t.write(event{Name: kind, Cat: kind, Ph: "f", BP: "e", TS: c.Start * 1e6, PID: c.Host + 1, TID: c.Executor, ID: id})
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		if host, executor, ok := r.parent(c); ok {
			arrow("call", host, executor, c.Made, c)
		}
		for _, k := range c.from {
			p := &r.Calls[k]
			arrow("data", p.Host, p.Executor, p.Finish, c)
		}
	}
}

// Called sums up the called tasks of one function, in seconds and bytes. Times are of those that
// began, the last try of each.
type Called struct {
	Function                    string
	Calls, Done, Failed         int
	Cancelled, Tries            int // Tries: beyond the first of each
	Total, Median, P95, Most    float64
	Waited, WaitedP95           float64 // median and 95 % quantile, from the call to its start
	Busy                        float64 // cpu time in percent of the time that they took
	PeakMemory, BytesIn, Output uint64
	Where                       string // agents with the number of tasks, those of most first
	Error                       string // of the first that failed
	times, waits                []float64
	cpu                         float64
	at                          map[string]int
}

// Functions sums up called tasks by function, those that took longest together first.
func (r *Run) Functions() []Called {
	sums := map[string]*Called{}
	for i, began := 0, r.Calls; i < len(r.Called); i++ { // those that began are the same in the same order
		c := &r.Called[i]
		f := sums[c.Function]
		if f == nil {
			f = &Called{Function: c.Function, at: map[string]int{}}
			sums[c.Function] = f
		}
		f.add(c)
		if c.Started != "" && c.Agent != "" {
			f.ran(&began[0])
			began = began[1:]
		}
	}
	all := make([]Called, 0, len(sums))
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		sums[name].close()
		all = append(all, *sums[name])
	}
	slices.SortStableFunc(all, func(a, b Called) int { return cmp.Compare(b.Total, a.Total) })
	return all
}

func (f *Called) add(c *comms.CallRow) {
	f.Calls++
	switch c.State {
	case "done":
		f.Done++
	case "cancelled":
		f.Cancelled++
	default:
		if f.Failed++; f.Error == "" {
			f.Error = c.Error
		}
	}
	f.Tries += int(max(c.Tries, 1)) - 1
	f.PeakMemory = max(f.PeakMemory, c.PeakRSS)
	f.BytesIn, f.Output = f.BytesIn+c.BytesIn, f.Output+c.BytesOut
}

func (f *Called) ran(c *Call) {
	f.at[c.Agent]++
	f.Total += c.Seconds
	f.Most = max(f.Most, c.Seconds)
	f.cpu += c.CPU
	f.times, f.waits = append(f.times, c.Seconds), append(f.waits, c.Waited())
}

func (f *Called) close() {
	slices.Sort(f.times)
	slices.Sort(f.waits)
	f.Median, f.P95 = quantile(f.times, 0.5), quantile(f.times, 0.95)
	f.Waited, f.WaitedP95 = quantile(f.waits, 0.5), quantile(f.waits, 0.95)
	f.Busy = 100 * f.cpu / max(f.Total, 1e-12)
	agents := slices.SortedFunc(maps.Keys(f.at), func(a, b string) int { return cmp.Or(cmp.Compare(f.at[b], f.at[a]), cmp.Compare(a, b)) })
	for i, name := range agents {
		agents[i] = fmt.Sprintf("%s (%d)", name, f.at[name])
	}
	f.Where = strings.Join(agents, ", ")
	f.times, f.waits, f.at = nil, nil, nil
}

// quantile of sorted numbers: the least that is no less than so great a part of them.
func quantile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(part*float64(len(sorted)))), 1)-1]
}

// Busy is for how long at least one call ran, how many did on average meanwhile, and how long the
// calls took together.
func (r *Run) Busy() (busy, together float64) {
	spans := make([]Call, len(r.Calls))
	copy(spans, r.Calls)
	slices.SortFunc(spans, func(a, b Call) int { return cmp.Compare(a.Start, b.Start) })
	until := 0.0
	for i := range spans {
		c := &spans[i]
		together += c.Finish - c.Start
		if c.Finish > until {
			busy += c.Finish - max(c.Start, until)
			until = c.Finish
		}
	}
	return busy, together
}

// CallPath is what the end of a session waited for, in seconds: called tasks one after another, their
// waits for a place, and the program itself. Together these are the time of the session.
type CallPath struct {
	Calls                int
	Ran, Waited, Program float64
}

// CallPath follows a session from its end back: to the call of its program that ended last, from there
// to the result that this waited for, or to the call that had ended last when it was made.
func (r *Run) CallPath() (p CallPath) {
	if len(r.Tasks) != 1 || !r.Graph.IsSession() {
		return p
	}
	root := &r.Tasks[0]
	var own []int // calls of the program, in the order in which they ended
	for i := range r.Calls {
		if c := &r.Calls[i]; c.by < 0 && c.Parent == root.Name {
			own = append(own, i)
		}
	}
	slices.SortFunc(own, func(a, b int) int { return cmp.Compare(r.Calls[a].Finish, r.Calls[b].Finish) })
	at := max(root.Finish, r.End())
	for len(own) > 0 {
		n, _ := slices.BinarySearchFunc(own, at+clockGrain, func(i int, at float64) int { return cmp.Or(cmp.Compare(r.Calls[i].Finish, at), -1) })
		if n == 0 {
			break
		}
		c := &r.Calls[own[n-1]]
		ready := c.Made
		for _, k := range c.from {
			ready = max(ready, r.Calls[k].Finish)
		}
		ready = min(ready, c.Start)
		p.Calls++
		end := min(c.Finish, at)
		p.Program += at - end
		p.Ran += end - c.Start
		p.Waited += c.Start - ready
		at, own = ready, own[:n-1]
	}
	p.Program += max(0, at-root.Start)
	return p
}
