package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Run is what a job did, in seconds since its first task started.
type Run struct {
	Graph *dag.Graph
	Hosts []string  // agents, sorted
	Tasks []Task    // those that started, by the time at which they did
	Clock []float64 // what was added to each host's clock, in seconds

	Lost []comms.LossRow // agents that were lost meanwhile

	Called []comms.CallRow // all called tasks that have ended
	Calls  []Call          // those that began, in the order in which they ended
	More   bool            // there are others that are not in these lists

	began   time.Time
	at      map[dag.TaskIndex]int // place in Tasks
	members map[int][]int         // places of the tasks of each group over elements
}

// Task is a task's last attempt.
type Task struct {
	comms.TaskRow
	Host          int // place in Run.Hosts
	Start, Finish float64
}

// NewRun makes a Run of the rows of a job's tasks, and of the tasks that these called.
func NewRun(g *dag.Graph, rows []comms.TaskRow, calls []comms.CallRow) (*Run, error) {
	r := &Run{Graph: g}
	started := make([]time.Time, 0, len(rows))
	for _, row := range rows {
		if row.Started == "" || row.Agent == "" {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, row.Started)
		if err != nil {
			return nil, fmt.Errorf("start of task %s: %w", row.Name, err)
		}
		r.Tasks = append(r.Tasks, Task{TaskRow: row})
		started = append(started, at)
		r.begins(row.Agent, at)
	}
	if err := r.addCalls(calls); err != nil {
		return nil, err
	}
	slices.Sort(r.Hosts)
	r.Hosts = slices.Compact(r.Hosts)
	for i := range r.Tasks {
		t := &r.Tasks[i]
		t.Host, _ = slices.BinarySearch(r.Hosts, t.Agent)
		t.Start = started[i].Sub(r.began).Seconds()
		t.Finish = t.Start + t.Seconds
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		c.Host, _ = slices.BinarySearch(r.Hosts, c.Agent)
		c.Start, c.Made = c.started.Sub(r.began).Seconds(), c.made.Sub(r.began).Seconds()
		c.Finish = c.Start + c.Seconds
	}
	r.link()
	if err := r.align(); err != nil {
		return nil, err
	}
	slices.SortFunc(r.Tasks, func(a, b Task) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Index, b.Index)) })
	r.number()
	r.roots()
	return r, nil
}

// begins notes an agent on which something began.
func (r *Run) begins(agent string, at time.Time) {
	if r.began.IsZero() || at.Before(r.began) {
		r.began = at
	}
	r.Hosts = append(r.Hosts, agent)
}

func (r *Run) number() {
	r.at, r.members = make(map[dag.TaskIndex]int, len(r.Tasks)), map[int][]int{}
	for k := range r.Tasks {
		i := dag.TaskIndex(r.Tasks[k].Index)
		r.at[i] = k
		if r.Graph.Group(i).Stream != nil {
			group := r.Graph.GroupIndex(i)
			r.members[group] = append(r.members[group], k)
		}
	}
}

// End returns when the last task ended.
func (r *Run) End() float64 {
	end := 0.0
	for i := range r.Tasks {
		end = max(end, r.Tasks[i].Finish)
	}
	for i := range r.Calls {
		end = max(end, r.Calls[i].Finish)
	}
	return end
}

// clockGrain is less than times in rows tell, in seconds.
const clockGrain = 2e-6

// align moves the clocks of hosts forward, as little as possible, until no task
// starts before what it waited for: the end of a producer, or the start of one whose
// elements it took while that ran. These are bounds on differences of clocks; the
// smallest that keep all of them are found as shortest paths are (Bellman and Ford).
// Clocks that contradict each other stay as they are.
func (r *Run) align() error {
	n := len(r.Hosts)
	r.Clock = make([]float64, n)
	if n < 2 {
		return nil
	}
	r.number()
	late := make([]float64, n*n) // late[a*n+b]: how much more b's clock must be moved than a's
	for k := range late {
		late[k] = math.Inf(-1)
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		err := r.waits(dag.TaskIndex(t.Index), func(p *Task, whole bool) {
			from := p.Start
			if whole {
				from = p.Finish
			}
			if k := p.Host*n + t.Host; p.Host != t.Host && from-t.Start > late[k] {
				late[k] = from - t.Start
			}
		})
		if err != nil {
			return err
		}
	}
	r.callsWait(func(from, to int, by float64) { late[from*n+to] = max(late[from*n+to], by) })
	clock := make([]float64, n)
	for range n {
		changed := false
		for a := range n {
			for b := range n {
				if d := late[a*n+b]; clock[a]+d > clock[b]+clockGrain {
					clock[b], changed = clock[a]+d, true
				}
			}
		}
		if !changed {
			r.Clock = clock
			r.shift(clock)
			return nil
		}
	}
	return nil
}

// shift moves what ran by the clocks of its hosts, so that the first begins at 0.
func (r *Run) shift(clock []float64) {
	first := math.Inf(1)
	for i := range r.Tasks {
		first = min(first, r.Tasks[i].Start+clock[r.Tasks[i].Host])
	}
	for i := range r.Calls {
		first = min(first, r.Calls[i].Start+clock[r.Calls[i].Host])
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		t.Start, t.Finish = t.Start+clock[t.Host]-first, t.Finish+clock[t.Host]-first
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		owner, _, known := r.parent(c)
		if !known {
			owner = c.Host
		}
		c.Start, c.Finish, c.Made = c.Start+clock[c.Host]-first, c.Finish+clock[c.Host]-first, c.Made+clock[owner]-first
	}
}

// waits calls f with each task that started and whose outputs task i reads; whole
// tells that it needs the end of it, not only elements.
func (r *Run) waits(i dag.TaskIndex, f func(p *Task, whole bool)) error {
	inputs, err := r.Graph.Inputs(i)
	if err != nil {
		return fmt.Errorf("inputs of %s: %w", r.Graph.TaskName(i), err)
	}
	for _, in := range inputs {
		for _, s := range in.Sources {
			for _, k := range r.producers(s) {
				f(&r.Tasks[k], s.Kind != dag.SourceElement)
			}
		}
	}
	return nil
}

// groupNames are the families of a graph, in its order.
func groupNames(g *dag.Graph) (names []string) {
	for i := range g.Groups {
		names = append(names, g.Groups[i].Name)
	}
	return names
}

// Chart shows what ran where.
func (r *Run) Chart(title string, end float64) *Chart {
	c := &Chart{Title: title, Rows: r.Hosts, End: end, Classes: groupNames(r.Graph), Bars: make([]Bar, 0, len(r.Tasks)+len(r.Calls))}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		c.Bars = append(c.Bars, Bar{Row: t.Host, Start: t.Start, Finish: t.Finish, Class: t.Group, Failed: t.State == "failed",
			Text: fmt.Sprintf("%s: %s, %s to %s", t.Name, t.State, Seconds(t.Start), Seconds(t.Finish))})
	}
	for i := range r.Calls {
		t := &r.Calls[i]
		c.Bars = append(c.Bars, Bar{Row: t.Host, Start: t.Start, Finish: t.Finish, Class: t.Function, Failed: t.State == "failed",
			Text: fmt.Sprintf("%s, %s: %s, %s to %s", t.Name, t.Function, t.State, Seconds(t.Start), Seconds(t.Finish))})
	}
	return c
}
