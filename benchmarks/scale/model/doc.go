// Package model predicts how many tasks a second a cluster of many hosts ends. It
// runs the real cores of controller and agents under virtual time, and charges
// each message and each task the processor time that they were measured to cost.
//
//	                 ┌── controller/core: one server ◀── link of each agent: decoding, beside it
//	client ─ jobs ──▶│        │ Store
//	                 │   shards of the store: a server each, a sync for each group
//	                 └── agent/core ×N: one server each ── executors ×N×slots: one task at a time
//
// A server works off its inbox in turns, first come first served; a turn needs a
// core of the server's host for as long as what is in it costs. Links deliver in
// order, after a delay and the time that their bytes take. The model leaves out
// memory, contention for bandwidth, faults, and that a host's operating system
// shares its cores in slices. An agent is one server, though the real one reads
// its links beside it: the rate of a host of many cores is predicted too low.
//
// Equal configurations give equal results, but for Costs that are measured anew
// (Meter).
package model
