package comms

// The number of an attempt has two halves. The lower one counts the tries of a
// task, for people: how often it has begun. The upper one counts how often the
// controller has given the task out anew: to another agent or process, or to start over.
//
// Only the controller raises the upper half, and stores it before anybody is told;
// only the agent that has the task raises the lower one. So a number stands for one
// try and its outputs in the whole life of a job, also when an agent is lost that
// had tried again and told other agents of it, and not the controller. The greater
// number is the later attempt.
const (
	tryBits = 16
	// LastTry is a try that never runs: a task that comes to it has used up its
	// numbers. So does one that was given out that often.
	LastTry = 1<<tryBits - 1
)

// Try returns which try at its task an attempt is, from 1.
func Try(attempt uint32) uint32 { return attempt & LastTry }

// NextTry is the attempt after one, at the agent that has the task.
func NextTry(attempt uint32) uint32 {
	if Try(attempt) == LastTry {
		return attempt
	}
	return attempt + 1
}

// NextGrant is the first attempt of a task that the controller gives out anew; attempt
// is the last of which it knows, and begun tells whether that has begun: a task that
// moves before that is at the same try still.
func NextGrant(attempt uint32, begun bool) uint32 {
	if attempt>>tryBits == 1<<(32-tryBits)-1 {
		return attempt | LastTry
	}
	if begun {
		attempt = NextTry(attempt)
	}
	return (attempt>>tryBits+1)<<tryBits | Try(attempt)
}

// Following is the first attempt of an instance whose generator is at an attempt:
// the controller, which need not know of the instance, gave them out together.
func Following(attempt uint32) uint32 { return attempt>>tryBits<<tryBits | 1 }
