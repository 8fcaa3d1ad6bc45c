// Package memo finds which results of an earlier job hold for a new one. For every other task
// it names the first difference.
//
//	earlier job: graph, contents, how its tasks ended ─┐
//	                                                   ├─▶ Compare ─▶ Same: task, and which task of the earlier job it is
//	new job: graph, contents, tasks to run again ──────┘          └▶ Why: for all others the first thing that differs
//
// A task is unchanged when three things hold. The task of that name in the earlier job has
// the same function or command, outputs, parameters, environment and inputs. The files that
// it names have the same content. All tasks that made its inputs are unchanged.
//
// The graph itself has the content of the job's inputs, and of environments as far as they
// travel in packages. The content of files and of other environments (Outside) comes as
// hashes by name (comms.Content). Files says which files may count.
//
// Invariants:
//   - The package is pure: it reads no file. Equal input gives equal output.
//   - A task in Same ended well in the earlier job. Whether its datasets are still
//     there is not known here.
//   - All that a task in Same reads was made by tasks in Same.
package memo
