package controller

import (
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// memories is what jobs with one graph tell of the memory that its tasks needed.
type memories struct {
	grown map[jobTask]uint64   // bytes for the next attempt of tasks that were ended for their memory
	of    map[int]*memoryUsage // of groups that say what their tasks take
	above map[jobTask]bool     // gangs, by their first members, of which one came to more than the job says
}

type jobTask struct {
	job  comms.JobID
	task dag.TaskIndex
}

// memoryUsage counts the tasks of a group that ended well.
type memoryUsage struct {
	all   int
	above int            // those whose process came to more than the job says
	grown map[uint64]int // those that had to be given more, by what was enough
}

// grew notes with how much memory a task is tried again, and each other of its gang.
func (m *memories) grew(job comms.JobID, g *dag.Graph, e *comms.Event) {
	if e.Count == 0 {
		return
	}
	if m.grown == nil {
		m.grown = map[jobTask]uint64{}
	}
	first, size := g.GangOf(e.Task)
	for t := first; t < first+dag.TaskIndex(max(size, 1)); t++ {
		m.grown[jobTask{job, t}] = e.Count
	}
}

// ended notes that a task of a group ended well.
func (m *memories) ended(job comms.JobID, g *dag.Graph, group int, t dag.TaskIndex, u *comms.Usage) {
	said := g.Groups[group].Resources.Memory
	if said == 0 {
		return
	}
	of := m.of[group]
	if of == nil {
		if m.of == nil {
			m.of = map[int]*memoryUsage{}
		}
		of = &memoryUsage{}
		m.of[group] = of
	}
	if of.all++; u.PeakRSS > uint64(said) {
		of.above += m.counts(job, g, t)
	}
	if bytes := m.grown[jobTask{job, t}]; bytes > 0 {
		if of.grown == nil {
			of.grown = map[uint64]int{}
		}
		of.grown[bytes]++
	}
}

// counts returns how many tasks count as taking more than the job says when one does: of a
// gang, whose members get as much as each other, all, and the others that do not again.
func (m *memories) counts(job comms.JobID, g *dag.Graph, t dag.TaskIndex) int {
	first, size := g.GangOf(t)
	gang := jobTask{job, first}
	switch {
	case size == 0:
		return 1
	case m.above[gang]:
		return 0
	case m.above == nil:
		m.above = map[jobTask]bool{}
	}
	m.above[gang] = true
	return size
}

// fold notes with how much memory tasks of the same groups are to begin.
func (m *memories) fold(book *profiles.Book, g *dag.Graph) {
	for _, group := range slices.Sorted(maps.Keys(m.of)) {
		if bytes, known := m.of[group].held(); known {
			book.Hold(planner.SignatureOf(g, group), float64(bytes))
		}
	}
}

// held says with how much memory such tasks are to begin: when most had to be given more
// than they began with, what was enough for half of these. When most came to no more than
// the job says that is enough: 0. Else what they began with is right, and it is not known.
func (u *memoryUsage) held() (bytes uint64, known bool) {
	n := 0
	for _, k := range u.grown {
		n += k
	}
	switch {
	case 2*n > u.all:
		at := 0
		for _, bytes := range slices.Sorted(maps.Keys(u.grown)) {
			if at += u.grown[bytes]; 2*at >= n {
				return bytes, true
			}
		}
	case 2*u.above <= u.all:
		return 0, true
	}
	return 0, false
}
