package comms

// Messages that lead a direct link between executors from one host to another (docs/protocol/actors.md). The agents carry
// its bytes, and read none of them. Each such link has a link of its own between the agents, without replay.

// Reach asks for a way to a process of another host. An executor asks its agent, which asks the other one, on a link that it
// dials for this. Without an agent it asks where other agents ask for the processes of this host.
type Reach struct {
	Req     uint64 // names the request in its answer
	Agent   string // on whose host the process is
	At      string // where that agent is asked
	Address string // at which the process listens there
}

// Reached answers Reach. Between agents Carried follows, both ways, until one of the two ends the link.
type Reached struct {
	Req     uint64 // as asked
	Address string // from agent to executor: where to dial, once and soon; or where agents ask
	Error   string // why there is no way; "" if there is
	Gone    bool   // nor will there be: the process, or its agent, has ended
}

// Carried is the next bytes of a direct link; they are the message's body frame.
type Carried struct{}

// Type returns TypeReach.
func (*Reach) Type() Type { return TypeReach }

// Type returns TypeReached.
func (*Reached) Type() Type { return TypeReached }

// Type returns TypeCarried.
func (*Carried) Type() Type { return TypeCarried }

func (m *Reach) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Req)
		String(c, &m.Agent)
		String(c, &m.At)
		String(c, &m.Address)
	})
}

func (m *Reached) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Req)
		String(c, &m.Address)
		String(c, &m.Error)
		c.Bool(&m.Gone)
	})
}

func (m *Carried) code(c *Coder) { c.Struct(0, func(*Coder) {}) }
