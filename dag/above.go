package dag

import "fmt"

// Above returns the job that makes what a task reads: the groups that it depends on,
// with the parameters and environments of g and under the same names. All datasets
// are kept, nothing is exported, and other branches go on when a task fails. The
// task's own group is in it only when the task reads from other tasks of it. ok is
// false for a task that reads nothing.
func (g *Graph) Above(t TaskIndex) (above *Graph, ok bool, err error) {
	needed := make([]bool, len(g.Groups))
	todo, err := g.groupsRead(t)
	if err != nil {
		return nil, false, err
	}
	for len(todo) > 0 {
		gi := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if needed[gi] {
			continue
		}
		needed[gi] = true
		// All tasks of a group read from the same groups, but for those that begin a
		// recurrence and read less.
		first, n := g.GroupTasks(gi)
		if g.Groups[gi].Stream != nil {
			first += g.NumTasks()
		}
		for i := range n {
			more, err := g.groupsRead(TaskIndex(first + i))
			if err != nil {
				return nil, false, err
			}
			todo = append(todo, more...)
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

// groupsRead returns the groups from which a task takes something.
func (g *Graph) groupsRead(t TaskIndex) (groups []int, err error) {
	inputs, err := g.Inputs(t)
	if err != nil {
		return nil, fmt.Errorf("inputs of %s: %w", g.TaskName(t), err)
	}
	for _, in := range inputs {
		for _, s := range in.Sources {
			groups = append(groups, g.GroupIndex(s.Task))
		}
	}
	if st := g.Group(t).Stream; st != nil {
		groups = append(groups, g.GroupIndex(st.Generator))
	}
	return groups, nil
}
