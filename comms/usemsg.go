package comms

// Use tells how much of its host is in use, by whatever runs there: an agent sends it every UseEvery seconds while
// it has a link. It is for people alone: nothing is planned by it, and nothing of it is stored.
type Use struct {
	Busy   float64 // processors that worked, on average since the Use before
	Cores  uint64  // processors that the host has; an agent may be given fewer
	Memory uint64  // bytes of memory that cannot be had without taking them from something
	Total  uint64  // bytes of memory that the host has
}

// UseEvery is the time between two Use of an agent, in seconds.
const UseEvery = 10

// Type returns TypeUse.
func (*Use) Type() Type { return TypeUse }

func (m *Use) code(c *Coder) {
	c.Struct(4, func(c *Coder) {
		c.Float(&m.Busy)
		Uint(c, &m.Cores)
		Uint(c, &m.Memory)
		Uint(c, &m.Total)
	})
}
