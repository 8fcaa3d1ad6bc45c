// Package report shows what a job did: pictures, tables and traces made of the
// rows that the controller answers with. It asks no process and writes no file.
//
//	rows of tasks ─┐                ┌─▶ Trace: events for Perfetto and chrome://tracing
//	graph ─────────┼─▶ Run ─────────┼─▶ Path: what the end waited for, step by step
//	rows of plan ──┘   one time     └─▶ Page: one HTML file that refers to nothing outside
//	                   for all hosts
//	bars ─▶ Chart ─▶ SVG            graph ─▶ DOT, Mermaid, SVG
//
// Invariants:
//   - Equal input gives equal output, byte for byte.
//   - Bars of one lane never lie on each other.
//   - A picture of a million tasks is as large as the pixels need, not as the tasks.
//   - A consumer never starts before its producer has: see align.
package report
