// Package local gives benchmarks a cluster in their own process: a controller and
// agents that talk through memory, with executors that are processes of their own.
//
//	func main() {
//		cascade.Main()   // executors are this program, too
//		c, err := local.Open(ctx, local.Config{Agents: 2, Cores: 1})
//		defer c.Close()  // ends the agents, then the controller, and removes what they had
//		c.Client.Submit(...)
//	}
package local
