// Package transfer moves datasets between agents, from shared memory to shared
// memory, on links of their own.
//
//	agent A                                              agent B
//	Offer(copy, mapping)                                 Pull(copy, region, sources, done)
//	     │               ◀── Want ─────────────────────       │
//	  core: serve it, or name an agent that can               │
//	     │               ─── Serve ────────────────────▶   core: which bytes from whom
//	     │               ◀── Pull, Pull, Pull ─────────       │
//	  write(mapping)     ─── Piece + body ─────────────▶   read(region), checksum
//	     │               ◀── Leave ────────────────────   done(Ended)
//
// Package core decides; this package carries out.
package transfer
