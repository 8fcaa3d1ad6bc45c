package core

// LossCause says how the link of an agent ended.
type LossCause uint8

// Causes of a loss.
const (
	// LossSilent: nothing is known of the process, which may come back with all that it has. It
	// is waited for.
	LossSilent LossCause = iota
	// LossClosed: the process has ended, and no other has come in its place: its connection was
	// closed, and a new one to it is refused. Nothing is waited for.
	LossClosed
	// LossRestarted: another process of this name is there, and says at once what it has.
	LossRestarted
)

func (l LossCause) String() string {
	return [...]string{LossSilent: "silent", LossClosed: "connection closed", LossRestarted: "process restarted"}[l]
}
