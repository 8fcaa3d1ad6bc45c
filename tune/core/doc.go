// Package core decides what the trials of a search do: it is the runner of an experiment as a pure state machine.
//
// Events go in, actions come out (see Core.Step). The package has no clock, no files, no goroutines and no random
// numbers but those of named streams: the same events give the same actions, always. So the record of the events is
// all that an experiment needs to go on after its process was killed, scheduler and all.
//
// The driver writes an event and its actions to the record before it carries the actions out. A worker has a number
// for each placement of its trial, the attempt; what comes from an older attempt changes nothing.
package core
