package executor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Membership tells a member of a gang about it. All members were started
// together; each listens where the others expect it, on the port that its agent
// leased for it.
type Membership struct {
	Rank    int      // from 0 on
	Size    int      // how many members there are
	Members []string // host:port of each, by rank
	Port    int      // of this member: that of Members[Rank]
}

// The environment variables that describe a gang to a command. Those of a
// function stand for the task alone, not in the process's environment.
const (
	envGangRank    = "CASCADE_GANG_RANK"
	envGangSize    = "CASCADE_GANG_SIZE"
	envGangMembers = "CASCADE_GANG_MEMBERS"
	envGangPort    = "CASCADE_GANG_PORT"
)

// Gang returns the place in its gang of the task that ctx belongs to; outside an
// executor that of this process, when it is the command of a task. It fails when
// the task is in no gang.
func Gang(ctx context.Context) (Membership, error) {
	env := os.Getenv
	if r, ok := ctx.Value(taskKey{}).(*run); ok {
		env = func(name string) string {
			at := slices.IndexFunc(r.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
			if at < 0 {
				return ""
			}
			return r.Env[at][len(name)+1:]
		}
	}
	m := Membership{Members: strings.Split(env(envGangMembers), ",")}
	if env(envGangSize) == "" {
		return Membership{}, fmt.Errorf("the task is in no gang: %s is not set", envGangSize)
	}
	for name, to := range map[string]*int{envGangRank: &m.Rank, envGangSize: &m.Size, envGangPort: &m.Port} {
		n, err := strconv.Atoi(env(name))
		if err != nil {
			return Membership{}, fmt.Errorf("place in the gang: %s: %w", name, err)
		}
		*to = n
	}
	if len(m.Members) != m.Size || m.Rank < 0 || m.Rank >= m.Size {
		return Membership{}, fmt.Errorf("place in the gang: rank %d of %d with %d addresses", m.Rank, m.Size, len(m.Members))
	}
	return m, nil
}
