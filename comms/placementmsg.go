package comms

// Messages by which the controller says where calls should run. It keeps nothing of it: owner
// and host talk directly, see Grant.

// Where asks which agents should run similar calls, and carries the sender's load.
// An agent with hosted calls sends it without calls, too.
type Where struct {
	Ask       uint64    // number of the question, which the answer repeats
	Calls     uint64    // how many; 0: nothing is asked
	Needs     Resources // of each; CPU 0 means the default
	Bytes     uint64    // of the inputs of each, all of which the sender has
	Here      bool      // the sender can run them, too: some may stay
	Load      *Load     // of the sender; Waiting counts these calls
	Without   []string  // agents that cannot be reached, or have returned calls, sorted
	Platforms []string  // for which there is a binary of the environment of each, sorted; none: for any
}

// There answers Where: calls that are in no Host stay with the sender of Where.
type There struct {
	Ask   uint64 // of Where
	Hosts []Host // none twice
	Why   string // no agent can run such a call, for people; empty when one can, or is waited for
}

// Host is an agent that may run calls.
type Host struct {
	Agent       string   // its name
	Incarnation uint64   // of its process
	Addresses   []string // where agents reach it
	Calls       uint64   // how many it should get; 0 in Meet
	Slots       uint64   // how many such calls it can run at once; 0: not known
}

// Meet introduces an agent to another that is about to grant calls to it: of two
// agents the one whose name sorts first dials.
type Meet struct {
	Host Host // the other
}

// Type returns TypeWhere.
func (*Where) Type() Type { return TypeWhere }

// Type returns TypeThere.
func (*There) Type() Type { return TypeThere }

// Type returns TypeMeet.
func (*Meet) Type() Type { return TypeMeet }

func (m *Where) code(c *Coder) {
	c.Struct(8, func(c *Coder) {
		Uint(c, &m.Ask)
		Uint(c, &m.Calls)
		m.Needs.code(c)
		Uint(c, &m.Bytes)
		c.Bool(&m.Here)
		Pointer(c, &m.Load, func(c *Coder, l *Load) { l.code(c) })
		Slice(c, &m.Without, String[string])
		Slice(c, &m.Platforms, String[string])
	})
}

func (m *There) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Uint(c, &m.Ask)
		Slice(c, &m.Hosts, func(c *Coder, h *Host) { h.code(c) })
		String(c, &m.Why)
	})
}

func (h *Host) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		String(c, &h.Agent)
		Uint(c, &h.Incarnation)
		Slice(c, &h.Addresses, String[string])
		Uint(c, &h.Calls)
		Uint(c, &h.Slots)
	})
}

func (m *Meet) code(c *Coder) {
	c.Struct(1, func(c *Coder) { m.Host.code(c) })
}
