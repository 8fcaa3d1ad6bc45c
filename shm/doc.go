// Package shm keeps datasets in POSIX shared memory: files in a tmpfs folder that the agent creates and
// executors map. The bookkeeping is the pure package ledger; this package performs what it asks for.
//
//	agent core ── ledger.Request, Seal, Unref ... ──> ledger ── effects ──> agent driver
//	                                                                          │
//	            Store.Create Resize Seal Remove Spill ReadBack DropSpill  <───┘ (Do), answers go back as events
//	                      │
//	   /dev/shm/cascade-<uid>-<name>/  a1 (arena)  f2 (file)  o3 (a command's output)      <spill folder>/<key>.spill
//	                      │
//	executor: Mapper.Lease -> Alloc -> fill in place -> Seal/Close ── offset, length ──> agent: ledger.Seal
//	          Mapper.View  -> Span.Bytes (package executor/value, arrowfile.Read) -> Release
//	after kill -9 of the agent: Index (what was sealed, and where) + segments ── Confirm ──> ledger.Adopt
//	commands: open Store.Path of a sealed file; write into OutputFolder of an output's Store.Path, and move it there
//
// # A dataset's life, as processes see it
//
//	lease granted ──> bytes written by one process ──> sealed ──> viewed by any number, read-only
//	                                                     │  └──> spilled to disk and read back on demand
//	                                                     └──> no reference, no pin: freed, bytes reused
//
// # Invariants
//
//   - Segments are reserved with fallocate before anybody maps them, and views are checked against the
//     file's size: full memory is an error and never a SIGBUS. Disk is read and written with system calls,
//     never through a mapping, for the same reason.
//   - Names of segments are never used twice within a folder; a mapping that outlives its segment shows
//     zeros, because removal punches the pages out before it unlinks.
//   - A reader may take a shared lock (flock) on a sealed file while a pin holds it. It then sees the dataset's bytes
//     until it releases the lock, whatever becomes of pin, dataset and agent. The file is not recycled (ledger.Lend),
//     no agent punches it, and the kernel frees it after the last mapping. Such memory is in no ledger.
//   - The index (index.go) says at each moment what is sealed and true: a note is made after the seal and before
//     it is announced, and ends before the bytes can change. However its writer dies, a note is whole or is none.
//   - A sealed file has exactly the dataset's length and mode 0400: any program of this user can open it.
//   - The mapping of an ended lease is moved out of reach, so that slices which a task kept can not write to what
//     was published. Datasets in a lease that goes on are protected by Lease.Seal, page by page.
//   - A view is valid while its pin lasts; a lease belongs to one process until that process is known dead.
//   - A spill file under its final name is complete; its checksum is verified when it is read back.
//   - Array bytes are little-endian, row by row. Their meaning is in the descriptor, never in the bytes.
//     Arrow data is the exception (package arrowfile): an IPC file carries its schema.
//
// With the build tag check, freed ranges are overwritten with 0xDB, pages of a mapping can only be read
// while a Span shows them, and addresses of ended leases are never used again.
package shm
