// Package transfer moves datasets between agents, from shared memory to shared
// memory, on links of their own, so that no other message waits behind them.
//
//	agent A                                                   agent B
//	Offer(copy, mapping)                                      Pull(copy, region, sources, done)
//	     │                 ◀── Want, with a first Pull ───        │
//	  core: serve it, or name an agent that does                  │
//	     │                 ─── Serve ────────────────────▶     core: which bytes from whom
//	  reader of the link   ◀── Pull, Pull, Pull ──────────        │
//	     │ checksum                                               │
//	  writer of the link   ─── Piece, write(mapping) ────▶     reader of the link: read(region)
//	     │ Sent: the bytes are let go                             │ beside it: checksum
//	     │                 ◀── Leave ─────────────────────     done(Ended); B serves the copy, too
//
// Package core decides; this package carries out. Bytes are never copied in a process:
// the kernel takes them from the mapping and puts them into the region.
//
// Invariants:
//   - No method but Close waits for a peer, and none for bytes; callbacks have
//     goroutines of their own. Callbacks alone tell a caller when it may use memory
//     again: memory counts its readers and writers.
//   - A region is written only at pieces that were asked for on that very link, and
//     only while its Pull lives. Other bodies go to a buffer that is not read.
//   - A Pull ends well only when the checksum of every piece is right. On plain links
//     it comes from the maker of the dataset, and agents in between pass it on; on
//     TLS it is that of TLS, from hop to hop.
//   - The core is stepped with Exchange.mu held. Messages are sent then, too, which
//     keeps their order; pieces, checksums and ends of links come after.
//     Exchange.mu and conn.mu are never held together.
package transfer
