//go:build linux

// Command transfer measures how datasets move between hosts, beside iperf3 in the
// same namespaces in the same run. It needs root, for package netlab, and iperf3.
//
//	this process ─ makes hosts (internal/testing/netlab), starts itself on each ─▶ worker: agent/transfer, shared memory
//	             ─ one line of JSON a command ─────────────────────────▶ offer, pull, beat ...
//	             ─ iperf3 between the same hosts, each round anew
//
//	go run ./benchmarks/transfer                 # all of it: some minutes
//	go run ./benchmarks/transfer -only unshaped -rounds 3
//	go run ./benchmarks/transfer -only delayed -connections 1,4 -delays 0s,5ms,20ms
//	go run ./benchmarks/transfer -only agents,heartbeat     # memory of whole agents; round trips beside transfers
//
// Each figure is the median of the rounds, within which the variants take turns, so
// that what else the machine does hits all of them. CPU time is that of both ends.
// iperf3 reads into one small buffer that stays in the cache; a transfer writes all of
// its bytes to memory and has checksums made of them, unless they are left out.
package main
