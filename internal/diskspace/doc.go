// Package diskspace says how far each part of Cascade may fill a disk, so that no
// part waits for space that only its own waiting can free. State folder, spilled
// datasets, logs and environments are on one disk unless they are configured otherwise.
//
// The waits that the free space of one disk could close to a ring:
//
//	a spill file is dropped ──── when its job's end is ──▶ committed
//	a commit is written ──────── when there is ──────────▶ free space
//	free space comes back ────── when there is dropped ──▶ a spill file, a job with its logs, an environment
//
// A commit alone leads to all of the others, and is small. So the rule is: the more a
// part can do without, the more space it leaves, and each is refused below its floor,
// and never waits. Only commits wait, at the lowest floor. Cascade's own writes do
// not bring the disk there. Tools that build environments do not ask: the disk is checked
// before each try and every second while they run, and below Grow a build is ended and removed.
// Commits wait for that only where a tool writes more than ½ m within a second:
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
// Between two floors is room for what those above had begun when they looked. Packages,
// inputs and backups are refused, and not waited for: a package asks for its own size above
// Commit, and a backup is written where its reader wants it, beside the store.
package diskspace
