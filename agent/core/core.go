package core

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/pq"
	"github.com/cascade-run/cascade/shm/ledger"
)

// Core is the agent's state. It is used from one goroutine.
type Core struct {
	cfg   Config
	now   time.Time
	out   []Action
	total amounts
	free  amounts

	devices devices
	owed    *pool // that idle executors are to give devices to, in this scheduling pass

	// Jobs in order of arrival, and tenants, who share the host by weight.
	jobs    []*job
	byJob   map[comms.JobID]*job
	tenants map[tenantKey]*tenant
	busy    pq.Queue[*tenant, tenantOrder]

	working []*job // those that have not drained

	lines   []*line  // ready tasks
	offered []*class // with ready tasks, to be put into their lines
	readied []*job   // with tasks that became ready since the last flush

	// Executors by number, and the pools they belong to in order of creation.
	execs    []*executor
	building int // environments that are being made
	byExec   map[comms.ExecutorID]*executor
	pools    []*pool
	byPool   map[poolKey]*pool
	lastExec comms.ExecutorID
	wanting  []*pool // that miss executors, in the order in which this pass found that

	// Programs that open sessions.
	programs  pool                           // those that were admitted
	visitors  []visitor                      // those that wait for their session
	sessions  []*session                     // that have not ended, or have a program
	lingering map[comms.ExecutorID]*executor // whose links have ended, and which still have memory

	gangs           []*gang      // that could start, in the order of their turns
	spans           []*gang      // of which the controller is told how far they are
	reservation     *reservation // what is held back for the first; nil when there is none
	lastReservation uint64

	generators []*run // runs of generators, by number
	lostJobs   []*job // with lost datasets, to be counted anew
	runs       map[comms.RunID]*run
	behind     int // tasks that wait behind others in runs
	lastRun    comms.RunID
	lastKind   uint32
	pinning    int    // runs that wait for their inputs to be in memory
	pinned     []*run // runs whose inputs have come into memory, or failed to

	// Shared memory.
	led         *ledger.Ledger
	requests    map[ledger.RequestID]*request
	lastReq     ledger.RequestID
	squeezed    bool      // requests wait for memory
	retryMemory time.Time // when disk and memory, found full, are tried again
	memoryIO    int       // answers of the segments' driver that are due
	segs        map[ledger.SegmentID]*segment
	fetches     []*fetch

	ctl     upstream
	leaving *leaving // no task starts any more; nil while the agent stays
	scales  scales   // how much work waits, as the controller knows

	// Other agents, with which jobs are shared.
	neighbours map[string]*neighbour
	telling    []*job                      // with something to tell their peers
	early      []early                     // notices whose Assign is still to come
	earlyBytes int                         // of them, about
	lapsed     []lapsed                    // of whom such notices were dropped, the oldest first
	turns      pq.Queue[*turn, turnOrder]  // tenants of jobs for which datasets are to be fetched
	resting    pq.Queue[*heard, restOrder] // datasets to be fetched later
	pulls      map[uint64]*pull
	lastPull   uint64
	pulling    int64     // bytes of pulls
	missed     time.Time // since when memory is missed and nothing but fetches can move; zero: that is not so
	barren     time.Time // when the last fetch ended that brought nothing: it failed, or was given up
	offers     map[offerKey]*offer

	seconds     average      // that a task takes
	callSeconds average      // that a call takes, here or elsewhere
	bandwidth   average      // bytes a second at which datasets come from other agents
	flows       []comms.Flow // that are to be told

	// Calls.
	waiters   []*caller // whose runs wait for calls, in the order in which they began to
	reap      []*caller // whose task may have ended
	calls     uint64    // names that were made so far
	callTold  []*caller // with ends to be sent in this step
	sumBuf    []byte    // memory of the last sum of a call
	records   recorder
	rowsEnded []rowRef // whose ends are to be followed
	argsLost  []rowRef // with arguments whose bytes are gone
	loans     map[ledger.Key]*loan
	refs      references
	actors    standIns
	submits   submits
	asking    asking
	recalls   []rowRef            // of other agents that want them back
	freeAt    time.Time           // when to look again for calls that are queued behind long runs
	strange   []rowRef            // that cannot run here, until it is known who can
	away      map[uint64]rowRef   // own ones that others have, or are to be told of, by their names there
	hosts     map[grantKey]rowRef // those of other agents
	copies    map[copyKey]rowRef  // what those read that their owners have
	lastGrant uint64
	saying    []*neighbour // that are to be told something in this step
	loaded    bool         // how much there is to do has changed by guests, and was not told since
	loadAt    time.Time    // when it may be told again
	met       []*neighbour // acquainted for calls
	unreached []*neighbour // of these, those whose links are waited for

	// unplaced: tasks that waited for memory gave way to calls, and no call has ended since.
	unplaced bool

	todo    []ended                     // tasks that ended without their outputs and whose consumers do not know yet
	touched []*job                      // jobs that may have drained
	steps   []comms.Step                // scratch
	key     []byte                      // scratch
	usages  []comms.Usage               // scratch
	delayed pq.Queue[delay, delayOrder] // tasks that wait for their next attempt
	delays  uint64                      // how many there were
	later   []FromController            // for jobs of which what was here before has ended in this step
	timer   time.Time                   // what the last SetTimer asked for
	pass    uint64                      // number of the present scheduling pass
	wake    time.Time                   // when scheduling wants to look again; zero never
}

// ended is a task whose consumers must learn that its outputs will not come.
type ended struct {
	job  *job
	task taskIndex
}

// New returns an agent without controller, jobs or executors. The first Step,
// best with Idle, starts the warm executors.
func New(cfg Config) *Core {
	cfg = cfg.withDefaults()
	led, err := ledger.New(ledger.Config{Capacity: cfg.Memory, ReserveBytes: cfg.Memory / 16, ArenaBytes: cfg.ArenaBytes, LargeBytes: cfg.LargeBytes, ReportFrees: cfg.CheckFrees})
	if err != nil {
		panic(fmt.Sprintf("agent core: %v", err)) // withDefaults makes sizes that fit; what remains is a mistake of the caller
	}
	c := &Core{
		cfg: cfg, total: vector(cfg.Total), free: vector(cfg.Total), devices: devicesOf(&cfg.Total), led: led,
		byJob: map[comms.JobID]*job{}, tenants: map[tenantKey]*tenant{}, byExec: map[comms.ExecutorID]*executor{},
		byPool: map[poolKey]*pool{}, runs: map[comms.RunID]*run{}, requests: map[ledger.RequestID]*request{},
		pulls: map[uint64]*pull{}, offers: map[offerKey]*offer{}, away: map[uint64]rowRef{}, hosts: map[grantKey]rowRef{}, copies: map[copyKey]rowRef{}, loans: map[ledger.Key]*loan{},
		lingering: map[comms.ExecutorID]*executor{},
		segs:      map[ledger.SegmentID]*segment{}, ctl: upstream{last: cfg.LastEvent, mostRecords: cfg.RecordsKept}, lastExec: cfg.LastExecutor,
	}
	c.pool(poolKey{dir: cfg.Dir}).warm = cfg.Warm
	c.adopt(cfg.Segments, cfg.Adopted)
	return c
}

// These values are right for every agent.
const (
	supplyFor   = 500 * time.Microsecond // predicted work kept queued on each executor
	supplyMax   = 256                    // most runs queued on one executor
	inlineMax   = 4 << 10                // outputs up to this size travel in messages
	eventBatch  = 4096                   // events are sent at this number even when the inbox is busy
	bufferSize  = 16                     // unconsumed elements a generator may have when its output says 0
	poisonAfter = 3                      // crashes of executors after which their task is given up
	retryDelay  = 100 * time.Millisecond // before the second attempt; doubled each time, up to 100 times
	grace       = 2 * time.Second        // from cancellation to SIGTERM, to SIGKILL, to killing the executor
	idleAfter   = time.Minute            // idle executors end after this, but those of the default environment
	spareAfter  = time.Second            // and those beyond the limit after this
)

func (cfg Config) withDefaults() Config {
	cfg.Host = cmp.Or(cfg.Host, "127.0.0.1")
	cfg.EventsKept = cmp.Or(cfg.EventsKept, 1<<18)
	cfg.RecordsKept = cmp.Or(cfg.RecordsKept, 64<<20)
	cfg.Patience = cmp.Or(cfg.Patience, 3*time.Second)
	cfg.MaxExecutors = cmp.Or(cfg.MaxExecutors, max(4, 2*int((cfg.Total.CPU+999)/1000)))
	cfg.MaxWaiting = cmp.Or(cfg.MaxWaiting, int(min(max(cfg.Total.Memory>>24, 128), 1024)))
	const (
		page = 4096
		// An arena has room for the standing leases of several executors, and for all that is no file of its own.
		leastArena, mostArena = 8 << 20, 64 << 20
	)
	cfg.Memory = max(cfg.Memory, page)
	if cfg.ArenaBytes == 0 {
		cfg.ArenaBytes = min(max(cfg.Memory/8, leastArena), mostArena) // one that is held must not be all there is
	}
	cfg.ArenaBytes = max(page, min(cfg.ArenaBytes, cfg.Memory/4)/page*page) // an arena in use leaves room for files
	if cfg.LargeBytes == 0 && cfg.ArenaBytes >= leastArena {
		cfg.LargeBytes = leastArena
	}
	cfg.LargeBytes = min(cfg.LargeBytes, cfg.ArenaBytes)
	cfg.Total.Custom = slices.Clone(cfg.Total.Custom)
	return cfg
}

func (c *Core) emit(a Action) { c.out = append(c.out, a) }

// Step takes one event and returns what must be done, in order. The slice and
// the messages in it belong to the caller, those in ev to the core; now must
// not go backwards.
func (c *Core) Step(now time.Time, ev Event) []Action {
	if now.After(c.now) {
		c.now = now
	}
	c.handle(ev)
	c.work()
	for len(c.later) > 0 {
		later := c.later
		c.later = nil
		for _, ev := range later {
			c.fromController(ev)
		}
		c.work()
	}
	if len(c.telling) > 0 {
		c.tellPeers()
	}
	_, idle := ev.(Idle)
	if idle && c.tells() || c.ctl.unflushed >= eventBatch {
		c.flush()
	}
	if idle {
		c.tellBacklog()
		c.tellLoad()
	}
	c.setTimer()
	out := c.out
	c.out = nil
	return out
}

// handle is an event's own effect.
func (c *Core) handle(ev Event) {
	switch ev := ev.(type) {
	case ControllerUp:
		c.controllerUp(ev.Resumed)
		c.submits.controllerUp(ev)
	case ControllerDown:
		c.ctl.open, c.ctl.full = false, false
	case FromController:
		c.fromController(ev)
	case Spawned:
		c.spawned(ev)
	case Attach:
		c.attach(ev)
	case FromExecutor:
		c.fromExecutor(ev)
	case Printed:
		c.printed(ev)
	case ExecutorBroken:
		c.executorBroken(ev)
	case ExecutorDead:
		c.executorDead(ev)
	case EnvReady:
		c.envReady(ev)
	case EnvWaits:
		c.envWaits(ev)
	case SegmentReady, SpillDone, ReadBackDone:
		c.memoryAnswer(ev)
	case FromClient:
		c.fromClient(ev)
	case ChunkServed:
		c.endFetch(ev.Client, ev.Req)
	case ClientGone:
		c.clientGone(ev.Client)
	case Full:
		c.setFull(ev.Executor, true)
	case Free:
		c.setFull(ev.Executor, false)
	case PeerUp:
		c.peerUp(ev)
	case PeerDown:
		c.peerDown(ev)
	case PeerFull:
		c.peerFull(ev)
	case FromPeer:
		c.fromPeer(ev)
	case Pulled:
		c.pulled(ev.Pull)
	case PullFailed:
		c.pullFailed(ev)
	case Flowed:
		c.flowed(ev.Flows)
	case Wanted:
		c.wantedBy(ev)
	case Unwanted:
		c.unwanted(ev)
	case NotOffered:
		c.notOffered(ev)
	case Withdrawn:
		c.withdrawn(ev)
	case PortsLeased:
		c.portsLeased(ev)
	case Drain:
		c.drain()
	case Quit:
		c.quit()
	case Tick:
		c.timer = time.Time{}
	}
}

// work does all that follows from an event.
func (c *Core) work() {
	c.settle()
	c.schedule()
	c.settle()
	c.tellCallers()
	c.tellPartners()
	c.dispatch()
	c.drained()
	if c.leaving != nil {
		c.tellInHand()
	}
}

func (c *Core) setFull(ex comms.ExecutorID, full bool) {
	if ex == 0 {
		c.ctl.full = full
		c.send()
		return
	}
	if e := c.byExec[ex]; e != nil {
		e.full = full
	}
}

// settle ends chains of consequences: consumers of tasks that failed are
// skipped one after the other and not by recursion, however long the chain. A stream
// that fails lets go what was kept for what follows it: its job is counted anew once more.
func (c *Core) settle() {
	c.timeouts()
	for more := true; more; more = c.settleCalls() || len(c.lostJobs) > 0 {
		for len(c.lostJobs) > 0 {
			j := c.lostJobs[0]
			c.lostJobs = slices.DeleteFunc(c.lostJobs, func(o *job) bool { return o == j }) // once for all of a step
			c.recount(j)
		}
		for len(c.todo) > 0 {
			e := c.todo[len(c.todo)-1]
			c.todo = c.todo[:len(c.todo)-1]
			c.outputsFailed(e.job, e.task)
		}
	}
}
