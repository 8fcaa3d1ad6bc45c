// Package comms holds every message of Cascade, its codec, and the links that
// carry messages over ZeroMQ.
//
//	client ──Submit, Watch, Query──▶ controller ──Assign, Committed──▶ agent ──Dispatch──▶ executor
//	       ◀──Accepted, Progress───             ◀──Events, Snapshot───       ◀──Report────
//	client ──Fetch──▶ agent
//
// Messages are msgpack arrays; each lists its fields once, in its code method,
// for both directions. Receivers skip trailing fields that they do not know.
package comms
