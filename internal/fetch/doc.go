// Package fetch gets the file at an http address, for all of Cascade that does.
//
//	try 1 ── GET ──▶ status, length ──▶ take reads the body ──▶ length and hash checked ──▶ Got
//	          │            │                   │
//	          │            └── refused, other bytes, too many: an error at once
//	          └── no connection, busy, cut off, silent: after a pause, try 2, 3, 4
//
// Invariants:
//   - What came is what was asked for, whole: take has returned, and the length and hash
//     that are known beforehand are those of what it read.
//   - No more is read than is taken at most, nor than the size that is known beforehand: of
//     what goes beyond, at most one buffer, which take does not see.
//   - Silence is the server's: the clock runs while an answer or a byte is awaited, and
//     stands still while take does something else, such as waiting for memory.
//   - A slow server that goes on sending may take long, up to one limit for all tries.
//   - An error that waiting cannot change is not retried.
//   - Errors and log lines have the address without user, password and query. When a server
//     repeats one of them, or a value of the query, as it is or encoded, it is removed
//     too, if it has four bytes or more.
//   - A redirect sends nothing of the address before; user and password go to the same
//     host only.
//   - What was asked for over TLS comes over TLS.
package fetch
