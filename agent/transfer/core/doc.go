// Package core decides how datasets move between agents: which bytes are asked of
// which agent, and who serves whom. It is a pure state machine like agent/core.
//
//	Offer, Pull, Cancel, Withdraw ─┐                     ┌─▶ Dial, Hangup
//	links up and down, messages ───┼─▶ Step(now, event) ─┼─▶ Send, SendPiece
//	pieces that arrived, ticks ────┘                     └─▶ Done
package core
