// Package process starts executors so that nothing of them outlives the agent.
//
//	agent ──socket──▶ reaper ──starts──▶ executor ──▶ commands ──▶ whatever they start
//	      ◀─pid, pidfd─┘ │                  │ dies
//	      ◀─exit status──┘ ◀────────────────┘ the reaper kills and reaps all that is left, then ends
//
// The reaper is the agent's own binary, re-executed: the init function of this
// package takes over when it finds the reaper's environment variable, so every
// binary that can be an agent can be a reaper. It is a child subreaper
// (PR_SET_CHILD_SUBREAPER): orphans below it become its children, so that
// daemons which left their session and process group are found as well.
//
// A program may see another root than the host's (Root): the reaper starts its own
// binary in a mount namespace, which mounts the root and becomes the program.
//
// Invariants:
//   - When the agent's end of the socket closes, also by kill -9, the reaper
//     kills its whole tree. A socket belongs to the process: unlike a
//     parent-death signal it does not fire when a thread of the agent ends.
//   - When the reaper is killed, the executor gets SIGKILL as its parent-death
//     signal. The reaper starts it from its main thread, which never ends.
//   - Process.Wait returns only when the executor is known dead through its own
//     pidfd, which the reaper passed over the socket before anyone could reap it.
package process
