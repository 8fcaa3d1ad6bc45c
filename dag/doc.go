// Package dag holds a job's graph as a value: its builder, its YAML form,
// validation, order and printing. It imports nothing of ours.
package dag
