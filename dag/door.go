package dag

import (
	"fmt"
	"slices"
)

// A graph that a task runs has doors: tasks without work of their own, on the agent of that task. By
// one that gives, a dataset of the call comes into the graph; by the one that takes, its results go out.
//
//	futures of the task ──▶ given ──▶ tasks of the graph ──▶ taken ──▶ results of the call

// GivenFunction is what a door runs whose one output is an argument of the call that runs
// the graph: the first door's the first, and so on.
const GivenFunction = "cascade.given"

// TakenFunction is what the door runs whose inputs become the results of the call, in order.
const TakenFunction = "cascade.taken"

// IsDoor tells whether the group is a door of a graph that a task runs.
func (grp *Group) IsDoor() bool {
	return grp.Run.Function == GivenFunction || grp.Run.Function == TakenFunction
}

// NewDoor returns a door on an agent, without inputs and outputs.
func NewDoor(name, agent, function string) Group {
	return Group{Name: name, Run: Run{Function: function}, Resources: Resources{CPU: NoCPU, Custom: map[string]int64{AgentResource(agent): 1}}}
}

// Home names the resource of the agent that the doors of a graph are on; "" when it has none.
func (g *Graph) Home() string {
	for i := range g.Groups {
		if !g.Groups[i].IsDoor() {
			continue
		}
		for name := range g.Groups[i].Resources.Custom {
			return name
		}
	}
	return ""
}

// Within returns the graph with the environments of the job whose task runs it in place of its own, and its
// tasks that name none in that of the task.
func (g *Graph) Within(envs []Environment, in string) (*Graph, error) {
	for i := range g.Environments {
		if name := g.Environments[i].Name; !slices.ContainsFunc(envs, func(e Environment) bool { return e.Name == name }) {
			return nil, fmt.Errorf("graph %q: environment %q is not one of the job whose task runs it: declare it there", g.Name, name)
		}
	}
	out := *g
	out.Environments = slices.Clone(envs)
	out.Groups = slices.Clone(g.Groups)
	for i := range out.Groups {
		grp := &out.Groups[i]
		switch run := &grp.Run; {
		case run.Environment != "" || grp.IsInput() || grp.IsDoor():
		case run.Command != nil && in == ProgramEnvironment: // it has functions, and commands are of the host
		default:
			run.Environment = in
		}
	}
	return &out, nil
}

// door checks what a group is as a door, if it is one.
func (r *resolver) door(gi int, grp *Group) {
	if !grp.IsDoor() {
		return
	}
	given := grp.Run.Function == GivenFunction
	if grp.Resources.CPU != NoCPU || len(grp.Resources.Custom) != 1 || grp.Stream != nil || grp.Gang != GangNone || grp.Retries > 0 || len(grp.Axes)+len(grp.With)+len(grp.Env) > 0 ||
		given && (len(grp.Inputs) > 0 || len(grp.Outputs) != 1 || grp.Outputs[0].Generate != GenerateNone) || !given && len(grp.Outputs) > 0 {
		r.report(gi, "", "", mistake(grp.Run.Function+" is a door of a graph that a task runs", "run a function of your own"))
	}
}

// DoorNumber returns how many doors that give are before a task's.
func (g *Graph) DoorNumber(t TaskIndex) (n int) {
	own := g.Group(t)
	for i := range g.Groups {
		if grp := &g.Groups[i]; grp == own {
			return n
		} else if grp.Run.Function == GivenFunction {
			n++
		}
	}
	return n
}
