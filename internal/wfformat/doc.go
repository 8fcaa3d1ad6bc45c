// Package wfformat reads and writes recorded workflows in WfFormat, the JSON form of the
// WfCommons project (https://wfcommons.org/format), and makes of each a job that
// can run here and a profile of what its tasks took.
//
//	file, 1.4 ─┐                               ┌─▶ dag.Graph: sleep and truncate in place of the programs
//	file, 1.5 ─┼─▶ trace: tasks, files, edges ─┤
//	file, 1.6 ─┘                               └─▶ profiles.File: seconds, bytes of each output, memory
//	   ▲
//	   └──── Write ◀── Recording ◀── Record: what the tasks of a job here did
//
// Invariants: a trace has no cycle, whatever the file says; every parent is waited
// for, with or without a file between; equal files give equal jobs, byte for byte.
// Questions that a recording leaves open are decided here and listed in Import.Notes; what
// contradicts itself is an error that names the place in the file.
package wfformat
