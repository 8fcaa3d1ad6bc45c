// Package foreground runs one task in an executor of its own, with the streams of
// its caller: what an agent does for a task, without an agent.
//
//	Task ──▶ Do ──starts──▶ program ◀──link──▶ Do: Welcome, Segment, Kind, Dispatch
//	              files in Folder: inputs, outputs         Lease, Log, Report
//
// The executor is the one that an agent would start, and gets the same messages; it
// may run under a debugger, which is a program that starts it. Prints of a task go
// to Stdout and Stderr as they come. Outputs lie in Folder until the caller removes it.
//
// A task may call when Task.Answers says what its calls are answered (calls.go).
//
// Invariants:
//   - Do returns when the executor's process has ended, and not before.
//   - When this process ends, the link breaks and the executor ends with it.
//   - No time-out waits for the executor's Hello, because a debugger may hold the process;
//     only the end of the process ends the wait.
package foreground
