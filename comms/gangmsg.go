package comms

import (
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// Messages by which the parts of a gang that several agents have start together.

// GangState is how far an agent is with its members of a gang.
type GangState uint8

// The states of GangStatus.
const (
	GangWaiting  GangState = iota + 1 // they cannot start just now; what is held for them is until GangCommand says Start or Pass
	GangReady                         // they could start, and wait for the gang's turn
	GangReserved                      // all that they need is held, until GangCommand says Start or Pass
	GangStarted                       // they were told to start
)

// GangStatus says how far an agent is with its members of a gang that others have
// members of, too. It is said when that changes, and anew after each Assign and Snapshot.
type GangStatus struct {
	Job            JobID         // which job
	JobIncarnation uint64        // of the job, as in its Assign
	Epoch          uint64        // of the last Assign that counted
	Task           dag.TaskIndex // the first member of the gang
	State          GangState     // how far they are
	Turn           uint64        // GangReserved: of the GangCommand that asked for it; of another it is answered with GangAbort
	Members        []string      // GangReserved: host:port of each member here, by rank
}

// GangStep is what an agent is to do for its members of a gang.
type GangStep uint8

// The steps of GangCommand.
const (
	GangReserve GangStep = iota + 1 // hold back what they need: it is the gang's turn
	GangStart                       // start them: all agents hold what their members need
	GangAbort                       // the turn is over: give back what is held for them, and say anew when they could start
)

// GangCommand tells an agent what to do for its members of a gang. It answers GangStatus.
type GangCommand struct {
	Job            JobID         // which job
	JobIncarnation uint64        // of the job
	Epoch          uint64        // that the agent must be at: a GangCommand of another is ignored
	Task           dag.TaskIndex // the first member of the gang
	Step           GangStep      // what to do
	Turn           uint64        // which turn of the gang
	Members        []string      // GangStart: host:port of every member, by rank
}

// IsMemberAddress tells whether a member of a gang can be reached there: it is
// host:port, and can stand in a list of them that commas part.
func IsMemberAddress(at string) bool {
	colon := strings.LastIndexByte(at, ':')
	return colon > 0 && colon < len(at)-1 && !strings.ContainsAny(at, ",\x00")
}

// GangTries is how often a gang was tried that several agents have.
type GangTries struct {
	Task    dag.TaskIndex // its first member
	Fails   uint32        // attempts that count against its retries
	Crashes uint32        // attempts that ended an executor
}

// Type returns TypeGangStatus.
func (*GangStatus) Type() Type { return TypeGangStatus }

// Type returns TypeGangCommand.
func (*GangCommand) Type() Type { return TypeGangCommand }

func (m *GangStatus) code(c *Coder) {
	c.Struct(7, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.JobIncarnation)
		Uint(c, &m.Epoch)
		Uint(c, &m.Task)
		Uint(c, &m.State)
		Uint(c, &m.Turn)
		Slice(c, &m.Members, String[string])
	})
}

func (m *GangCommand) code(c *Coder) {
	c.Struct(7, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.JobIncarnation)
		Uint(c, &m.Epoch)
		Uint(c, &m.Task)
		Uint(c, &m.Step)
		Uint(c, &m.Turn)
		Slice(c, &m.Members, String[string])
	})
}

func (t *GangTries) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &t.Task)
		Uint(c, &t.Fails)
		Uint(c, &t.Crashes)
	})
}
