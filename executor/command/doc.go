// Package command runs one program as a task does: in a session of its own, with
// its output captured, and with nothing of it left when Run returns.
//
//	Start ──▶ running ──exit──▶ leftovers of the group get SIGKILL ──▶ output read to its end ──▶ Result
//	             │ context ends
//	             └─▶ SIGTERM to the group ─grace─▶ SIGKILL to the group ──▶ (as above)
//
// A process that leaves the group as well (a daemon, a background job of a shell
// with job control) is not found here; the agent's reaper ends it together with
// the executor.
package command
