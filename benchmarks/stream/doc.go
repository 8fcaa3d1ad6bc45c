//go:build linux

// Command stream runs very many tasks that do nothing, as job after job, and
// records what memory and disk the control store takes meanwhile: figure 10b of
// the Ray paper (Moritz et al., OSDI 2018), in which memory is bounded because
// lineage goes to disk. Here ended jobs also expire, so that the disk is bounded too.
//
//	jobs, some at a time ─▶ a local cluster as `cascade run` has it ─▶ every second a line of the CSV
//	                                                                  at the end, or alone, the plot
//
//	go run ./benchmarks/stream -tasks 50000000 -csv stream.csv -plot stream.svg
//	go run ./benchmarks/stream -draw stream.csv -plot stream.svg
//
// The memory that is the store's own (memtables, caches, indices, what a compaction
// has in hand) is a column and a line of its own, and a run in which it was more than
// -gcs-memory fails.
//
// Every task is named, has its own attempt and its durable end, as in package perf;
// the rows of the last job, which has not expired, are counted.
package main
