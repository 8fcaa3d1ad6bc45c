// Command plans compares plans of recorded workflows with those of simple rules,
// on several clusters.
//
//	recording ─▶ wfformat ─▶ job ─┬─▶ planner.Best ──┐
//	                              └─▶ baselines ─────┴─▶ judge: makespan ─▶ over the lower bound
//
// The judge and the baselines share no code with the planner: a mistake in its
// simulation would not make its plans look better. All are judged alike: a host for
// each task and an order of turns are played with bandwidth that transfers share.
//
// Further measurements, by flag:
//
//	-proof    how far plans can be from the best that there is
//	-execute  recordings run for real; with -network on hosts in network namespaces
//	-replay   a prediction for one cluster from a run on another, and the run there
//	-ablate   the planner without some of its parts
//	-spill    jobs that need more memory than there is
//	-times    the time that planning takes
//
//	go run ./benchmarks/plans $CASCADE_TEST_DATA/wfinstances/*.json
package main
