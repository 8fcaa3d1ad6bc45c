// Package memnet is a network in memory, for deterministic tests and for the
// simulator. It starts no goroutine and reads no clock: the caller brings the
// virtual time, and a seed decides every delay, break and reconnect, so that
// equal seeds and equal calls give equal deliveries.
//
//	Send(now) ─▶ encode ─▶ outbox ─▶ in flight, delayed ─▶ inbox ─▶ decode ─▶ Next(until)
//	                         ▲  acknowledged, replayed     │
//	                         └─────────────────────────────┘
//
// Its links keep the contract of package comms, because they run on the same
// sequences and the same envelope: in order, each message once for a pair of
// incarnations, queues bounded with credit, Up that says whether the link was
// resumed, Down that says whether it is final. Messages on different links
// overtake each other; on one link never. Every message passes through the
// encoder and the decoder that the caller hands in.
//
// Besides breaks there is silence: Mute keeps what one of two nodes sends from
// arriving at the other, as when a network carries one way only.
//
// What it leaves out: bytes are never corrupted, and a handshake takes one step.
package memnet
