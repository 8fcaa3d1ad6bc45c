package cascade

import "github.com/cascade-run/cascade/executor"

// Main makes this process an executor when an agent started it as one, and then
// never returns; otherwise it returns at once. A program that uses Local, or that
// is an executor for an environment, calls it first thing in main.
func Main() { executor.Main() }

// TestMain is for the TestMain of packages whose tests run tasks:
//
//	func TestMain(m *testing.M) { cascade.TestMain(m) }
func TestMain(m interface{ Run() int }) { executor.TestMain(m) }
