package cascade

import "fmt"

// Durability says what an acknowledgement of the controller survives: that a job
// was accepted, that a task has finished, that the job is final. As a flag it is
// crash or power.
type Durability string

// The durabilities.
const (
	// Crash survives the end of every process, also by kill -9; the kernel writes
	// to disk later. It is the default of a local cluster.
	Crash Durability = "crash"
	// PowerLoss survives the loss of power too: each group of commits is synced to
	// disk before it is acknowledged. It is the default of cascade-controller.
	PowerLoss Durability = "power"
)

// String returns the word.
func (d Durability) String() string { return string(d) }

// Set takes the word; together with String and Type it makes a command-line flag.
func (d *Durability) Set(word string) error {
	switch v := Durability(word); v {
	case Crash, PowerLoss:
		*d = v
		return nil
	}
	return fmt.Errorf("durability %q: want crash (acknowledgements survive the end of every process) or power (also a power loss)", word)
}

// Type names the kind of flag.
func (*Durability) Type() string { return "crash|power" }
