package wfformat

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Called tasks are tasks of a recording. One that calls is cut where no call of it is under way:
// before its first call, and after the last end of each such time. A part of it comes before the calls that
// follow it, and waits for those that it follows.
//
//	caller.part1 ──▶ call ──▶ caller.part2 ──▶ call ──▶ caller
//	            ├──▶ call ──┤
//	            └──▶ call ──▶ call ┘        (made when another had ended: it waits for that)
//
// A caller has no core while its calls are under way: what it does meanwhile is not in the recording.

// programCores is what a program takes that runs a session: it occupies no core.
const programCores = 0.001

// called is a called task that ended well.
type called struct {
	row               *comms.CallRow
	made, start, ends float64 // seconds since the recording began
	file              string
}

// span is a task whose calls are to be recorded.
type span struct {
	at         int // place in Recording.Tasks
	start, end float64
}

type callPlace struct {
	parent         string
	strand, number uint64
}

// callers is one addition of called tasks to a recording.
type callers struct {
	out    *Recording
	byName map[string]*called
	places map[callPlace]*called
	of     map[string][]*called // by the task that called them, in the order of their calls
}

// addCalls adds called tasks to the tasks of a graph, of which roots says when each ran. It returns how
// many did not end well or have no caller in the recording.
func addCalls(out *Recording, rows []comms.CallRow, roots map[string]span) (left int, err error) {
	c := &callers{out: out, byName: map[string]*called{}, places: map[callPlace]*called{}, of: map[string][]*called{}}
	since := func(text string) (float64, error) {
		at, err := time.Parse(time.RFC3339Nano, text)
		return at.Sub(out.Started).Seconds(), err
	}
	for i := range rows {
		row := &rows[i]
		if row.State != "done" || row.Started == "" {
			left++
			continue
		}
		t := &called{row: row}
		var wrong [3]error
		t.made, wrong[0] = since(cmp.Or(row.Called, row.Started))
		t.start, wrong[1] = since(row.Started)
		t.ends, wrong[2] = since(row.Ended)
		if err := cmp.Or(wrong[0], wrong[1], wrong[2]); err != nil {
			return 0, fmt.Errorf("times of call %s: %w", row.Name, err)
		}
		if row.BytesOut > 0 {
			t.file = row.Name + ".out"
		}
		c.byName[row.Name], c.places[callPlace{row.Parent, row.Strand, row.Number}] = t, t // of one that was repeated the last end counts
	}
	for i := range rows {
		if t := c.byName[rows[i].Name]; t != nil && t.row == &rows[i] {
			c.of[t.row.Parent] = append(c.of[t.row.Parent], t)
		}
	}
	n := 0
	var work []span
	for i := range out.Tasks {
		if s, ok := roots[out.Tasks[i].ID]; ok {
			s.at = i
			work = append(work, s)
		}
	}
	for ; len(work) > 0; work = work[1:] {
		kids := c.of[out.Tasks[work[0].at].ID]
		slices.SortStableFunc(kids, func(a, b *called) int { return cmp.Compare(a.made, b.made) })
		n += len(kids)
		work = append(work, c.split(work[0], kids)...)
	}
	return left + len(c.byName) - n, nil
}

// split adds the calls of a task, and cuts it between them. Its last part has its name and results.
func (c *callers) split(by span, kids []*called) (below []span) {
	if len(kids) == 0 {
		return nil
	}
	whole := c.out.Tasks[by.at]
	done := by.start // up to here the caller is in the recording
	part, parts := by.at, 0
	for len(kids) > 0 {
		n, until := 1, kids[0].ends // how many are under way together, and until when
		for ; n < len(kids) && kids[n].made <= until; n++ {
			until = max(until, kids[n].ends)
		}
		parts++
		before := fmt.Sprintf("%s.part%d", whole.ID, parts)
		p := &c.out.Tasks[part]
		p.ID, p.Outputs, p.Seconds = before, nil, max(0, min(kids[0].made, by.end)-done)
		next := Ran{ID: whole.ID, Name: whole.Name, Cores: whole.Cores, Memory: whole.Memory, Machine: whole.Machine, Parents: []string{before}}
		ended := slices.SortedFunc(slices.Values(kids[:n]), func(a, b *called) int { return cmp.Compare(a.ends, b.ends) })
		for _, k := range kids[:n] {
			ran := c.task(k)
			ran.Parents = append(ran.Parents, before)
			first, _ := slices.BinarySearchFunc(ended, k.made, func(e *called, made float64) int { return cmp.Or(cmp.Compare(e.ends, made), -1) })
			if first > 0 && ended[first-1] != k { // it was called when another had ended
				ran.Parents = appendNew(ran.Parents, ended[first-1].row.Name)
			}
			c.out.Tasks = append(c.out.Tasks, ran)
			below = append(below, span{len(c.out.Tasks) - 1, k.start, k.ends})
			next.Parents = append(next.Parents, k.row.Name)
		}
		c.out.Tasks = append(c.out.Tasks, next)
		part, done, kids = len(c.out.Tasks)-1, max(done, until), kids[n:]
	}
	last := &c.out.Tasks[part]
	last.Seconds, last.Outputs = max(0, by.end-done), whole.Outputs
	return below
}

// task is a called task, with what it read from others.
func (c *callers) task(t *called) Ran {
	row := t.row
	ran := Ran{ID: row.Name, Name: row.Function, Seconds: row.Seconds, CPU: row.CPU, Memory: float64(row.PeakRSS), Machine: row.Agent}
	if t.file != "" {
		ran.Outputs = []string{t.file}
		c.out.Files = append(c.out.Files, File{t.file, float64(row.BytesOut)})
	}
	for _, r := range row.Reads {
		from := c.source(row, r)
		if from == nil {
			continue
		}
		if ran.Parents = appendNew(ran.Parents, from.row.Name); from.file != "" {
			ran.Inputs = appendNew(ran.Inputs, from.file)
		}
	}
	return ran
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// source finds the call whose result a called task read; nil when that is a value, or not known.
func (c *callers) source(row *comms.CallRow, r comms.CallReads) *called {
	for r.OfParent { // it was passed on
		parent := c.byName[row.Parent]
		if parent == nil {
			return nil
		}
		row = parent.row
		i := slices.IndexFunc(row.Reads, func(in comms.CallReads) bool { return in.Input == r.Output })
		if i += int(r.Element); i < 0 || i >= len(row.Reads) || row.Reads[i].Input != r.Output {
			return nil
		}
		r = row.Reads[i]
	}
	return c.places[callPlace{row.Parent, r.Strand, r.Number}]
}
