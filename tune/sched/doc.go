// Package sched has the schedulers of searches: successive halving without barriers (ASHA), HyperBand, the median
// rule and population based training (PBT). Each is a core.Scheduler: a value that the core alone changes.
//
// A scheduler's exported fields are its rules, and are what the record of an experiment keeps (see Spec). Its state is
// rebuilt from the events.
package sched
