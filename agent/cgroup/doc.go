// Package cgroup bounds the memory of processes with cgroup v2, where a part of the
// hierarchy is delegated to this process (https://docs.kernel.org/admin-guide/cgroup-v2.html).
//
//	DIR                   ours alone: writable, with the memory controller, and no other process in it
//	├── cascade-agent     this process; a cgroup with controllers for children holds no process itself
//	└── NAME              one for each Group: memory.max, memory.oom.group, no swap
//
// Invariants:
//   - What is not clearly delegated is left alone: Open then says why, and changes nothing.
//   - A group counts what its processes and all their descendants hold, also of those
//     that left their parent; it is ended as a whole.
package cgroup
