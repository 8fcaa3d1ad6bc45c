package executor

import (
	"github.com/cascade-run/cascade/comms"
)

// Conn carries messages to the agent. What the agent sends comes in through
// Executor.Handle, and the end of the connection through Executor.Broken.
type Conn interface {
	// Send hands over one message. It waits while the connection is full, and
	// fails when it is closed. Slices in m may be changed after it returns.
	Send(m comms.Message) error
}
