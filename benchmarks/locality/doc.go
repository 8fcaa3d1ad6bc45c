//go:build linux

// Command locality measures what it is worth to run tasks where their data is. On
// two hosts of one machine (internal/testing/netlab, root needed), with links of a given
// bandwidth, each of many tasks reads a dataset of its own that lies on a host by
// chance.
//
//	this process ─ makes two hosts, starts itself on each ─▶ controller and agent; agent
//	             ─ a job for each size, twice ───────────▶  make[i] is bound to a host by chance
//	                                                        aware:   use[i] runs where the planner says
//	                                                        unaware: use[i] is bound to a host by chance
//	             ◀─ rows of tasks ─  a task waits from the end of its make to its start
//
//	go run ./benchmarks/locality -plot docs/locality.svg
//	go run ./benchmarks/locality -untold      the speed of the links is not configured
//
// The experiment is that of figure 8a of P. Moritz et al., Ray: A Distributed
// Framework for Emerging AI Applications (OSDI 2018). There a scheduler that knows
// nothing of objects is the comparison. Here a random host takes its place, by a resource
// that only one host has. The first run of each size is discarded: the planner learns the
// sizes from it, and the network's speed where that is not configured.
package main
