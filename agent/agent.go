//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/agent/cgroup"
	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/agent/devices"
	"github.com/cascade-run/cascade/agent/process"
	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/diskspace"
	"github.com/cascade-run/cascade/internal/inbox"
	"github.com/cascade-run/cascade/internal/samehost"
	"github.com/cascade-run/cascade/internal/statedir"
	"github.com/cascade-run/cascade/shm"
)

// Agent runs tasks of one host for a controller. Make it with New, call Run
// once, then Close.
type Agent struct {
	cfg     Config
	log     zerolog.Logger
	self    comms.Identity
	started numbers // this incarnation's

	state     *state
	store     *shm.Store
	index     *shm.Index   // of sealed datasets; the loop's
	cgroups   *cgroup.Tree // nil: no cgroup is delegated
	envs      *runtimeenv.Cache
	packages  *packages
	relay     *relay
	logs      *taskLogs
	executors *comms.Listener // socket for executors: a broken link is final
	clients   *comms.Listener // socket for clients: links with replay
	ports     *ports          // for members of gangs
	devices   devices.Found   // that tasks may use
	member    *membership     // nil: no certificate
	told      told

	in    *inbox.Inbox[item]
	work  sync.WaitGroup // every goroutine of ours
	stop  context.Context
	abort context.CancelFunc // ends work that takes long

	peerLinks sync.Map // *comms.Link -> struct{}, of other agents

	segmentLane, spillLane, logLane lane

	tokens  tokens
	loop    *loop         // belongs to who steps the core
	looping chan struct{} // closed when loop is there

	closing  sync.Once
	writable sync.Once // it was said that tasks can write to environments
	closed   error
}

// ErrConfig says that a Config cannot be right; the error lists all mistakes.
var ErrConfig = errors.New("agent configuration")

// New takes the agent's folders, opens its sockets, and starts nothing else.
func New(cfg Config) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	a := &Agent{cfg: cfg, looping: make(chan struct{}), in: inbox.New[item](inboxLimit), log: cfg.Log.With().Str("agent", cfg.Name).Logger(), ports: newPorts(cfg.GangPorts)}
	a.stop, a.abort = context.WithCancel(context.Background())
	a.findDevices()
	for _, l := range []*lane{&a.segmentLane, &a.spillLane, &a.logLane} {
		l.all = &a.work
	}
	if err := a.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("start agent %s: %w", cfg.Name, err), a.Close())
	}
	return a, nil
}

// open acquires everything that Close releases.
func (a *Agent) open() error {
	var err error
	if a.state, a.started, err = openState(a.cfg.State); err != nil {
		return err
	}
	if a.cfg.Credentials != "" {
		if a.member, err = openMembership(a.cfg.Credentials, a.cfg.Name); err != nil {
			return err
		}
	}
	a.logs = newTaskLogs(filepath.Join(a.cfg.State, "logs"), a.cfg.Limits, diskspace.Above(a.cfg.MinFree).Grow)
	if err := a.logs.expire(time.Now().Add(-a.cfg.Limits.LogAge)); err != nil {
		a.log.Warn().Err(err).Msg("old logs stay behind")
	}
	if a.envs, err = runtimeenv.Open(a.cfg.Cache, a.cfg.Plugins); err != nil {
		return err
	}
	ask := func(m *comms.BlobReq) { a.in.Push(item{note: func() { a.loop.toController(m) }}) }
	a.packages, a.relay = newPackages(ask), newRelay(ask)
	a.envs.From(a.packages)
	a.envs.On(a.cfg.Platform)
	a.envs.Leave(a.cfg.State, diskspace.Above(a.cfg.MinFree).Grow)
	a.work.Go(a.pruneEnvironments)
	if a.store, err = shm.OpenStore(shm.Options{Name: a.storeName(), SpillDir: filepath.Join(a.cfg.State, "spill"), Floors: diskspace.Above(a.cfg.MinFree)}); err != nil {
		return err
	}
	if err := removeDeadStores(shmFolder, a.store.Dir()); err != nil {
		a.log.Warn().Err(err).Msg("shared memory of a dead agent stays behind")
	}
	// A process that could still write must not live when its memory is given to others.
	if err := process.EndHolders(a.holdPath(), patience); err != nil {
		return err
	}
	a.openCgroups()
	if err := errors.Join(removeControlPages(a.store.Dir()), a.store.RemoveOutputFolders()); err != nil {
		return err
	}
	a.self = comms.Identity{Role: "agent", Name: a.cfg.Name, Incarnation: a.started.Incarnation, PID: os.Getpid(), Build: a.cfg.Build, Features: []string{comms.FeatureMany, comms.FeaturePackages, comms.FeatureQuiet, comms.FeatureViews}}
	if a.executors, err = comms.Listen("ipc://"+filepath.Join(a.cfg.Runtime, "executors.sock"), comms.Config{
		Self: a.self, Handler: &executorDoor{agent: a}, Log: a.log, CheckPeer: wantRole("executor"),
		HeartbeatEvery: -1, // one that computes may be silent; when it dies its socket closes
		Pipes:          true,
	}); err != nil {
		return err
	}
	clients := a.links(&door{clientDoor{agent: a}, peerDoor{a}})
	clients.CheckPeer = a.wantClientOrAgent
	if a.clients, err = comms.Listen(a.clientAddress(), clients); err != nil {
		return err
	}
	if a.member != nil {
		a.work.Go(a.keepLinks)
	}
	if err := statedir.Put(a.cfg.State, slices.Concat(statedir.Sockets(a.executors.Addr()), statedir.Sockets(a.clients.Addr()), statedir.Sockets(a.besides("data")), statedir.Sockets(a.besides("reach"))), a.store.Dir()); err != nil {
		return err
	}
	left, err := a.adoptable()
	if err != nil {
		return fmt.Errorf("take over datasets of the agent before: %w", err)
	}
	a.loop = newLoop(a, left)
	close(a.looping)
	return nil
}

// help steps the core for waiting items, if no other goroutine does; see loop.help. Links may
// come before there is a loop.
func (a *Agent) help() {
	select {
	case <-a.looping:
		a.loop.help()
	default:
	}
}

// patience is how long New waits for the processes of an agent before to end.
const patience = 20 * time.Second

const aliveName = "alive"

// holdPath is the file that all executors hold while they live.
func (a *Agent) holdPath() string { return filepath.Join(a.store.Dir(), aliveName) }

// storeName is the same for every start with this state folder, and no other.
func (a *Agent) storeName() string {
	h := fnv.New32a()
	h.Write([]byte(a.cfg.State))
	return fmt.Sprintf("%s-%08x", a.cfg.Name, h.Sum32())
}

func (a *Agent) clientAddress() string {
	var all []string
	if a.cfg.Inproc != nil {
		all = append(all, "inproc://agent-"+a.cfg.Name)
	}
	all = append(all, "ipc://"+filepath.Join(a.cfg.Runtime, "agent.sock"))
	if a.cfg.Listen != "" {
		all = append(all, a.cfg.Listen)
	}
	return strings.Join(all, ",")
}

// Addr returns the address at which clients reach the agent.
func (a *Agent) Addr() string { return a.clients.Addr() }

// Run works until ctx ends or the agent cannot go on. When ctx ends it kills
// its executors; what the controller wants to keep of ended jobs is written to
// the state folder first. The error is nil when ctx ended.
func (a *Agent) Run(ctx context.Context) error {
	dialed := make(chan error, 1)
	dialing, hangUp := context.WithCancel(context.Background())
	a.work.Go(func() { dialed <- a.keepController(dialing) })
	a.work.Go(a.tellUse)
	err := a.loop.run(ctx, dialed)
	hangUp()
	if err != nil {
		return fmt.Errorf("agent %s: %w", a.cfg.Name, err)
	}
	return nil
}

// Close ends what New and Run started and gives shared memory back. Run must have returned.
func (a *Agent) Close() error {
	a.closing.Do(func() { a.closed = a.close() })
	return a.closed
}

func (a *Agent) close() error {
	a.in.Close()
	a.abort()
	if a.logs != nil {
		a.logs.release()
	}
	var all []error
	a.hangUpPeers()
	for _, l := range []*comms.Listener{a.executors, a.clients} {
		if l == nil {
			continue
		}
		all = append(all, l.Close())
	}
	if a.loop != nil {
		all = append(all, a.loop.moving.close())
		if x := a.loop.reaching.x; x != nil {
			all = append(all, x.Close())
		}
	}
	a.work.Wait()
	if a.logs != nil {
		a.logs.close()
	}
	if a.index != nil {
		all = append(all, a.index.Close())
	}
	if a.store != nil {
		all = append(all, a.closeStore())
	}
	if a.envs != nil {
		all = append(all, a.envs.Close())
	}
	if a.cgroups != nil {
		all = append(all, a.cgroups.Close())
	}
	if a.state != nil {
		if a.loop != nil {
			all = append(all, statedir.Remove(a.cfg.State))
		}
		all = append(all, a.state.close())
	}
	return errors.Join(all...)
}

// closeStore removes shared memory, but not what an agent left that could not be taken over, because New failed.
func (a *Agent) closeStore() error {
	if a.loop == nil {
		if left, err := a.store.Segments(); err != nil || len(left) > 0 {
			return errors.Join(err, a.store.Leave())
		}
	}
	return a.store.Close()
}

// pruneEnvironments removes environments that were used longest ago beyond the limits.
func (a *Agent) pruneEnvironments() {
	removed, err := a.envs.Prune(a.cfg.Limits.Environments, time.Now())
	if err != nil {
		a.log.Warn().Err(err).Msg("old environments stay behind")
	}
	for _, r := range removed {
		a.log.Info().Str("environment", r.ID()).Str("what", r.What).Time("used", r.Used).Msg("used longest ago, removed")
	}
}

// openCgroups lets the kernel bound the memory of executors, where a cgroup is
// delegated to us. Elsewhere guard does it alone.
func (a *Agent) openCgroups() {
	tree, err := cgroup.Open(cgroup.Mount, cgroup.Self)
	if err != nil {
		a.log.Info().Str("why", err.Error()).Msg("memory of tasks is watched, not limited by the kernel")
		return
	}
	a.cgroups = tree
	a.log.Info().Str("cgroup", tree.Dir()).Msg("memory of tasks is limited by the kernel")
	if err := tree.RemoveStale(a.storeName() + "-"); err != nil {
		a.log.Warn().Err(err).Msg("cgroups of an agent that was killed stay behind")
	}
}

// custom is the resources of the configuration, and those by which tasks are put on this
// agent, and where their files are.
func (a *Agent) custom() []comms.Amount {
	all := append(slices.Clone(a.cfg.Custom), comms.Amount{Name: dag.AgentResource(a.cfg.Name), N: samehost.Amount})
	if name := samehost.Resource(); name != "" {
		all = append(all, comms.Amount{Name: name, N: samehost.Amount})
	}
	return all
}

// coreConfig is what the core must know.
func (a *Agent) coreConfig(left inheritance) core.Config {
	return core.Config{
		Adopted:     left.sets,
		Segments:    left.segments,
		Agent:       a.cfg.Name,
		Incarnation: a.started.Incarnation,
		Addresses:   strings.Split(a.clients.Addr(), ","),
		Sessions:    a.executors.Addr(),
		Host:        gangHost(strings.Split(a.clients.Addr(), ",")),
		BootID:      readText("/proc/sys/kernel/random/boot_id"),
		Platform:    a.cfg.Platform,
		Total: comms.Resources{
			CPU: a.cfg.CPU, Memory: a.cfg.Memory, GPU: int64(len(a.devices.Devices)) * 1000, Custom: a.custom(),
			Devices: a.named(),
		},
		LastEvent:    a.started.Incarnation,
		LastExecutor: a.started.Executor,
		Dir:          a.cfg.Dir,
		Warm:         a.cfg.Warm,
		MaxExecutors: a.cfg.Limits.Executors,
		EventsFor:    time.Millisecond,
		ForwardAfter: a.cfg.ForwardAfter,
		Memory:       a.cfg.Store,
		CheckFrees:   checked,
		Unfused:      a.cfg.Unfused,
	}
}
