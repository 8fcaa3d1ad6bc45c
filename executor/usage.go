package executor

// cpuClock attributes the cpu time of this process to runs. Reading it is a
// system call, so it is read when runs have taken 50 us; those that are shorter
// get a share by their durations, at the rate of the reading before.
type cpuClock struct {
	mark  int64   // the last reading; 0 none since the runner waited
	wall  int64   // duration of runs since then
	given int64   // cpu time that they were given
	rate  float64 // cpu time in a unit of duration, at the last reading
}

const cpuEvery = 50_000 // nanoseconds

// begin is called before a run.
func (c *cpuClock) begin() {
	if c.mark == 0 {
		c.mark, c.wall, c.given = cpuTime(), 0, 0
	}
}

// spent returns the cpu time of a run that has just ended and took d nanoseconds.
func (c *cpuClock) spent(d int64) int64 {
	if c.wall += d; c.wall < cpuEvery {
		share := int64(float64(d) * c.rate)
		c.given += share
		return share
	}
	now := cpuTime()
	all, own := max(0, now-c.mark), max(0, now-c.mark-c.given)
	if d < c.wall/2 { // it is no more to blame for the rest than those before it
		own = int64(float64(all) * float64(d) / float64(c.wall))
	}
	c.rate = float64(all) / float64(c.wall)
	c.mark, c.wall, c.given = now, 0, 0
	return own
}
