package core

import "time"

// Core is the agent's state. It is used from one goroutine.
type Core struct {
	cfg Config
	out []Action
}

// New returns an agent without controller, jobs or executors. The first Step,
// best with Idle, starts the warm executors.
func New(cfg Config) *Core { return &Core{cfg: cfg} }

// Step takes one event and returns what must be done, in order. The slice and
// the messages in it belong to the caller; now must not go backwards.
func (c *Core) Step(now time.Time, ev Event) []Action {
	out := c.out
	c.out = nil
	return out
}
