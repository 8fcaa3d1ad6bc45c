// Package chaos breaks real clusters: it starts the commands as processes, kills
// them at chosen moments, and compares what a job delivers with an undisturbed run.
//
//	test ──starts──▶ cascade-controller, cascade-agent, cascade run   (built once, with the tag check)
//	  │                   │ starts executors: the test binary itself, with the functions of tasks.go
//	  │◀──journal (pipe)──┤ every task says "start", "end", ... with its attempt and process
//	  └──breaks───────────┘ at a line of the journal, at a change of the job, or at a failpoint
//
// # Moments
//
// Nothing waits for a time to pass. A break happens at the n-th line of the
// journal, when a watched job has come somewhere, or at a point of
// internal/failpoint inside a daemon. Seeds choose n.
//
// # What is compared
//
// After each break a test asks for all that apply:
//
//   - the outputs are byte for byte those of the undisturbed run (Outcome.Same);
//   - what a client had been told is finished has not started again, and every
//     task that did start again had run on a process that was killed (Outcome.Rerun);
//   - at the end of the test (Host's cleanup) no process, socket or shared memory
//     of it is left; when a daemon was killed and not started again, after `cascade clean`.
//
// A process belongs to a test when its environment has the test's mark, which
// executors, commands and their children inherit: so daemonised ones are found too.
//
// # Forms
//
// By default each test does a few rounds, four tests at a time; with -short none runs. CASCADE_TIER=nightly does all
// kills (200 of executors, 100 of the controller), one test after the other; see `just chaos`, and
// `just chaos-again` for 20 times that with the race detector. docs/tests.md lists what is broken, with both numbers.
// CASCADE_CHAOS_SEED starts the seeds elsewhere.
package chaos
