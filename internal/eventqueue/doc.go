// Package eventqueue is the future of a discrete-event simulation: steps, each with the
// virtual time at which it is due. The earliest comes first; of those of one time
// the one that was added first, so that a run with one seed is the same each time.
//
// It is pure and has no clock: who takes a step sets its own time to that at which
// the step was due. It is for one goroutine.
package eventqueue
