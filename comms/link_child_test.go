package comms

// linkChild is the other process of tests and benchmarks that need one.
func linkChild() int { return 0 }
