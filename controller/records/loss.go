package records

import (
	"cmp"

	"github.com/cascade-run/cascade/comms"
)

// LossCause says how the link of an agent ended. It is stored with a Loss: the numbers stay.
type LossCause uint8

// Causes of a loss.
const (
	// LossSilent: nothing was heard of the agent for too long. It is waited for: the process may come
	// back with all that it has.
	LossSilent LossCause = iota
	// LossClosed: its connection was closed, and nothing more is known. It is waited for.
	LossClosed
	// LossFailed: the link failed in another way. It is waited for.
	LossFailed
	// LossEnded: the process has ended, and no other has come in its place: its connection was
	// closed, and a new one to it is refused. Nothing is waited for.
	LossEnded
)

func (l LossCause) String() string {
	return [...]string{LossSilent: "nothing heard", LossClosed: "connection closed", LossFailed: "connection failed", LossEnded: "process ended"}[l]
}

// Loss is that the link of an agent broke which had tasks of a job. Times are wall-clock
// nanoseconds.
type Loss struct {
	At            int64
	Agent         string
	Why           string // how the link broke, in words, where Cause does not say all
	Grace         int64  // nanoseconds for which its tasks wait for it
	Runs, Waiting []comms.Range
	Back          int64 // when it was there again; 0: it has not come
	Cause         LossCause
	Restart       int64  // when its tasks restarted or moved; 0: they have not
	Others        uint64 // tasks besides that restarted then: their outputs were lost, or their gang
}

// Text says how the link broke.
func (l *Loss) Text() string { return cmp.Or(l.Why, l.Cause.String()) }
