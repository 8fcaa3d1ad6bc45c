// Package command runs one program as a task does: in a session of its own, with
// its output captured, and with nothing of it left when Run returns.
//
//	Start ──▶ running ──exit──▶ what it left gets SIGKILL ──▶ output read to its end ──▶ Result
//	             │ context ends
//	             └─▶ SIGTERM to the group ─grace─▶ SIGKILL to the group ──▶ (as above)
//
// What it left is its process group, and what left the group as well (a daemon, a
// background job of a shell with job control): this process is a child subreaper
// (prctl(2)), so that orphans of a program become its children. Children that it
// had before the program started are let be.
package command
