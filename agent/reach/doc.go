// Package reach leads direct links between executors from one host to another: those of callers of actors
// (docs/protocol/actors.md).
//
//	caller ◀─ ipc ─▶ Reach of its agent ◀─ Carried, on a link of their own ─▶ Reach of the other agent ◀─ ipc ─▶ process
//
// The agents carry bytes. Their meaning, and repeats after a break, are between the caller and the process.
//
//	Open(agent, address) ─── Reach ──▶ dials the process
//	     ◀── a door ◀─────── Reached ──┘
//	the caller dials the door: it is for one connection, and is closed when none comes
//
// Invariants:
//   - Only sockets below Config.Inside can be reached from other hosts, and only by agents.
//   - A side that does not read holds up its own connection alone: each has a link, whose queue is bounded.
//   - The end of either connection ends the link, and that the other connection; what was sent before arrives.
package reach
