// Package cascade runs graphs of tasks.
//
// A job is a graph: tasks that are Go functions or commands,
// and the datasets that flow between them. Build one in Go or read it from YAML,
// then hand it to a cluster:
//
//	Local(ctx) or Dial(ctx, address)
//	     │
//	  Client.Submit(ctx, graph) ──▶ Job ──▶ Watch, Wait ──▶ Fetch, Result
//
// Local starts everything inside the calling process: a controller, an agent,
// and executors as child processes. Those are the same binary, started again, so
// a program that uses Local calls Main first:
//
//	func main() {
//		cascade.Main() // becomes an executor when started as one
//		...
//	}
//
// # Contexts
//
// A context bounds the call it is given to and nothing more: when the context of
// Submit, Wait or Watch ends, the call returns and the job goes on. Job.Cancel
// ends a job; Cluster.Close ends what Local started. The context of a task's
// function ends when the task is cancelled or its time-out passes.
package cascade
