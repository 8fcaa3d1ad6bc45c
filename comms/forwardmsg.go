package comms

// Messages by which a call runs on another agent than its caller. The controller
// says where, and keeps nothing of it; owner and host talk directly.

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
}

// Meet introduces an agent to another that is about to forward calls to it: of two
// agents the one whose name sorts first dials.
type Meet struct {
	Host Host // the other
}

// Forward has another agent run a call. Later messages about the call use its name
// here, in the order in which things happen. When the link was not resumed, all
// calls that were forwarded over the one before are over.
type Forward struct {
	Call           JobID         // its name between the two; another each time that a call goes anywhere
	Graph          []byte        // encoded dag.Graph: its last task is the call, those before it stand for the inputs
	Task           TaskID        // of a job's graph, from which the call comes
	JobIncarnation uint64        // of that job
	Group          string        // of that task
	Name           string        // of the call: that of its caller with its number behind
	With           []byte        // msgpack map of parameters
	Inputs         []ForwardedIn // one for each task before the last
	Dir            string        // folder that relative paths of the job refer to
	Priority       int64         // of the job
	Weight         uint32        // share of the job's tenant; 0 means 1
	Tenant         string        // jobs of one tenant share its weight
	Depth          uint64        // 1 for a call of a task of the graph, 2 for one that that made, ...
	Registry       []FuncSig     // functions that the submitting program has registered; none when it is not a Go driver
}

// ForwardedIn is one input of a call that is forwarded.
type ForwardedIn struct {
	Data Desc      // inline, or at the agent that forwards it
	Of   DatasetID // its name there; its attempt is that of Data
}

// Forwarded reports on a forwarded call to its owner: log text, the end of a call
// that this one made, or, with Over, its own end.
type Forwarded struct {
	Call   JobID  // as in Forward
	Event  *Event // the end of it, or of a call that it made (EventCall)
	Stream uint8  // of Text: 1 stdout, 2 stderr
	Text   []byte // that the call, or a call that it made, has written
	Over   bool   // nothing follows: it ended as Event says, or was returned
	Data   Desc   // its result: inline, or at the host until Recall
	Back   string // it was returned, and why: it has not run, or counts as if it had not
}

// Recall ends a call's stay at its host: its run ends, and its result is freed.
type Recall struct {
	Call JobID // as in Forward
}

// Type returns TypeWhere.
func (*Where) Type() Type { return TypeWhere }

// Type returns TypeThere.
func (*There) Type() Type { return TypeThere }

// Type returns TypeMeet.
func (*Meet) Type() Type { return TypeMeet }

// Type returns TypeForward.
func (*Forward) Type() Type { return TypeForward }

// Type returns TypeForwarded.
func (*Forwarded) Type() Type { return TypeForwarded }

// Type returns TypeRecall.
func (*Recall) Type() Type { return TypeRecall }

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
	c.Struct(4, func(c *Coder) {
		String(c, &h.Agent)
		Uint(c, &h.Incarnation)
		Slice(c, &h.Addresses, String[string])
		Uint(c, &h.Calls)
	})
}

func (m *Meet) code(c *Coder) {
	c.Struct(1, func(c *Coder) { m.Host.code(c) })
}

func (m *Forward) code(c *Coder) {
	c.Struct(14, func(c *Coder) {
		c.ID((*[16]byte)(&m.Call))
		c.Bytes(&m.Graph)
		c.Struct(2, func(c *Coder) {
			c.ID((*[16]byte)(&m.Task.Job))
			Uint(c, &m.Task.Index)
		})
		Uint(c, &m.JobIncarnation)
		String(c, &m.Group)
		String(c, &m.Name)
		c.Bytes(&m.With)
		Slice(c, &m.Inputs, func(c *Coder, in *ForwardedIn) {
			c.Struct(2, func(c *Coder) {
				in.Data.code(c)
				c.Struct(2, func(c *Coder) {
					c.ID((*[16]byte)(&in.Of.Job))
					in.Of.DatasetRef.code(c)
				})
			})
		})
		String(c, &m.Dir)
		Int(c, &m.Priority)
		Uint(c, &m.Weight)
		String(c, &m.Tenant)
		Uint(c, &m.Depth)
		Slice(c, &m.Registry, func(c *Coder, f *FuncSig) { f.code(c) })
	})
}

func (m *Forwarded) code(c *Coder) {
	c.Struct(7, func(c *Coder) {
		c.ID((*[16]byte)(&m.Call))
		Pointer(c, &m.Event, func(c *Coder, e *Event) { e.code(c) })
		Uint(c, &m.Stream)
		c.Bytes(&m.Text)
		c.Bool(&m.Over)
		m.Data.code(c)
		String(c, &m.Back)
	})
}

func (m *Recall) code(c *Coder) {
	c.Struct(1, func(c *Coder) { c.ID((*[16]byte)(&m.Call)) })
}
