// Package netlab makes several hosts of one machine, for tests and benchmarks of
// what crosses a network. A host is a network namespace and a control group:
//
//	host 1 (eth0) ── veth ──┐
//	host 2 (eth0) ── veth ──┼── bridge, in a namespace of its own
//	host 3 (eth0) ── veth ──┘
//
// Each link has the rate that Config says, in both directions, and packets that a host sends
// are delayed. A link can be cut and repaired, a host frozen, slowed and killed.
//
// The kernel delays packets, if it has netem. Where it has not, this process does, and the
// link is no veth but two TAP devices:
//
//	host 1 (eth0) ── TAP ── line: holds each frame for the delay ── TAP ── bridge
//
// Frames have up to 64 KiB on their way, as on a veth. A line is as fast as this process
// is: one that has little cpu bounds the rate before the link does, so measure the two
// apart (benchmarks/transfer has iperf3 beside each figure).
//
// The namespaces have no names and no way out: they end with the process that made
// them and with those that it started there, so that a crash leaves nothing. The
// control groups of a process that crashed are removed by the next Lab, which kills
// what is left in them, frozen or not. Files, shared memory and process numbers are the machine's:
// give each host folders of its own.
//
// A Lab needs root, and for a delay the kernel's netem or /dev/net/tun.
package netlab
