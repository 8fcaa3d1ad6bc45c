// Package core decides how datasets move between agents: which bytes are asked of
// which agent, and who serves whom. It is a pure state machine like agent/core;
// package transfer drives it.
//
//	Offer, Pull, More, Withdraw ───┐                     ┌─▶ Dial, Hangup
//	links up and down, messages ───┼─▶ Step(now, event) ─┼─▶ Send, SendPiece
//	pieces that arrived, ticks ────┘                     └─▶ Done
//
// # Receiving (pull.go, pieces.go)
//
// A receiver asks for a copy in pieces, from the first to the last, with a window of them
// on each link. An origin is an agent that has the whole copy. One origin is the home of
// the pull: it serves, or names a receiver that does. The receiver asks other origins
// whether they have a place to spare. When a link, a source or a checksum fails, the pieces
// that were asked for there are missing again; sources that have room are asked for them.
// A piece that has arrived is never asked for again.
//
// # Serving (serve.go)
//
// An origin sends a copy to Fanout receivers. To each further one it names a receiver
// that joined before: so they form a tree, with Fanout 1 a chain. A receiver serves the
// pieces that it has while others still come: a Pull whose bytes are not there is
// answered when they are. A receiver whose own source fails comes back to the
// origin and says who failed; that one gets no new receivers until it joins again.
//
// # Measuring (meter.go)
//
// The pieces that come from one agent without a break are a flow. It is measured, and
// reported with the next Done: profiles learn from it how fast the way from that agent is.
//
// # Invariants, which tests check after each step
//
//   - The pieces that an agent owes us are those that were asked for on its links.
//   - A piece is missing, asked for on exactly one link, or here.
//   - A source that serves has a full window while pieces are missing.
//   - A pull that has not ended waits for a link, an answer, or pieces.
//   - An origin knows every edge of its tree, and places no receiver below one that
//     waits for it. A pull has one home at a time. So pulls never wait in a circle. The
//     exception are pulls that changed their home while links to it were half broken:
//     after Stall they ask an origin to be served whatever else it does.
//   - A number names one Want: an answer to one Want is never taken for that to another.
//   - Without a fault an origin sends a copy Fanout times at most, and each thing
//     that breaks adds at most one time.
//
// That a receiver serves while it receives, in pieces and on demand, is the pipelined
// broadcast of collective libraries. Only the origin names the next source: this keeps
// the tree free of circles without a protocol for trees.
package core
