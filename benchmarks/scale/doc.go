//go:build linux

// Command scale tells how many tasks a second a cluster ends: measured on a few
// hosts of one machine, predicted for many of 32 cores.
//
//	measure ─ jobs on 1, 2 and 4 hosts (benchmarks/internal/hosts) ──▶ tasks a second; processor time of each process
//	fit     ─ the run on 1 host, against messages that the model counts ──▶ cost of a message, of a task
//	check   ─ the model of the other runs, which it was not fitted to ──▶ error
//	predict ─ the model of 1 to 1,000 hosts ──▶ table, plot
//
//	go run ./benchmarks/scale -plot docs/throughput.svg
//
// Each host has a job of its own, whose tasks do nothing, or wait. The hosts of one
// machine share its cores, and so do those of the model that is checked.
package main
