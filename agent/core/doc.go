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
// One step has this order:
//
//  1. the event's own effect;
//  2. settle: consumers learn of failed tasks and lost datasets;
//  3. scheduling;
//  4. one Dispatch for each executor that got runs in this step;
//  5. events to the controller, when the inbox is empty or a batch is full.
//
// The states of a task:
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
// The interface:
//
//	api          configuration, events, actions
//	core         Core, its constants, Step
//	check        every cross-reference of the state, for tests
//	stats        sums for metrics
//
// Jobs and tasks:
//
//	jobs         the state of a job and of its tasks; Steer; the end of a job
//	assign       what an Assign changes
//	graph        questions to the graph of a job
//	edges        which task waits for which; when a task is ready, and when it is skipped
//	generators   streams and their elements
//	slots        instances of streamed groups, whole groups
//	credit       how far a generator may be ahead of its consumers
//	failures     retries, crashes, time-outs, lost datasets
//	enlarge      tasks that took more memory than was held for them
//
// Scheduling and executors:
//
//	ready        ready tasks in order, shares of jobs and tenants
//	lines        run queues: ready tasks that want the same executors and resources
//	resources    what tasks need, and what the host has
//	devices      which executor has which devices
//	place        the executor of a task, limits
//	follow       tasks that are queued behind a run
//	paths        runs that stand for many tasks
//	kinds        what an executor learns once for all runs of a group
//	runs         what an executor learns of one run
//	executors    pools, processes, environments
//	functions    whether executors have the functions of a job
//	reclaim      work and memory that executors return
//	report       messages of executors
//	gangs        tasks that start together
//	reservation  resources that are held back for the first gang
//	multihost    multi-host gangs
//	alone        the messages for one task without an agent (agent/foreground)
//	sessions     programs that run the task of a session by themselves
//	submits      calls that are graphs, and the doors of their jobs
//
// Datasets:
//
//	data         datasets and their references
//	memory       requests to the ledger of shared memory, and its effects
//	reads        hashes of the inputs that a task has read
//	fetch        chunks for clients
//	keep         datasets that outlive the agent
//
// Calls of functions by running tasks:
//
//	calls        calls of runs, and their callers
//	arguments    what calls read, and values that are put
//	ends         what the parents of calls are told
//	references   futures in values, and what they hold
//	remotes      references between agents
//	actors       values that stand for actors to which handles refer
//	lineage      calls that run again as what they returned is lost
//	records      what the ends of calls tell, to run them again
//	dynamic      jobs whose tasks are rows: calls, and tasks of other agents
//	waits        runs that wait for calls, or read what they returned
//	placement    the host of calls that wait long, or cannot run here
//	grants       calls of this agent that run elsewhere
//	spread       how many of them each host has, and which come back
//	hosted       calls of other agents that run here
//	partners     agents between which calls go
//
// Other agents:
//
//	peers        which agent has which other assignment of a job
//	tell         what this agent announces to peers
//	hear         what peers announce
//	early        announcements that come before their Assign
//	away         ends of the tasks of peers
//	pulls        datasets that are fetched from other agents
//	needs        the order in which they are fetched
//
// The controller:
//
//	events       messages of the controller, and the events of each job
//	upstream     numbered batches of events, until they are committed
//	drain        the way of this agent out of the cluster
//	take         datasets that this agent takes from one that leaves
//	load         running means, measured bandwidth, the load of this agent
//	steal        work that an idle agent could begin sooner
//
// # Rules
//
// Grants. A run holds its grant from when it is queued. The grant of an executor covers
// each run in its queue, and the grants of all executors together never exceed the host.
// Runs that wait behind a run need no more than that run. No run waits behind a generator.
// A generator without credit releases its cpu and nothing else.
//
// Devices. An executor has its devices from its start to its death. The demand for devices of a
// pool's tasks is part of the pool's key. A grant of devices neither grows nor
// shrinks (devices.go).
//
// Gangs. The members of a gang start in one step, from one reservation, and are retried
// together. No run waits in the queue behind a member. An agent keeps what it has reported
// as reserved for a multi-host gang: the controller decides when that is used or released,
// and only the controller restarts the gang.
//
// Paths. A run may carry steps behind it (paths.go). Any end of the run but a success
// without outputs to report first turns its steps into runs of their own.
//
// Calls. The calls of a task are rows of a dynamic job, which only this agent knows
// (decision 20). A run that waits for a call has no cpu, and no run waits behind it. Its
// process is beside those of MaxExecutors; of such there are at most MaxWaiting.
//
// Lineage. A row that has ended keeps from where its arguments came while what it returned can be
// lost and may be read, or while another such row comes from it. It runs again when what is gone is wanted, and its
// parent is not told again. For a value that only the parent can bring the parent's run ends, and
// the next brings it.
//
// Granted calls (docs/protocol/ownership.md). A call that another agent runs still belongs to
// this one, its owner. Each grant has a number of its own; messages about one that has
// ended do not count. The host keeps the task and what it made until the owner ends the
// grant or their link has ended. The owner takes the call home when the host returns
// it, or cannot be reached for Config.Patience. A hosted task may wait for resources that
// are held by a run whose own call is away: after a second in which nothing moves the
// host returns it. A call waits at its owner until a host can begin it; each grant is asked back
// at most once, and a call that has begun is not returned for that.
//
// Memory of executors. Leases and pins end with the report that ends their use, or with
// ExecutorDead. They never end with a broken link or with Kill.
//
// Sessions. A program that opens a session is an executor for its run alone. It has no cpu
// and counts against no limit. It is admitted once; the end of its link ends the session.
//
// References. A dataset has a reference for each consumer whose end is not committed. The
// agent frees it with the last reference unless the job keeps it. The first publication
// wins; the memory of a later copy is released.
//
// Retries. An error of the task counts against the retries of its group. The next attempt
// waits for retryDelay, doubled each time. A crash of the executor does not count: the task
// is retried at once, without fusion, and fails with its story after poisonAfter crashes.
// Nor does an attempt count that was ended because it took more memory than was held for it:
// the task is retried at once with more, a few times, up to what the host has. When another
// host has more, the agent asks the controller to move the task. Such a task has a group
// of its own here (groupOf), which differs from its group in the graph. A failure without
// keep_going stops its job: tasks that have not started are skipped, running ones are
// cancelled.
//
// Tasks of peers. A task that a peer runs is absent here until a Notice has reported its
// end and all of its outputs that are needed here have arrived. A task that an Assign does
// not name is absent too, whatever was known of it: it has not ended, and no agent can run
// it now.
//
// Copies. A dataset of a peer's task is a copy. It counts only the references of consumers
// that are here. Its holder has one reference for this agent, and gets Released with the
// last of them. A new epoch invalidates all that peers announced. Holders announce their
// datasets again; a copy that is announced again is not fetched again. A process of a peer
// that began after an epoch gets no message of that epoch, neither from this agent nor from
// the controller.
//
// Fetches. A fetch asks the ledger for room as a run does for its inputs, one at a time
// while memory is short. Two agents could wait for each other's memory. So a stalled fetch
// releases its room when nothing else moves and something waits for memory, and is retried
// later.
//
// Instances. An instance exists from when its element exists. When its generator restarts,
// an instance that has not begun is removed. It exists again when its element is published
// again, and is skipped when that never happens. Outputs of instances stay when the stream
// restarts.
//
// Dropped jobs. A job that the controller had this agent drop is over. An Assign that follows
// begins a new incarnation of it, when nothing of the old one runs. Datasets that a task
// published before it failed stay, here and with the next process.
//
// Back-pressure. More than EventsKept uncommitted events stop new runs, because the agent
// must keep them. While tasks run, events that no process waits for may wait for EventsFor,
// so that several leave together. So may an event that says that an environment is ready.
package core
