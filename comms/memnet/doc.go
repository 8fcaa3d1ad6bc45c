// Package memnet is a network in memory, for deterministic tests and for the
// simulator. It starts no goroutine and reads no clock: the caller brings the
// virtual time, and a seed decides every delay, break and reconnect, so that
// equal seeds and equal calls give equal deliveries.
//
//	Send(now) ─▶ encode ─▶ outbox ─▶ in flight, delayed ─▶ inbox ─▶ decode ─▶ Next(until)
//	                         ▲  acknowledged, replayed     │
//	                         └─────────────────────────────┘
//
// Its links keep the contract of package comms, because they use the same sequences and
// the same envelope:
//   - Messages of one link arrive in order, each once for a pair of incarnations. Messages
//     of different links may overtake each other.
//   - Queues are bounded, with credit.
//   - Up says whether the link was resumed, Down whether it is final.
//
// Every message passes through the encoder and the decoder that the caller passes in.
//
// Besides breaks there is silence: Mute keeps what one of two nodes sends from
// arriving at the other, as when a network carries one way only.
//
// What it leaves out: bytes are never corrupted, and a handshake takes one step.
package memnet
