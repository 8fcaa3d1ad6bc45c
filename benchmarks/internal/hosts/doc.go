//go:build linux

// Package hosts gives benchmarks a cluster of many hosts on one machine: a
// controller and an agent for each host, as processes in network namespaces
// (internal/testing/netlab, root needed).
//
//	func main() {
//		cascade.Main()   // executors are this program, too
//		hosts.Main()     // and so are the daemons
//		...
//		c, err := hosts.Open(hosts.Config{Hosts: 2, Rate: 1e9})
//		defer c.Close()  // ends the daemons, agents first, and removes what they had
//		c.Client.Submit(...)
//	}
package hosts
