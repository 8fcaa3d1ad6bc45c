// Package command runs one program as a task does: in a session of its own, with
// its output captured, and with nothing of it left when Run returns.
//
//	Start ──▶ running ──exit──▶ what it left gets SIGKILL ──▶ output read to its end ──▶ Result
//	             │ context ends
//	             └─▶ SIGTERM to the group ─grace─▶ SIGKILL to the group ──▶ (as above)
//
// A program leaves its process group, and processes that have left the group: daemons,
// background jobs of a shell with job control. This process is a child subreaper (prctl(2)),
// so orphans of the program become its children and are found. Children that this process
// had before the program started are left alone.
package command
