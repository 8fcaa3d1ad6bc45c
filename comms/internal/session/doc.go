// Package session is the pure half of a link: the envelope that goes in front
// of every message, and the two sequences that make delivery ordered and
// single. It holds no socket, clock, lock or goroutine. The real link
// (package comms) and the in-memory network (package memnet) both drive it, so
// that what a simulation proves of one holds for the other.
//
//	Outbox.Push ─▶ [ unacknowledged | unsent ] ─▶ Outbox.Take ─▶ wire
//	                 ▲ Ack(n) drops from the front
//	                 └ Rewind(n) after a reconnect: all above n is unsent again
//	wire ─▶ Inbox.Check(seq): next in line, a copy to drop, or a gap (an error)
//
// Invariants:
//   - Sequence numbers start at 1 for each pair of incarnations and grow by one.
//   - The outbox never holds more than its bound, except for one oversized message alone.
//   - A message leaves a replaying outbox only by the peer's acknowledgement or by Reset.
package session
