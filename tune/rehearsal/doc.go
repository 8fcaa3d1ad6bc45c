// Package rehearsal runs experiments without training: the core of a search with workers that are simulated, in virtual
// time. Tests run schedulers in it, and recorded curves show what another scheduler would have done with them.
//
// The package is pure: it has no clock, no goroutine and no random numbers.
package rehearsal
