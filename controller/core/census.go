package core

import "github.com/cascade-run/cascade/comms"

// AgentStates are the states in which an agent can be, as its row calls them.
var AgentStates = []string{"ready", "connecting", "leaving", "left", "away"}

// stands returns the state of an agent, one of AgentStates.
func (a *agent) stands() string {
	switch {
	case a.leaving != nil && a.link == nil:
		return "left"
	case a.leaving != nil:
		return "leaving"
	case a.synced:
		return "ready"
	case a.link != nil:
		return "connecting"
	}
	return "away"
}

// Census is how the agents stand, and how many tasks of jobs that have not ended do; called tasks
// are not among them.
type Census struct {
	Agents                  []comms.AgentRow // name and state
	Waiting, Ready, Running uint64
}

// Census counts. It takes time with the number of families of jobs that have not ended.
func (c *Core) Census() (n Census) {
	for _, a := range c.sortedAgents() {
		n.Agents = append(n.Agents, comms.AgentRow{Name: a.row.Name, State: a.stands()})
	}
	for _, j := range c.running {
		for _, g := range j.states.Groups() {
			n.Ready += g.Ready
			n.Running += g.Running
			n.Waiting += g.Total - g.Ready - g.Running - g.Done - g.Failed - g.Skipped - g.Cancelled
		}
	}
	return n
}
