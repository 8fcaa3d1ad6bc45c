// Package ledger is the bookkeeping of one host's shared memory: segments, regions, leases, sealed datasets,
// pins, references, eviction and the queue of waiting requests. It is pure: it touches no memory, file or
// clock. Methods change its state and collect effects, which Take hands to the caller in the order in which
// they must be performed; the driver's answers come back as method calls. Equal calls give equal effects.
//
//	Request ──> queue (Grow > Start > Prefetch, each first come first served, see pass)
//	              │ all or nothing: a place for every lease and for every spilled input
//	              │   arena: first fit in whole pages; file: nearest warm file, else a new one
//	              │   no room: unused segments go, then victims are evicted, then it waits
//	              v
//	          admitted ── SegmentReady, ReadBackDone ──> Granted ── Seal, CloseLease, Unpin ──> Release
//	              └── SegmentFailed: back into the queue, at its old place, under a lower limit
//
// # The life of a dataset
//
//	  leased region                       (created: bytes of one process, invisible)
//	      │ Seal
//	      v            pin
//	  Evictable <─────────────> Pinned
//	      │ memory is wanted
//	      ├── copy elsewhere ──> Dropped
//	      ├── copy on disk ────────────────────┐
//	      v                                    v     pinned                    done
//	  Spilling ── SpillDone ─────────────> Spilled ───────────> Reading ───────────────> Pinned, Evictable
//	      └── SpillFailed, or pinned meanwhile ──> Evictable, Pinned      └── failed ──> Lost
//
//	no reference and no pin: Freed, from every state; Spilling and Reading end first
//
// The table is in state.go; a transition that is not in it panics.
//
// # Invariants (Check verifies those of one moment)
//
//   - Live regions never overlap and are whole pages. A region is given away again only when its lease is
//     closed and its last dataset is gone. Regions are evicted whole, so that every eviction yields memory.
//   - Between Enter and Strike of a dataset its bytes lie at the place that Enter named, whatever else happens.
//   - Segments never exceed the capacity, except that a command may write an output larger than it asked for.
//   - A file that was lent, or adopted, is never recycled: it is removed when its dataset is gone.
//   - Pinned datasets stay where they are. Pins of a Prefetch are the exception: they are Revoked under pressure.
//   - A lease or pin ends only by Unpin, CloseLease, Release, Seal of a file, or OwnerDead: never by silence.
//   - Victims: copies that exist elsewhere, then least recently used, then prefetched.
//   - A request above the capacity fails at once. Any other is served in the end, if the holders of memory
//     release it and the disk works: when nothing is held, everything can be moved out, the request's own
//     inputs included. When all holders wait for memory themselves, the youngest request fails (ErrStuck).
//     When nothing is held and disk or memory refuse, the request fails (ErrNoRoom with their errors).
//   - While a request waits for memory that was held before it came, later requests that fit are served first. When
//     none of those holders is in its way any more, no later request passes it, except that a Grow passes a Grow.
//     It then waits only for the requests that have passed it, and is served.
//   - Idle executors that keep a lease are holders that do not end: on Waiting, the caller takes such leases
//     back (ask the executor, then CloseLease).
package ledger
