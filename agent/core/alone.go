package core

import (
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// Alone writes what an agent tells an executor of one task of a job: its kind, and
// its run, in which nothing but the places of its inputs is missing. It is for who
// runs a task without an agent, and for a host that has all that the task wants. Its
// generators wait for no credit. A member of a gang cannot run alone.
func Alone(g *dag.Graph, id comms.JobID, dir string, t dag.TaskIndex, attempt uint32) (*comms.Kind, comms.Run, error) {
	group := g.Group(t)
	if group.Gang != dag.GangNone {
		return nil, comms.Run{}, fmt.Errorf("%s is a member of a gang, which runs with all others of it", g.TaskName(t))
	}
	total := comms.Resources{CPU: max(group.Resources.CPU, 1000), Memory: group.Resources.Memory, GPU: group.Resources.GPU}
	for name, n := range group.Resources.Custom {
		total.Custom = append(total.Custom, comms.Amount{Name: name, N: n})
	}
	c := New(Config{Total: total})
	j := c.newJob(&comms.Assign{Job: id, Dir: dir}, tenantOf("", id), g)
	r := &run{id: 1, job: j, task: t, attempt: attempt, gs: j.groupOf(t)}
	m, err := r.message()
	if err != nil {
		return nil, m, err
	}
	k := c.kindOf(j, r.gs)
	for i := range k.Outputs {
		k.Outputs[i].Buffer = 0
	}
	m.Kind = k.ID
	return k, m, nil
}
