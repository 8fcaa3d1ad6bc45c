// Package runtimeenv makes what tasks need installed, once, and keeps it.
//
//	dag.Environment ─▶ plugins that apply, by priority
//	     each: Validate ─▶ Key ─▶ in the cache? ──yes──▶ Activate ─▶ Activation: what to start, with which variables
//	                                 └─no─▶ lock key ─▶ Create in a temporary folder ─▶ rename ─┘
//
// Built in: "go", which builds a Go package's functions into an executor, and
// "vars", environment variables. An environment that neither names a package
// nor anything else is served by the executor that comes with the agent.
//
// Invariants:
//   - A folder under its key is complete: it was renamed there after Create succeeded.
//   - One build at a time per key, also between processes: a lock file guards it.
//   - Nothing is written outside the cache folder and the Go toolchain's own caches.
//   - What a Cache that is not closed has prepared is removed by nobody: it holds a
//     shared lock on KEY.use, and Prune needs it alone. Its time is the last use.
//   - Equal content gives an equal key, on any path.
package runtimeenv
