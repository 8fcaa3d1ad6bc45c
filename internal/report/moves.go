package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// move is a dataset that a task read which another host had made. When it was on its
// way is not recorded: some time from made to needed, in seconds.
type move struct {
	Name         string
	From, To     int // places in Run.Hosts
	Bytes        float64
	Made, Needed float64
}

// made is one dataset: element counts from 1, 0 is all of an output.
type made struct {
	task    dag.TaskIndex
	output  uint32
	element uint64
}

// moves lists what went from host to host, each dataset once to each, by the time at which
// it was needed. Of a task only the bytes of all its outputs together are known: they
// count as equal parts, and those of an output as equal elements.
func (r *Run) moves() (all []move, err error) {
	type there struct {
		made
		host int
	}
	place := map[there]int{}
	elements := map[made]map[uint64]bool{} // of each output that is read by elements, those that were
	var sets []made
	for k := range r.Tasks {
		t := &r.Tasks[k]
		inputs, err := r.Graph.Inputs(dag.TaskIndex(t.Index))
		if err != nil {
			return nil, fmt.Errorf("inputs of %s: %w", t.Name, err)
		}
		for _, in := range inputs {
			for _, s := range in.Sources {
				for _, from := range r.producers(s) {
					p := &r.Tasks[from]
					d := made{dag.TaskIndex(p.Index), s.Output, 0}
					if s.Kind == dag.SourceElement && r.Graph.Group(d.task).Outputs[d.output].Generate != dag.GenerateNone {
						if elements[d] == nil {
							elements[d] = map[uint64]bool{}
						}
						elements[d][s.Element] = true
						d.element = s.Element + 1
					}
					if p.Host == t.Host {
						continue
					}
					if at, again := place[there{d, t.Host}]; again {
						all[at].Needed = min(all[at].Needed, t.Start)
						continue
					}
					place[there{d, t.Host}] = len(all)
					sets = append(sets, d)
					m := move{From: p.Host, To: t.Host, Made: p.Finish, Needed: t.Start}
					if d.element > 0 {
						m.Made = p.Start
					}
					all = append(all, m)
				}
			}
		}
	}
	for i := range all {
		d, m := sets[i], &all[i]
		outputs := r.Graph.Group(d.task).Outputs
		p := &r.Tasks[r.at[d.task]]
		m.Name, m.Bytes = p.Name+"."+outputs[d.output].Name, float64(p.BytesOut)/float64(len(outputs))
		if d.element > 0 {
			m.Name = fmt.Sprintf("%s[%d]", m.Name, d.element-1)
			n := max(len(elements[made{d.task, d.output, 0}]), int(outputs[d.output].Count), 1)
			m.Bytes /= float64(n)
		}
		m.Made = min(m.Made, m.Needed)
	}
	slices.SortStableFunc(all, func(a, b move) int { return cmp.Compare(a.Needed, b.Needed) })
	return all, nil
}

// producers returns the places in Tasks of those that a source stands for.
func (r *Run) producers(s dag.Source) []int {
	if s.Kind == dag.SourceGroup {
		return r.members[r.Graph.GroupIndex(s.Task)]
	}
	if k, ok := r.at[s.Task]; ok {
		return []int{k}
	}
	return nil
}

// way sums up what went from one host to another.
type way struct {
	From, To string
	Datasets int
	Bytes    uint64
}

// ways sums up moves, those of most bytes first.
func (r *Run) ways(moves []move) (rows []way) {
	at := map[[2]int]int{}
	for i := range moves {
		m := &moves[i]
		k, ok := at[[2]int{m.From, m.To}]
		if !ok {
			k = len(rows)
			at[[2]int{m.From, m.To}] = k
			rows = append(rows, way{From: r.Hosts[m.From], To: r.Hosts[m.To]})
		}
		rows[k].Datasets++
		rows[k].Bytes += uint64(m.Bytes)
	}
	slices.SortStableFunc(rows, func(a, b way) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return rows
}
