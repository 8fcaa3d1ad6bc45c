// Package comms holds every message of Cascade, its codec, and the links that
// carry messages over ZeroMQ.
//
//	client ──Submit, Watch, Query──▶ controller ──Assign, Committed──▶ agent ──Dispatch──▶ executor
//	       ◀──Accepted, Progress───             ◀──Events, Snapshot───       ◀──Report────
//	client ──Fetch──▶ agent
//
// Messages are msgpack arrays; each lists its fields once, in its code method,
// for both directions. Receivers skip trailing fields that they do not know.
// Messages are written by comms/internal/msgpack, which allocates nothing and takes what
// newer senders add, and documents and values of users, whose types are known at run
// time only, by github.com/vmihailenco/msgpack, which goes by reflection: neither can do
// the other's work.
//
// # Links
//
// A Link carries encoded messages to one peer, over memory, a Unix socket or
// TCP, always as the same ZMTP frames; docs/protocol/links.md binds the bytes. A Unix socket
// may bring two pipes, which carry them then (Config.Pipes).
//
//	Dial ──┐  greeting, READY (zmq4 behind guard)   ┌── Listen: one goroutine a handshake
//	       └▶ Hello ─▶ ◀─ Welcome ─▶ Handler.Up ◀───┘
//	Send, Queue ─▶ session.Outbox ─▶ fill ─▶ write without waiting ─▶ peer
//	                 ▲ acknowledged     └─ kernel full: the writer goroutine
//	Handler.Message ◀─ session.Inbox ◀─ frameReader ◀─ peer
//
// Invariants: Send never blocks and a queue never exceeds its bound; messages
// of a link arrive in order, with replay each once while both incarnations
// live; all output passes through one writer, PONG included; no length from
// the wire is trusted before it is compared with a limit; an acknowledgement
// means received, never durable; who closes a link gets the last one before the
// other end hangs up. Link.mu guards a link's outbound state and is
// never held while a Handler runs; Listener.mu may be held when Link.mu is
// taken, not the other way round.
package comms
