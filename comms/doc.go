// Package comms holds every message of Cascade, its codec, and the links that
// carry messages over ZeroMQ.
//
//	client ──Submit, Watch, Query──▶ controller ──Assign, Committed──▶ agent ──Dispatch──▶ executor
//	       ◀──Accepted, Progress───             ◀──Events, Snapshot───       ◀──Report────
//	client ──Fetch──▶ agent
//
// Messages are msgpack arrays; each lists its fields once, in its code method,
// for both directions. Receivers skip trailing fields that they do not know.
//
// There are two msgpack encoders. comms/internal/msgpack writes messages: it allocates
// nothing and accepts fields that newer senders add. github.com/vmihailenco/msgpack writes
// values of users, whose types are known at run time only: it uses reflection.
//
// # Files
//
//	messages       numbers and routes of all messages, Encode, Decode
//	codec          Coder, which writes and reads fields
//	records        records that several messages share: Desc, Resources, TaskError, Event
//	rows           rows that answer a Query
//	ids, attempt   names of jobs, tasks, datasets; numbers of attempts
//	permit         which role of a client may send which message
//
//	clientmsg      client with controller and agent; Reply, Blob, HaveReq, Have
//	membermsg      members, tokens, certificates, backups, profiles
//	blobmsg        requests for pieces of packages and inputs
//	agentmsg       controller with agent; so are drainmsg, stealmsg and gangmsg
//	peermsg        agent with agent; so are forwardmsg (calls) and transfermsg (datasets)
//	executormsg    agent with executor; so is dynamicmsg
//	actormsg       executor with executor; reachmsg carries that from host to host
//
//	blocks, steps, plans, many    lists of similar entries as columns
//	link, link_*, conn, conn_*    links and their transports; zmtp and guard: frames
//	secure, join, relay, pki      TLS, joining, the gateway for plain ZeroMQ
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
// Invariants:
//   - Send never blocks, and a queue never exceeds its bound.
//   - Messages of a link arrive in order; with replay each arrives once while both
//     incarnations live.
//   - All output passes through one writer, PONG included.
//   - No length from the wire is used before it is compared with a limit.
//   - An acknowledgement means received, never durable.
//   - The side that closes a link gets the last acknowledgement before the other side
//     hangs up.
//   - Link.mu guards a link's outbound state and is never held while a Handler runs.
//     Listener.mu may be held when Link.mu is taken, not the other way round.
package comms
