// Package diskspace says how far each part of Cascade may fill a disk, so that no
// part waits for space that only its own waiting can free. State folder, spilled
// datasets, logs and environments are on one disk unless they are configured otherwise.
//
// These waits could form a ring:
//
//	a spill file is dropped      when the end of its job is committed
//	a commit is written          when there is free space
//	free space comes back        when a spill file, a job with its logs, or an environment is dropped
//
// Commits are small, and all other releases of space depend on them. So each part has a
// floor: the less a part is needed, the higher its floor. Below its floor a part is refused
// and does not wait. Only commits wait, at the lowest floor, and Cascade's own writes do not
// fill the disk so far. Tools that build environments do not ask: the disk is checked before
// each try and every second while they run, and below Grow a build is ended and removed. So
// such a tool makes commits wait only when it writes more than ½ m within a second.
//
// The floors, in multiples of m, which is --min-free:
//
//	free bytes of the disk
//	   │   spill                       refused: the task that wants the memory fails, and says so
//	   ├── Spill   2 m
//	   │   logs, environments          text is left out, and the log says so; the environment fails to build
//	   ├── Grow    1½ m
//	   │   datasets kept at the end    the agent says which it could not keep
//	   ├── Keep    1¼ m
//	   │   commits: jobs end, are cancelled, forgotten
//	   ├── Commit  m (--min-free)
//	   │   commits wait, submits and packages are refused: others have filled the disk
//	   ├── 32 MiB
//	   │   the reserve file is removed: what Badger has begun comes to its end
//	   0
//
// The room between two floors is for writes that had begun when their part last looked.
// Packages, inputs and backups are refused and do not wait. A package needs its own size
// above Commit. A backup is written beside the store, where its reader wants it.
package diskspace
