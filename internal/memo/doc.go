// Package memo finds which results of an earlier job hold for a new one, and says
// of every other task what is not as it was.
//
//	earlier job: graph, contents, how its tasks ended ─┐
//	                                                   ├─▶ Compare ─▶ Same: task, and which task of the earlier job it is
//	new job: graph, contents, tasks to run again ──────┘          └▶ Why: for all others the first thing that differs
//
// A task is what it was when the task of that name in the earlier job has the same
// function or command, outputs, parameters, environment and inputs, when the files
// that it names have the same content, and when all that made its inputs is what
// it was, too. The content of an input of the job stands in the graph itself, and so does
// that of an environment, as far as it travels in packages. The content of files, and of
// other environments (Outside), comes as hashes by name (comms.Content): Files says which
// files may count.
//
// Invariants:
//   - The package is pure: it reads no file. Equal input gives equal output.
//   - A task in Same ended well in the earlier job. Whether its datasets are still
//     there is not known here.
//   - All that a task in Same reads was made by tasks in Same.
package memo
