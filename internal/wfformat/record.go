package wfformat

import (
	"fmt"
	"math"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Record makes a recording of what the tasks of a job did, as its rows tell it, and
// of where. left is how many tasks it leaves out: they did not end well. An element of
// a generator is a file of its own, and its consumers wait for the generator's end.
// Sizes are those of the datasets that are kept; of others a task's bytes are shared
// out equally. Called tasks are tasks of the recording, too (calls.go).
func Record(g *dag.Graph, tasks []comms.TaskRow, called []comms.CallRow, kept []comms.DatasetRow, agents []comms.AgentRow) (r *Recording, left int, err error) {
	rec := &recorder{g: g, out: &Recording{Name: g.Name}, rows: map[dag.TaskIndex]*comms.TaskRow{}, elements: map[outputKey]uint64{},
		sizes: map[string]float64{}, written: map[dag.TaskIndex][]string{}}
	for i := range kept {
		rec.sizes[kept[i].Name] = float64(kept[i].Size)
	}
	for i := range tasks {
		row := &tasks[i]
		switch {
		case row.State != "done" && (!g.IsSession() || row.Started == ""): // of a session that goes on, or has failed, calls are recorded
		case row.Started == "":
			return nil, 0, fmt.Errorf("task %s of job %s did not run in it, as others may: it was taken from the job that this one resumed, which is the one to record", row.Name, g.Name)
		default:
			rec.rows[dag.TaskIndex(row.Index)] = row
		}
	}
	rec.count()
	first, last := int64(math.MaxInt64), int64(0)
	for i := range tasks {
		row := rec.rows[dag.TaskIndex(tasks[i].Index)]
		if row == nil {
			left++
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, row.Started)
		if err != nil {
			return nil, 0, fmt.Errorf("start of %s: %w", row.Name, err)
		}
		first, last = min(first, at.UnixNano()), max(last, at.UnixNano()+int64(row.Seconds*1e9))
		if err := rec.task(row); err != nil {
			return nil, 0, err
		}
	}
	if len(rec.out.Tasks) == 0 {
		return nil, left, fmt.Errorf("no task of job %s has ended well: there is nothing to record", g.Name)
	}
	rec.files()
	rec.out.Started = time.Unix(0, first)
	end, without, err := rec.called(called)
	if err != nil {
		return nil, 0, err
	}
	left += without
	rec.out.Makespan = max(float64(last-first)/1e9, end)
	used := map[string]bool{}
	for i := range rec.out.Tasks {
		used[rec.out.Tasks[i].Machine] = true
	}
	for i := range agents {
		if a := &agents[i]; used[a.Name] {
			rec.out.Machines = append(rec.out.Machines, Machine{a.Name, a.CPU})
		}
	}
	return rec.out, left, nil
}

// called adds called tasks, and tells when the last of them ended.
func (rec *recorder) called(rows []comms.CallRow) (end float64, left int, err error) {
	for i := range rows {
		at, err := time.Parse(time.RFC3339Nano, rows[i].Ended)
		if err != nil {
			return 0, 0, fmt.Errorf("end of call %s: %w", rows[i].Name, err)
		}
		end = max(end, at.Sub(rec.out.Started).Seconds())
	}
	roots := map[string]span{}
	for i := range rec.out.Tasks {
		t := &rec.out.Tasks[i]
		index, _ := rec.g.Lookup(t.ID)
		row := rec.rows[index]
		at, err := time.Parse(time.RFC3339Nano, row.Started)
		if err != nil {
			return 0, 0, fmt.Errorf("start of %s: %w", row.Name, err)
		}
		s := span{start: at.Sub(rec.out.Started).Seconds()}
		if s.end = s.start + row.Seconds; rec.g.IsSession() {
			t.Cores = programCores
			if row.State != "done" {
				s.end = end
			}
		}
		roots[t.ID] = s
	}
	left, err = addCalls(rec.out, rows, roots)
	return end, left, err
}

type outputKey struct {
	task   dag.TaskIndex
	output uint32
}

// recorder is one Record.
type recorder struct {
	g        *dag.Graph
	out      *Recording
	rows     map[dag.TaskIndex]*comms.TaskRow // that ended well
	elements map[outputKey]uint64             // of open generators
	sizes    map[string]float64               // of datasets that are kept
	written  map[dag.TaskIndex][]string       // files, by the task
}

// count finds out how many elements open generators had: as many as have a task that
// follows them, or are kept.
func (rec *recorder) count() {
	for t := range rec.rows {
		if st := rec.g.Group(t).Stream; st != nil {
			_, e, _ := rec.g.Slot(t)
			k := outputKey{st.Generator, st.Output}
			rec.elements[k] = max(rec.elements[k], e+1)
		}
	}
	for t := range rec.rows {
		for o, out := range rec.g.Group(t).Outputs {
			k := outputKey{t, uint32(o)}
			if out.Generate != dag.GenerateOpen || rec.elements[k] > 0 {
				continue
			}
			for {
				if _, ok := rec.sizes[rec.g.DatasetName(dag.Dataset{Task: t, Output: k.output, Element: rec.elements[k]})]; !ok {
					break
				}
				rec.elements[k]++
			}
		}
	}
}

// task records a task that ended well.
func (rec *recorder) task(row *comms.TaskRow) error {
	g, t := rec.g, dag.TaskIndex(row.Index)
	group := g.Group(t)
	ran := Ran{ID: row.Name, Name: row.Group, Seconds: row.Seconds, Cores: float64(group.Resources.CPU) / 1000, CPU: row.CPU,
		Memory: float64(row.PeakRSS), Machine: row.Agent}
	for o, out := range group.Outputs {
		n := uint64(1)
		switch out.Generate {
		case dag.GenerateFixed:
			n = out.Count
		case dag.GenerateOpen:
			n = rec.elements[outputKey{t, uint32(o)}]
		}
		for e := range n {
			ran.Outputs = append(ran.Outputs, g.DatasetName(dag.Dataset{Task: t, Output: uint32(o), Element: e}))
		}
	}
	rec.written[t] = ran.Outputs
	inputs, err := g.Inputs(t)
	if err != nil {
		return fmt.Errorf("inputs of %s: %w", row.Name, err)
	}
	parents, read := map[dag.TaskIndex]bool{}, map[dag.Dataset]bool{}
	parent := func(p dag.TaskIndex) bool {
		if rec.rows[p] != nil && !parents[p] { // of one that failed nothing was read
			ran.Parents = append(ran.Parents, rec.rows[p].Name)
			parents[p] = true
		}
		return parents[p]
	}
	elements := func(t dag.TaskIndex, output uint32) uint64 { return rec.elements[outputKey{t, output}] }
	for _, in := range inputs {
		for _, s := range in.Sources {
			for d := range g.Datasets(s, elements) {
				if parent(d.Task) && !read[d] {
					ran.Inputs = append(ran.Inputs, g.DatasetName(d))
					read[d] = true
				}
			}
		}
	}
	if group.Stream != nil {
		parent(group.Stream.Generator)
	}
	rec.out.Tasks = append(rec.out.Tasks, ran)
	return nil
}

// files lists what the tasks wrote.
func (rec *recorder) files() {
	for i := range rec.out.Tasks {
		t, _ := rec.g.Lookup(rec.out.Tasks[i].ID)
		rest, unknown := float64(rec.rows[t].BytesOut), 0
		for _, f := range rec.written[t] {
			if n, ok := rec.sizes[f]; ok {
				rest -= n
			} else {
				unknown++
			}
		}
		for _, f := range rec.written[t] {
			n, ok := rec.sizes[f]
			if !ok {
				n = math.Floor(max(rest, 0) / float64(unknown))
			}
			rec.out.Files = append(rec.out.Files, File{f, n})
		}
	}
}
