package comms

import (
	"strings"

	"github.com/cascade-run/cascade/dag"
)

// Messages by which the parts of a gang that several agents have start together.

// MusterState is how far an agent is with its members of a gang.
type MusterState uint8

// The states of Muster.
const (
	MusterNot     MusterState = iota + 1 // they cannot start just now; what is held for them is until Gather says Start or Pass
	MusterReady                          // they could start, and wait for the gang's turn
	MusterHeld                           // all that they need is held, until Gather says Start or Pass
	MusterStarted                        // they were told to start
)

// Muster says how far an agent is with its members of a gang that others have
// members of, too. It is said when that changes, and anew after each Assign and Snapshot.
type Muster struct {
	Job     JobID         // which job
	Life    uint64        // of the job, as in its Assign
	Epoch   uint64        // of the last Assign that counted
	Task    dag.TaskIndex // the first member of the gang
	State   MusterState   // how far they are
	Turn    uint64        // MusterHeld: of the Gather that asked for it; of another it is answered with GatherPass
	Members []string      // MusterHeld: host:port of each member here, by rank
}

// GatherStep is what an agent is to do for its members of a gang.
type GatherStep uint8

// The steps of Gather.
const (
	GatherHold  GatherStep = iota + 1 // hold back what they need: it is the gang's turn
	GatherStart                       // start them: all agents hold what their members need
	GatherPass                        // the turn is over: give back what is held for them, and say anew when they could start
)

// Gather tells an agent what to do for its members of a gang. It answers Muster.
type Gather struct {
	Job     JobID         // which job
	Life    uint64        // of the job
	Epoch   uint64        // that the agent must be at: a Gather of another is ignored
	Task    dag.TaskIndex // the first member of the gang
	Step    GatherStep    // what to do
	Turn    uint64        // which turn of the gang
	Members []string      // GatherStart: host:port of every member, by rank
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

// Type returns TypeMuster.
func (*Muster) Type() Type { return TypeMuster }

// Type returns TypeGather.
func (*Gather) Type() Type { return TypeGather }

func (m *Muster) code(c *Coder) {
	c.Struct(7, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.Life)
		Uint(c, &m.Epoch)
		Uint(c, &m.Task)
		Uint(c, &m.State)
		Uint(c, &m.Turn)
		Slice(c, &m.Members, String[string])
	})
}

func (m *Gather) code(c *Coder) {
	c.Struct(7, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.Life)
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
