// Package dag holds a job's graph as a value: its builder, its YAML form,
// validation, order, encoding and printing. It imports nothing of ours, reads no
// file, clock or environment, and starts nothing.
//
//	job file + Override      code                    bytes
//	      | ParseYAML          | Builder.Build         | Decode
//	      v                    v                       v
//	  +-------------------------------------------------------+
//	  | declarations: Params, Environments, Groups, Exports   |
//	  +-------------------------------------------------------+
//	      | resolve: names, loops, numbers, references, order
//	      v                                   \--> Problems, all at once
//	  +-------------------------------------------------------+
//	  | Graph with its index, immutable                       |
//	  +-------------------------------------------------------+
//	      |            |             |              |
//	  Inputs(i)   Consumers(i)   With(i) ...   Encode, YAML, Text
//
// # Tasks, groups, slots
//
// A Group is one entry of the job file. With loops over known values it stands
// for a family of static tasks, numbered row by row, the last loop fastest. Their
// differences (name, parameters, command line) are computed on demand.
//
// A group that loops over the elements of an open generator is streamed: its
// tasks come into being one element at a time. Each combination of its other
// loops is a slot, and slot s has for element e the instance
//
//	NumTasks() + e*NumSlots() + s
//
// An instance reads its own element of the generator, the instances of the same
// element of groups that follow the same generator, and datasets of tasks that do
// not. A static task may collect the whole stream (SourceStream) or one output of
// every instance (SourceGroup). Streams do not nest.
//
// # The index
//
// Nodes are the static tasks followed by the slots. References are resolved into flat
// arrays. For each From of a group there is a fixed number of sources for each task, or one
// shared row when the sources do not depend on the loops. The inverse has one compressed row
// of consumers for each node. Memory is O(nodes + edges).
//
// # Invariants
//
//   - A Graph that was returned without error is valid and acyclic, and methods
//     on it do not fail for indices of its tasks, except where a placeholder
//     cannot be evaluated (With, EnvVars, Command).
//   - Consumers is the inverse of the sources of Inputs, except for what each
//     instance reads on its own: StreamSlots and SlotConsumers.
//   - Decode(g.Encode()) and ParseYAML(g.YAML()) give graphs with equal bytes.
//   - Equal inputs give equal graphs, equal bytes and equal problems.
//   - Memory stays in proportion to the input and to Options.
package dag
