package dag

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
)

// A session is a job of one task, which a program outside of the cluster runs itself: the
// program that connects is the root of all that it calls. The task is granted once, to
// the agent that the program is attached to.

// SessionFunction is what the task of a session runs. A program that opens a session has
// it; no function of a user's can have its name.
const SessionFunction = "cascade.session"

// SessionTask is the name of a session's task.
const SessionTask = "root"

// SessionPrefix begins the name of each session; what the program gave or is called follows.
const SessionPrefix = "session "

// AgentPrefix begins the name of a resource that one agent has and no other: a task that
// wants some of it runs there.
const AgentPrefix = "agent-"

// NoCPU as Resources.CPU is for a task that occupies no core: one that waits for others.
const NoCPU = -1

// AgentResource names the resource that an agent has and no other.
func AgentResource(agent string) string {
	name := AgentPrefix + agent
	if checkName("a resource", name) != nil {
		return fmt.Sprintf("%s%x", AgentPrefix, sha256.Sum256([]byte(agent)))
	}
	return name
}

// NewSession returns the graph of a session on an agent. Its calls run in the environment
// in, one of those that it declares, or "".
func NewSession(name, agent, in string, envs ...Environment) (*Graph, error) {
	b := NewBuilder(name)
	for i := range envs {
		b.Environment(envs[i])
	}
	b.Add(Group{Name: SessionTask, Run: Run{Function: SessionFunction, Environment: in}, Resources: Resources{CPU: NoCPU, Custom: map[string]int64{AgentResource(agent): 1}}})
	g, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	return g, nil
}

// IsSession tells whether the graph is that of a session.
func (g *Graph) IsSession() bool { return len(g.Groups) == 1 && g.Groups[0].IsSession() }

// IsSession tells whether the group is the task of a session.
func (grp *Group) IsSession() bool { return grp.Run.Function == SessionFunction }

// OwnResource tells whether a resource stands for a host or for an agent: a task wants it
// because of its place, and not because of what it does.
func OwnResource(name string) bool {
	return strings.HasPrefix(name, HostResource) || strings.HasPrefix(name, AgentPrefix)
}

// Cores returns the thousandths of a core that a task occupies.
func (r *Resources) Cores() int64 {
	switch r.CPU {
	case 0:
		return defaultCPU
	case NoCPU:
		return 0
	}
	return r.CPU
}

// defaultCPU is what a task occupies that does not say it.
const defaultCPU = 1000

// session checks what a group is as the task of a session, if it is one.
func (r *resolver) session(gi int, grp *Group) {
	if !grp.IsSession() {
		if grp.Resources.CPU == NoCPU && !grp.IsDoor() {
			r.report(gi, "resources", "cpu", errors.New("only the task of a session occupies no core"))
		}
		return
	}
	if len(r.g.Groups) > 1 || grp.Resources.CPU != NoCPU || grp.Stream != nil || grp.Gang != GangNone || grp.Retries > 0 ||
		len(grp.Axes)+len(grp.Inputs)+len(grp.Outputs)+len(grp.With)+len(grp.Env) > 0 {
		r.report(gi, "", "", mistake(SessionFunction+" is the task of a session, which is a job of its own without inputs and outputs", "run a function of your own"))
	}
}
