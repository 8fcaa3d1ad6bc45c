package comms

import (
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// Messages by which the members of a multi-host gang start together.

// GangState is how far an agent is with its members of a gang.
type GangState uint8

// The states of GangStatus.
const (
	GangWaiting  GangState = iota + 1 // they cannot start just now; their reservations stay until GangCommand says Start or Abort
	GangReady                         // they could start, and wait for the gang's reservation slot
	GangReserved                      // all that they need is reserved, until GangCommand says Start or Abort
	GangStarted                       // they were told to start
)

// GangStatus reports how far an agent is with its members of a multi-host gang. It is
// sent when that changes, and after each Assign and Snapshot.
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
	GangReserve GangStep = iota + 1 // reserve what they need: the gang has the reservation slot
	GangStart                       // start them: all agents have reserved what their members need
	GangAbort                       // the slot is over: return their reservations, and report when they could start
)

// GangCommand directs an agent's members of a multi-host gang. It answers GangStatus.
type GangCommand struct {
	Job            JobID         // which job
	JobIncarnation uint64        // of the job
	Epoch          uint64        // that the agent must be at: a GangCommand of another is ignored
	Task           dag.TaskIndex // the first member of the gang
	Step           GangStep      // what to do
	Turn           uint64        // number of the reservation slot
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
