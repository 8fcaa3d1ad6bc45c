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
// # Who does what
//
//	jobs       Steer, the end of a job        ready      ready tasks in order, shares
//	assign     what an Assign changes         place      which executor, limits
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
//	gangs      tasks that start together      bundles    what is held back for them
//	reserve    tasks that took too much memory
//	span       gangs that others share        devices    which executor has which
//	drain      an end without lost work       spare      work that others could begin sooner
//	load       how much there is to do        check      every cross-reference
//
// # Rules
//
// A run holds its grant from when it is queued: an executor's grant covers each
// run in its queue, and grants never exceed the host. What waits behind a run
// needs no more of it, and nothing waits behind a generator. A generator without
// credit gives its cpu back and nothing else.
//
// Devices are an executor's from its start to its death, and what its pool's tasks want
// of them is part of the pool: see devices.go. A grant of devices neither grows nor shrinks.
//
// The members of a gang start in one step, from what one bundle has held back for
// them, and are tried again as one. Nothing waits in the queue behind a member. Of a
// gang that other agents have members of, too, what is said to be held is bound: the
// controller says what becomes of it, and only it has the gang start over.
//
// A run may carry steps behind it: see paths. What is not silent success makes
// runs of their own of them first.
//
// A run that calls functions makes jobs of one task, which only this agent knows
// (decision 20). While it waits for one it has no cpu; nothing waits behind it.
//
// A call that another agent runs is this one's still (decision 28): the host has it
// under a name of that stay only, and what it is told of a name that it has given up,
// or tells, counts for nothing. A host keeps a guest and what it returned until the
// owner recalls it, or their link has ended; an owner takes a call home when the host
// gives it back, or cannot be reached for Config.Patience. A guest that waits for
// what a run holds whose call is away goes back after a second in which nothing moved.
//
// Leases and pins end with the report that ends their use, or with
// ExecutorDead; never with a broken link or with Kill.
//
// A dataset has a reference for each consumer whose end is not committed. It is
// freed with the last one unless the job keeps it. The first publication wins;
// a later copy of a dataset that is here is given back.
//
// Retries: an error of the task counts against the group's retries and waits
// retryDelay, doubled each time. A crash of the executor does not count and is
// tried again at once, without fusion; after poisonAfter crashes the task is
// given up with its story. A task that was ended because it took more memory than was
// held for it is tried again at once with more, which does not count either, up to what
// the host has and not often; where another has more, the controller is asked to move it.
// For such a task groupOf is not its group of the graph. A failure without keep_going ends its job: what has
// not started is skipped, what runs is cancelled.
//
// Of a job with peers, tasks that others run are absent until a Notice says how
// they ended, and all that they made and is needed is here. So is a task of which an Assign
// says nothing, whatever was known of it: it has not ended, and no agent can run it now. A dataset of theirs is
// a copy: it counts only the references of consumers that are here, and the copy's
// holder, who has one reference for this agent, gets Released with the last of
// them. A new epoch takes back all that was heard: who still has it tells it
// again, and copies that are told again are not fetched again. A peer's process that
// began after an epoch is told nothing of it, as the controller tells it nothing. A fetch asks the
// ledger for room like a run for its inputs, one at a time while memory is short. One
// that does not come while nothing else moves and anything waits for memory gives its room
// back and is made again later: two agents may wait for each other's memory.
//
// An instance exists from when its element does. When its generator begins anew, one
// that has not begun is no more until its element comes again, and is skipped when it
// does not. What streamed instances have made is here beyond the stream that began anew.
//
// What was forgotten of a job is over: an Assign that follows begins a new one, when
// nothing of the old one runs. What a task published before it failed stays, here and
// with the next process.
//
// Events above EventsKept stop new runs: what is not committed must be kept.
// While tasks run, events that nobody waits for may wait EventsFor for others: also that an
// environment is there, as one that is found is, for each job that names it.
package core
