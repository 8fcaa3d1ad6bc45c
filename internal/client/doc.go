// Package client is the transport of a client of a cluster:
//
//	cascade.Client ──Submit, Ask, Start──▶ Conn ──peer: requests, outbox──▶ controller
//	                 Fetch                  └─────peer─────────────────────▶ agents that hold datasets
//
// A peer keeps a link and the requests that are open on it: when the link breaks it connects
// again, and asks a new incarnation of the other side again. What a graph rests on goes
// ahead of its submit: packages of environments, this program, files of inputs.
package client
