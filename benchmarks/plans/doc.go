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
// It also proves how far plans can be from the best that there is (-proof), runs recordings for real (-execute; with -network on hosts in network namespaces), predicts from what ran on one cluster
// what it takes on another and runs it there (-replay), takes parts of the planner away
// (-ablate), runs jobs that need more memory than there is (-spill), and measures what
// planning takes (-times).
//
//	go run ./benchmarks/plans $CASCADE_TEST_DATA/wfinstances/*.json
package main
