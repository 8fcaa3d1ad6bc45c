// Package eventqueue holds the future of a discrete-event simulation: steps, each with the
// virtual time at which it is due. The earliest comes first. Of steps with one time the one
// that was added first comes first, so that a run with one seed is the same each time.
//
// It is pure and has no clock: the caller that takes a step sets its own time to the
// time at which the step was due. It is for one goroutine.
package eventqueue
