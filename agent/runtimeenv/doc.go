// Package runtimeenv makes what tasks need installed, once, and keeps it.
//
//	dag.Environment ─▶ plugins that apply, by priority
//	     each: Validate ─▶ Key ─▶ in the cache? ──yes──▶ Activate ─▶ Activation: what to start, with which variables
//	                                 └─no─▶ lock key ─▶ Create in a temporary folder ─▶ rename ─┘
//
// Built in, by priority:
//
//	container                      an image's files, which executors see in place of the host's
//	conda                          packages of conda, by micromamba, mamba or conda
//	python-base, python-executor   an interpreter with what the executor needs; the executor's modules
//	image-python                   in a container, the image's interpreter in place of that
//	go, binary, python             an executor from a Go package; one that is built; requirements, by uv
//	working_dir, py_modules        the job's files, by content
//	vars                           environment variables
//	uv                             made when the first Python environment is, on hosts without uv
//
// Others are programs (External): each is a plugin, which is started for each request.
//
// Files that travel with their job are packages: a Packer makes them where the job is
// submitted, a Source brings them to where the environment is built.
//
// An environment that names nothing of these is served by the executor that comes
// with the agent.
//
// Invariants:
//   - A folder under its key is complete: it was renamed there after Create succeeded;
//     of a plugin that works in place, its record was written then.
//   - One build at a time per key, also between processes: a lock file guards it.
//   - A build that fails for good fails for all who wait for it; a transient error is
//     tried again until patience ends, and then reported to the caller.
//   - Nothing is written outside the cache folder and the own caches of go, uv and pip.
//   - Output of tools is reported without the passwords of addresses.
//   - The choice of an interpreter depends on the host alone, not on how fast it answers.
//   - An environment that an open Cache has prepared is never removed: the Cache holds a
//     shared lock on KEY.use, and Prune needs it alone. Its time is the last use.
//   - Equal content gives an equal key, on any path.
package runtimeenv
