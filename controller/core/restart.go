package core

// RestartReason is why tasks restart. Its names are values of a metric's label.
type RestartReason uint8

// The reasons, at most one a decision: the first that applies, and of those that the
// controller finds by itself the first of this order.
const (
	RestartLost      RestartReason = iota // they ran on a lost agent, or their outputs are lost and needed
	RestartRequested                      // a client asked for it
	RestartGang                           // a member of their gang failed or was lost
	RestartMemory                         // they need more memory than their agent has
	RestartUpstream                       // the failure that ended or skipped them is revoked
	RestartInput                          // an input was recomputed and differs
)

// RestartReasons is how many there are.
const RestartReasons = int(RestartInput) + 1

func (r RestartReason) String() string {
	return [RestartReasons]string{"lost", "requested", "gang", "memory", "upstream", "input"}[r]
}
