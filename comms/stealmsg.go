package comms

// Messages of work stealing: work moves from loaded agents to idle ones.

// LoadSubscribe subscribes to an agent's load: the agent reports it whenever it changes much.
type LoadSubscribe struct {
	Every int64 // nanoseconds that a change must last before it is reported, and at least between two LoadReports
}

// LoadReport reports the work that waits at an agent, and its free cores.
type LoadReport struct {
	Free int64     // thousandths of cores that nothing uses; 0 while anything waits, or is being fetched
	Busy float64   // seconds of cores that the runs of executors are predicted to take still
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

// StealRequest has an agent set ready tasks aside so that another
// can have them, those that would begin last. It starts none of them until an Assign,
// or a StealRequest without Share, says whose they are. It answers with StealReply.
type StealRequest struct {
	Job            JobID     // which job
	JobIncarnation uint64    // of the job: a StealRequest of another incarnation is ignored
	Epoch          uint64    // that the agent must be at
	Share          float64   // of the waiting work; 0: tasks that were set aside are the agent's own again, and there is no answer
	Least          float64   // seconds: tasks that are predicted to begin here sooner stay
	Bandwidth      float64   // bytes a second to the other; tasks whose inputs take longer to send than they wait here stay
	Total          Resources // that tasks may occupy there together: tasks that do not fit stay
	Platform       string    // of the other: tasks without a binary for it stay; empty: unknown
}

// StealReply lists the tasks that were set aside. It is repeated after a Snapshot.
type StealReply struct {
	Job            JobID   // which job
	JobIncarnation uint64  // of the job, as in its Assign
	Epoch          uint64  // of the last Assign that counted
	Tasks          []Range // sorted; none: there was none to steal
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
