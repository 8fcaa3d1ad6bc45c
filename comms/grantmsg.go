package comms

// Messages by which the owner of dynamic tasks has another agent, their host, run them.
// The owner numbers its grants; no number is used twice while its process lives. A report
// of a grant counts until the owner has ended it. When the link between the two was
// not resumed, all grants that were told over the one before have ended.

// Grant has the receiver run tasks that share a kind and an origin. With a kind without a function each stands for
// a dataset of the receiver to which a value refers (Inputs[0].Of): it ends as the task that makes that, and
// its one output is the dataset.
type Grant struct {
	Root           TaskID      // the task of a graph from which they come, by whatever calls
	JobIncarnation uint64      // of that job
	Group          string      // of that task
	Kind           CallKind    // what they share; ID is 0
	Environment    []byte      // encoded dag.Graph that declares the environments of the origin's job; none: it has none
	Dir            string      // folder that relative paths refer to
	Priority       int64       // of the job
	Weight         uint32      // share of the job's tenant; 0 means 1
	Tenant         string      // jobs of one tenant share its weight
	Depth          uint64      // 1 for a call of a task of the graph, 2 for one that that made, ...
	Registry       []FuncSig   // functions that the submitting program has registered; none when it is not a Go driver
	Tasks          []GrantTask // in the order in which they are to begin
}

// GrantTask is one task of a Grant.
type GrantTask struct {
	Grant  uint64       // the owner's number of it
	Name   string       // of the task
	With   []byte       // msgpack map of parameters
	Inputs []GrantInput // by port, those of a list one after another
	Refs   []ValueRefs  // to what they refer
}

// ValueRefs is to what a value refers that goes to another agent.
type ValueRefs struct {
	Place uint32     // of the value among the inputs; the number of the output
	Refs  []AgentRef // as the value numbers them
}

// AgentRef is a dataset to which a value refers, for another agent.
type AgentRef struct {
	Yours bool      // it is the receiver's, and not the sender's
	Of    DatasetID // its name there
}

// GrantInput is one dataset that a granted task reads.
type GrantInput struct {
	Port uint32    // number of the input in the kind
	Data Desc      // inline, or at the owner
	Of   DatasetID // its name there; its attempt is that of Data
}

// GrantReport tells the owner of tasks what became of them, in the order in which it happened.
type GrantReport struct {
	Items []GrantItem // oldest first
}

// GrantItem is one happening: log text, the end of a task that this one called, its own
// end (Over), its return, or with nothing of these that it was asked back and has begun.
type GrantItem struct {
	Grant   uint64 // which task
	Event   *Event // the end of it, or of a task that it called (EventCall)
	Stream  uint8  // of Text: 1 stdout, 2 stderr
	Text    []byte // that the task, or one that it called, has written
	Over    bool   // nothing follows: it ended as Event says, or was returned
	Outputs []Desc // its outputs: inline, or at the host until GrantEnd
	Of      JobID  // under which the host serves them
	Back    string // it was returned, and why: it has not run, or counts as if it had not

	Refs []ValueRefs // to what its outputs refer: that stays at the host until GrantEnd
}

// GrantEnd ends grants: what runs of them ends, and what they made is freed.
type GrantEnd struct {
	Grants []uint64 // the owner's numbers
}

// GrantRecall asks for tasks back that have not begun. For each the host reports that it is back, or has begun.
type GrantRecall struct {
	Grants []uint64 // the owner's numbers
}

// Type returns TypeGrant.
func (*Grant) Type() Type { return TypeGrant }

// Type returns TypeGrantReport.
func (*GrantReport) Type() Type { return TypeGrantReport }

// Type returns TypeGrantEnd.
func (*GrantEnd) Type() Type { return TypeGrantEnd }

// Type returns TypeGrantRecall.
func (*GrantRecall) Type() Type { return TypeGrantRecall }

func (m *Grant) code(c *Coder) {
	c.Struct(12, func(c *Coder) {
		c.Struct(2, func(c *Coder) {
			c.ID((*[16]byte)(&m.Root.Job))
			Uint(c, &m.Root.Index)
		})
		Uint(c, &m.JobIncarnation)
		String(c, &m.Group)
		m.Kind.code(c)
		c.Bytes(&m.Environment)
		String(c, &m.Dir)
		Int(c, &m.Priority)
		Uint(c, &m.Weight)
		String(c, &m.Tenant)
		Uint(c, &m.Depth)
		Slice(c, &m.Registry, func(c *Coder, f *FuncSig) { f.code(c) })
		Slice(c, &m.Tasks, func(c *Coder, t *GrantTask) { t.code(c) })
	})
}

func (t *GrantTask) code(c *Coder) {
	c.Struct(5, func(c *Coder) {
		Uint(c, &t.Grant)
		String(c, &t.Name)
		c.Bytes(&t.With)
		Slice(c, &t.Inputs, func(c *Coder, in *GrantInput) {
			c.Struct(3, func(c *Coder) {
				Uint(c, &in.Port)
				in.Data.code(c)
				c.Struct(2, func(c *Coder) {
					c.ID((*[16]byte)(&in.Of.Job))
					in.Of.DatasetRef.code(c)
				})
			})
		})
		Slice(c, &t.Refs, func(c *Coder, r *ValueRefs) { r.code(c) })
	})
}

func (r *ValueRefs) code(c *Coder) {
	c.Struct(2, func(c *Coder) {
		Uint(c, &r.Place)
		Slice(c, &r.Refs, func(c *Coder, r *AgentRef) {
			c.Struct(2, func(c *Coder) {
				c.Bool(&r.Yours)
				c.Struct(2, func(c *Coder) {
					c.ID((*[16]byte)(&r.Of.Job))
					r.Of.DatasetRef.code(c)
				})
			})
		})
	})
}

func (m *GrantReport) code(c *Coder) {
	c.Struct(1, func(c *Coder) {
		Slice(c, &m.Items, func(c *Coder, it *GrantItem) {
			c.Struct(9, func(c *Coder) {
				Uint(c, &it.Grant)
				Pointer(c, &it.Event, func(c *Coder, e *Event) { e.code(c) })
				Uint(c, &it.Stream)
				c.Bytes(&it.Text)
				c.Bool(&it.Over)
				Slice(c, &it.Outputs, func(c *Coder, d *Desc) { d.code(c) })
				c.ID((*[16]byte)(&it.Of))
				String(c, &it.Back)
				Slice(c, &it.Refs, func(c *Coder, r *ValueRefs) { r.code(c) })
			})
		})
	})
}

func (m *GrantEnd) code(c *Coder) {
	c.Struct(1, func(c *Coder) { Slice(c, &m.Grants, Uint[uint64]) })
}

func (m *GrantRecall) code(c *Coder) {
	c.Struct(1, func(c *Coder) { Slice(c, &m.Grants, Uint[uint64]) })
}
