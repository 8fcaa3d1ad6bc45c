package comms

// Messages by which work goes from agents that have much of it to agents that have none.

// LoadSubscribe has an agent say how much work waits there, whenever that changes much.
type LoadSubscribe struct {
	Every int64 // nanoseconds that a change must last before it is said, and at least between two Backlogs
}

// LoadReport says what waits at an agent to be begun, and what is free there.
type LoadReport struct {
	Free int64     // thousandths of cores that nothing uses; 0 while anything waits, or is being fetched
	Busy float64   // seconds of cores that what executors have is predicted to take still
	Jobs []JobLoad // those of which ready tasks wait that could run elsewhere, the largest first
}

// JobLoad is one job's part of LoadReport.
type JobLoad struct {
	Job            JobID   // which job
	JobIncarnation uint64  // of the job, as in its Assign
	Epoch          uint64  // of the last Assign that counted
	Tasks          uint64  // that are ready, and that no executor has
	Seconds        float64 // of cores, that they are predicted to take together; 0 unknown
}

// StealRequest has an agent set ready tasks aside so that another can have them: those
// that would begin last. It starts none of them until an Assign, or a StealRequest without
// Share, says whose they are. It answers with StealReply.
type StealRequest struct {
	Job            JobID     // which job
	JobIncarnation uint64    // of the job: a StealRequest of another life is ignored
	Epoch          uint64    // that the agent must be at
	Share          float64   // of the work that waits; 0: what was set aside is the agent's own again, and nothing is answered
	Least          float64   // seconds: what is predicted to begin here sooner stays
	Bandwidth      float64   // bytes a second to the other; what takes longer to send than it waits here stays
	Total          Resources // what tasks may occupy there together: what does not fit stays
	Platform       string    // of the other: what has no binary for it stays; empty: unknown
}

// StealReply says which tasks were set aside. After a Snapshot it is said again.
type StealReply struct {
	Job            JobID   // which job
	JobIncarnation uint64  // of the job, as in its Assign
	Epoch          uint64  // of the last Assign that counted
	Tasks          []Range // sorted; none: nothing could be given
}

// Type returns TypeLoadSubscribe.
func (*LoadSubscribe) Type() Type { return TypeLoadSubscribe }

// Type returns TypeLoadReport.
func (*LoadReport) Type() Type { return TypeLoadReport }

// Type returns TypeStealRequest.
func (*StealRequest) Type() Type { return TypeStealRequest }

// Type returns TypeStealReply.
func (*StealReply) Type() Type { return TypeStealReply }

func (m *LoadSubscribe) code(c *Coder) {
	c.Struct(1, func(c *Coder) { Int(c, &m.Every) })
}

func (m *LoadReport) code(c *Coder) {
	c.Struct(3, func(c *Coder) {
		Int(c, &m.Free)
		c.Float(&m.Busy)
		Slice(c, &m.Jobs, func(c *Coder, j *JobLoad) {
			c.Struct(5, func(c *Coder) {
				c.ID((*[16]byte)(&j.Job))
				Uint(c, &j.JobIncarnation)
				Uint(c, &j.Epoch)
				Uint(c, &j.Tasks)
				c.Float(&j.Seconds)
			})
		})
	})
}

func (m *StealRequest) code(c *Coder) {
	c.Struct(8, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.JobIncarnation)
		Uint(c, &m.Epoch)
		c.Float(&m.Share)
		c.Float(&m.Least)
		c.Float(&m.Bandwidth)
		m.Total.code(c)
		String(c, &m.Platform)
	})
}

func (m *StealReply) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		c.ID((*[16]byte)(&m.Job))
		Uint(c, &m.JobIncarnation)
		Uint(c, &m.Epoch)
		Slice(c, &m.Tasks, func(c *Coder, r *Range) { r.code(c) })
	})
}
