package core

// Stats are sums of the agent's state, for its metrics.
type Stats struct {
	Jobs, Runs, Executors, Datasets int   // of jobs those whose work here has not ended
	Held, Capacity, Spilled         int64 // bytes of shared memory, and of disk
	Unsaid                          int   // events that the controller has not said are durable
}

// Stats returns the present sums.
func (c *Core) Stats() Stats {
	s := c.led.Stats()
	return Stats{Jobs: len(c.jobs), Runs: len(c.runs), Executors: len(c.execs), Datasets: s.Datasets,
		Held: s.Held, Capacity: s.Capacity, Spilled: s.Spilled, Unsaid: c.ctl.kept}
}
