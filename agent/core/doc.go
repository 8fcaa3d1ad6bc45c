// Package core is the agent as a pure state machine: events in, actions out.
//
//	             Event                                   []Action
//	controller ---------->+-------------------------+----------------> controller
//	executors  ---------->|  Core.Step(now, event)  |----------------> executors, clients
//	clients    ---------->|                         |----------------> processes, segments,
//	processes, segments ->+-------------------------+                  environments, logs, timer
//
// The driver (package agent) turns messages, dead processes, finished segment
// work and passed time into events, calls Step from one goroutine, and performs
// the actions in the order given. The core has no clock, socket, file,
// goroutine or random source; equal events give equal actions, byte for byte.
//
// One step is: the event's own effect, then what follows from it for consumers
// of failed tasks and lost datasets (settle), then scheduling, then what this
// step queued on executors as one Dispatch each, then events when the inbox is
// empty or a batch is full.
//
// The way of a task, and the state that says where it is:
//
//	waiting --> ready --> (pinning) --> queued --> running --> finished
//	   |  ^       ^                       |           |
//	   |  |       +------ taken back -----+           +--> delayed --> ready (next attempt)
//	   |  +-- an input was lost --+                   +--> failed
//	   +--> skipped, cancelled    |
//	            finished ---------+  an output was lost and is needed: it runs again
//
// # Files
//
//	jobs       Steer, the end of a job        ready      ready tasks in order, shares
//	assign     what an Assign changes         place      which executor, limits
//	graph      what a job says of its tasks
//	edges      who waits for what             follow     what is queued behind a run
//	data       datasets and their references  reclaim    work and memory that executors return
//	generators streams and their elements     executors  pools, processes, environments
//	slots      instances, whole groups        runs       what a run is told
//	credit     how far generators run ahead   paths      runs that stand for many tasks
//	calls      functions that runs call       awaits     who waits for what it called
//	forward    calls that run elsewhere       guests     calls of other agents
//	acquaint   agents between which calls go
//	memory     the ledger's requests, effects report     what executors say
//	events     numbered batches               failures   retries, crashes, lost datasets
//	peers      who has the other fragments    tell       what they are told
//	hear       what they told                 early      and before its Assign
//	pulls      datasets fetched and offered   needs      which of them first
//	keep       what outlives the agent        fetch      chunks for clients
//	gangs      tasks that start together      reservation  resources of the first gang
//	enlarge    tasks that took too much memory
//	multihost  gangs that others share        devices    which executor has which
//	drain      an end without lost work       steal      work that others could begin sooner
//	load       how much there is to do        check      every cross-reference
//
// # Rules
//
// A run holds its grant from when it is queued: an executor's grant covers each
// run in its queue, and grants never exceed the host. Runs that wait behind a run
// need no more of it, and nothing waits behind a generator. A generator without
// credit releases its cpu and nothing else.
//
// Devices are an executor's from its start to its death, and the demand of its
// pool's tasks for devices is part of the pool: see devices.go. A grant of devices neither grows nor shrinks.
//
// The members of a gang start in one step, from what one reservation has held back for
// them, and are tried again as one. Nothing waits in the queue behind a member. Of a
// multi-host gang this agent keeps what it has reported as held: the controller decides
// when that is used or released, and only the controller has the gang start over.
//
// A run may carry steps behind it: see paths. Any end but silent success first makes
// runs of their own of them.
//
// A run that calls functions makes jobs of one task, which only this agent knows
// (decision 20). While it waits for one it has no cpu; nothing waits behind it.
//
// A call that another agent runs is this one's still (decision 26): the host has it
// under a name of that stay only, and messages under a name that was given up do not
// count. A host keeps a guest and its result until the owner recalls it, or their link
// has ended; an owner takes a call home when the host returns it, or cannot be reached
// for Config.Patience. A guest that waits for resources of a run whose call is away
// goes back after a second in which nothing moved.
//
// Leases and pins end with the report that ends their use, or with
// ExecutorDead; never with a broken link or with Kill.
//
// A dataset has a reference for each consumer whose end is not committed. It is
// freed with the last one unless the job keeps it. The first publication wins;
// the memory of a later copy is released.
//
// Retries: an error of the task counts against the group's retries and waits
// retryDelay, doubled each time. A crash of the executor does not count and is
// tried again at once, without fusion; after poisonAfter crashes the task is
// given up with its story. A task that was ended because it took more memory than was
// held for it is tried again at once with more, which does not count either, up to what
// the host has and not often; where another has more, the controller is asked to move it.
// For such a task groupOf is not its group of the graph. A failure without keep_going ends its job: tasks that
// have not started are skipped, running ones are cancelled.
//
// Tasks of a job that peers run are absent until a Notice reports how they ended and all
// of their outputs that are needed here have arrived. A task that an Assign does not name
// is absent too, whatever was known of it: it has not ended, and no agent can run it now.
// A dataset of a peer's task is a copy. It counts only the references of consumers that
// are here. Its holder has one reference for this agent, and gets Released with the last
// of them. A new epoch invalidates all that peers announced. Holders announce their
// datasets again, and copies that are announced again are not fetched again. A peer's
// process that began after an epoch gets no message of it, neither from this agent nor
// from the controller.
//
// A fetch asks the ledger for room like a run for its inputs, one at a time while memory
// is short. A stalled fetch releases its room while nothing else moves and anything waits
// for memory, and is retried later: else two agents could wait for each other's memory.
//
// An instance exists from when its element does. When its generator restarts, an instance
// that has not begun ceases to exist until its element comes again, and is skipped when it
// does not come. Outputs of streamed instances stay when the stream restarts.
//
// A job that was forgotten is over: an Assign that follows begins a new incarnation, when
// nothing of the old one runs. Datasets that a task published before it failed stay, here
// and with the next process.
//
// Events above EventsKept stop new runs, because uncommitted events must be kept.
// While tasks run, events that no process waits for may wait EventsFor for others. So
// may an event that an environment is ready.
package core
