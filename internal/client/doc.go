// Package client carries the requests of a client to a cluster:
//
//	cascade.Client ──Submit, Ask, Start──▶ Conn ──peer: requests, outbox──▶ controller
//	                 Fetch                  └─────peer─────────────────────▶ agents that hold datasets
//
// A peer keeps a link and the requests that are open on it: when the link breaks it connects
// again, and repeats the requests to a new incarnation of the other side. The files of a graph go
// ahead of its submit: packages of environments, this program, inputs.
package client
