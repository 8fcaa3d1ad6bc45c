package comms

// Messages by which an agent leaves a cluster without losing work.

// Drain has an agent leave: its pending tasks go to others, the datasets that only
// it has are moved, and it ends.
type Drain struct {
	Req    uint64 // names the request in the Reply
	Agent  string // its name
	Grace  int64  // nanoseconds for running tasks to end; 0 means the agent's own setting
	Reason string // for people
}

// DrainStatus lists the tasks that a draining agent has begun: all of its other tasks
// are for others. It is repeated when one of these will not end there after all.
type DrainStatus struct {
	Leaving bool        // the agent starts nothing any more
	Gone    bool        // and ends now: the tasks that it has begun have no end there
	Jobs    []JobInHand // those of which anything is in hand
}

// JobInHand is one job's part of DrainStatus.
type JobInHand struct {
	Job            JobID   // which job
	JobIncarnation uint64  // of the job, as in its Assign
	Held           []Range // tasks that an executor has, and that continue
}

// DrainAgent tells an agent to leave as after SIGTERM; or, Done, that nothing keeps it
// any more: others have its tasks and its datasets, or no agent could have them.
type DrainAgent struct {
	Done   bool   // end as soon as running tasks have ended
	Grace  int64  // nanoseconds for running tasks to end; 0 means the agent's own setting
	Reason string // for people
}

// Type returns TypeDrain.
func (*Drain) Type() Type { return TypeDrain }

// Type returns TypeDrainStatus.
func (*DrainStatus) Type() Type { return TypeDrainStatus }

// Type returns TypeDrainAgent.
func (*DrainAgent) Type() Type { return TypeDrainAgent }

func (m *Drain) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		Uint(c, &m.Req)
		String(c, &m.Agent)
		Int(c, &m.Grace)
		String(c, &m.Reason)
	})
}

func (m *DrainStatus) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		c.Bool(&m.Leaving)
		c.Bool(&m.Gone)
		Slice(c, &m.Jobs, func(c *Coder, j *JobInHand) {
			c.Struct(3, func(c *Coder) {
				c.ID((*[16]byte)(&j.Job))
				Uint(c, &j.JobIncarnation)
				Slice(c, &j.Held, func(c *Coder, r *Range) { r.code(c) })
			})
		})
	})
}

func (m *DrainAgent) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		c.Bool(&m.Done)
		Int(c, &m.Grace)
		String(c, &m.Reason)
	})
}
