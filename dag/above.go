package dag

import (
	"fmt"
	"slices"
)

// Above returns the job that makes what a task reads: the groups that it depends on,
// with the parameters and environments of g and under the same names. All datasets
// are kept, nothing is exported, and other branches go on when a task fails. The
// task's own group is in it only when the task reads from other tasks of it. ok is
// false for a task that reads nothing.
func (g *Graph) Above(t TaskIndex) (above *Graph, ok bool, err error) {
	if !g.valid(t) {
		return nil, false, fmt.Errorf("find what task %d of %d needs", t, g.index.tasks)
	}
	needed := make([]bool, len(g.Groups))
	todo := g.groupsRead(g.GroupIndex(t))
	for len(todo) > 0 {
		gi := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !needed[gi] {
			needed[gi] = true
			todo = append(todo, g.groupsRead(gi)...)
		}
	}
	out := &Graph{Name: g.Name, Params: g.Params, Environments: g.Environments, KeepGoing: true, Retain: true}
	for i := range g.Groups {
		if needed[i] {
			out.Groups = append(out.Groups, g.Groups[i])
		}
	}
	if len(out.Groups) == 0 {
		return nil, false, nil
	}
	out, err = Decode(out.Encode())
	if err != nil {
		return nil, false, fmt.Errorf("the job above %s: %w", g.TaskName(t), err)
	}
	return out, true, nil
}

// groupsRead returns the groups from which the tasks of a group take something, each
// once: a reference is to one group, whichever task of it is meant.
func (g *Graph) groupsRead(gi int) (groups []int) {
	ix := &g.index
	if ix.groups[gi].size == 0 {
		return nil
	}
	first, last := ix.refRange(gi)
	for ri := first; ri < last; ri++ {
		if x := &ix.refs[ri]; x.stride > 0 {
			groups = append(groups, ix.groupOfNode(ix.srcTask[x.base]))
		}
	}
	if st := g.Groups[gi].Stream; st != nil {
		groups = append(groups, g.GroupIndex(st.Generator))
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}
