package cascade

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cascade-run/cascade/agent"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/decoded"
	"github.com/cascade-run/cascade/internal/flock"
	"github.com/cascade-run/cascade/internal/owner"
	"github.com/cascade-run/cascade/internal/safedir"
)

// Cluster is a cluster on this host, and a client of it.
type Cluster struct {
	*Client
	owned  bool
	stop   func() error
	joined string // the file that processes lock which joined this cluster
}

// Owned tells whether the cluster runs in this process. If not, it belongs to
// another process that serves the same state folder, and goes on after Close.
func (c *Cluster) Owned() bool { return c.owned }

// AwaitJoined waits until the processes that joined this cluster have left it, so
// that they can still fetch the results of their jobs. It calls waiting once, if
// it cannot return at once. A cluster that runs elsewhere has none.
func (c *Cluster) AwaitJoined(ctx context.Context, waiting func()) error {
	if !c.owned {
		return nil
	}
	f, err := takeLock(ctx, c.joined, flock.Exclusive, waiting)
	if err != nil {
		return fmt.Errorf("wait for the processes that joined: %w", err)
	}
	// From here to the end of the cluster nobody joins: who comes now starts anew.
	stop := c.stop
	c.stop = func() error { return errors.Join(stop(), f.Close()) }
	return nil
}

// Close ends what Local started: executors first, then agent and controller. Jobs
// that have not ended go on when their state folder is opened again. Processes
// that joined lose the cluster: AwaitJoined waits for them. A second Close does nothing.
func (c *Cluster) Close() error {
	err := c.Client.Close()
	if c.stop != nil {
		err = errors.Join(err, c.stop())
		c.stop = nil
	}
	return err
}

// Local starts a controller and an agent inside this process and executors as
// child processes: the same binary, started again, so that main must call Main
// before anything else. When another process serves the state folder already,
// Local becomes a client of that one. The context bounds the start only.
func Local(ctx context.Context, opts ...Option) (*Cluster, error) {
	if os.Getenv(executor.EnvAddr) != "" {
		return nil, errors.New("start a local cluster: this process was started as an executor; call cascade.Main first in main, or cascade.RunTests in tests")
	}
	o := newOptions(opts)
	dirs, err := localDirs(o)
	if err != nil {
		return nil, fmt.Errorf("start a local cluster: %w", err)
	}
	for began := time.Now(); ; {
		lock, holder, err := lockState(dirs.state)
		if err != nil {
			return nil, fmt.Errorf("start a local cluster: %w", err)
		}
		if lock != nil {
			return own(ctx, o, dirs, lock)
		}
		c, err := join(ctx, o, dirs, holder, opts)
		if err == nil || !owner.NobodyListens(err) || time.Since(began) > ownerComes {
			return c, err
		}
		again := time.NewTimer(10 * time.Millisecond) // it opens its socket soon, or ends: neither has an event for us
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// own starts the cluster of a state folder whose lock we have.
func own(ctx context.Context, o options, dirs localPaths, lock *os.File) (*Cluster, error) {
	c, err := startLocal(ctx, o, dirs)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a local cluster: %w", err), lock.Close())
	}
	c.joined = joinedFile(dirs)
	inner := c.stop
	c.stop = func() error { return errors.Join(inner(), lock.Close()) }
	return c, nil
}

// join makes a client of the cluster that process holder runs on our state folder,
// and tells that process that we are here, unless we only look: a look does not keep it.
func join(ctx context.Context, o options, dirs localPaths, holder string, opts []Option) (*Cluster, error) {
	leave := func() error { return nil }
	if !o.inspect {
		stay, err := takeLock(ctx, joinedFile(dirs), flock.Shared, func() {})
		if err != nil {
			return nil, fmt.Errorf("join the cluster of process %s: %w", holder, err)
		}
		leave = stay.Close
	}
	// Its end is not a break that mends: who has the folder next is a new cluster.
	c, err := Dial(ctx, "ipc://"+dirs.controller, append(slices.Clone(opts), WithPatience(ownerGone))...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state folder %s is served by process %s, which does not answer: %w", dirs.state, holder, err), leave())
	}
	c.local = true
	return &Cluster{Client: c, stop: leave}, nil
}

// joinedFile is what those lock who joined a cluster.
func joinedFile(dirs localPaths) string { return filepath.Join(dirs.state, "joined") }

// takeLock locks the file at path and waits while another process forbids it. It calls
// waiting before it waits.
func takeLock(ctx context.Context, path string, mode flock.Mode, waiting func()) (*os.File, error) {
	f, err := flock.Try(path, mode)
	if errors.Is(err, flock.ErrHeld) {
		waiting()
		return flock.Wait(ctx, path, mode)
	}
	return f, err
}

const (
	ownerGone  = 3 * time.Second  // the process that serves our state folder may be away so long
	ownerComes = 30 * time.Second // one that has the state folder's lock may take so long to listen
)

// localPaths is where a local cluster keeps what.
type localPaths struct {
	state      string // what outlives the cluster
	run        string // sockets
	controller string // the controller's socket
}

// localDirs makes the folders. Sockets get a short path of their own, because a
// socket's path may have no more than 107 bytes.
func localDirs(o options) (localPaths, error) {
	dirs, err := findDirs(o.state)
	if err != nil {
		return dirs, err
	}
	if err := safedir.Own(dirs.state); err != nil {
		return dirs, fmt.Errorf("make the state folder: %w", err)
	}
	for _, dir := range []string{filepath.Dir(dirs.run), dirs.run} { // the first may be in /tmp, where others could have made it
		if err := safedir.Private(dir); err != nil {
			return dirs, fmt.Errorf("make the folder of sockets: %w", err)
		}
	}
	return dirs, nil
}

// findDirs tells where the folders are; state is "" for the program's own.
func findDirs(state string) (localPaths, error) {
	var err error
	if state == "" {
		if state, err = owner.StateFolder(filepath.Base(os.Args[0])); err != nil {
			return localPaths{}, err
		}
	}
	if state, err = filepath.Abs(state); err != nil {
		return localPaths{}, fmt.Errorf("find the state folder: %w", err)
	}
	base, err := owner.RuntimeFolder()
	if err != nil {
		return localPaths{}, err
	}
	sum := sha256.Sum256([]byte(state))
	run := filepath.Join(base, hex.EncodeToString(sum[:6]))
	return localPaths{state: state, run: run, controller: filepath.Join(run, "controller.sock")}, nil
}

// lockState takes the state folder for this process. When another process has
// it, the lock is nil and holder is that process's number.
func lockState(dir string) (lock *os.File, holder string, err error) {
	path := filepath.Join(dir, "lock")
	f, err := owner.Lock(path)
	if errors.Is(err, flock.ErrHeld) {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, "", fmt.Errorf("read %s: %w", path, err)
		}
		return nil, strings.TrimSpace(string(b)), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("lock the state folder: %w", err)
	}
	if err = f.Truncate(0); err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, "", fmt.Errorf("write %s: %w", path, err)
	}
	return f, "", nil
}

// startLocal starts the controller, then the agent, then a client. What runs
// ends by stop: the agent first, so that its last events are committed.
func startLocal(ctx context.Context, o options, dirs localPaths) (*Cluster, error) {
	o.inproc = comms.NewInproc()
	o.graphs = &decoded.Graphs{}
	log := o.log
	ctrl, err := controller.New(controller.Config{
		Address: "inproc://controller,ipc://" + dirs.controller,
		State:   filepath.Join(dirs.state, "controller"),
		Build:   Version(),
		Sync:    o.durable == PowerLoss,
		Passive: o.inspect,
		Memory:  o.gcs,
		Retain:  controller.Retention(o.retain),

		Inproc: o.inproc,
		Graphs: o.graphs,
		Log:    log.With().Str("part", "controller").Logger(),
	})
	if err != nil {
		return nil, err
	}
	died := make(chan error, 2)
	controllerUp := launch(ctrl.Run, died)
	stop := func() error { return errors.Join(controllerUp(), ctrl.Close()) }

	cfg := agent.Config{
		Name: "local", Controller: "inproc://controller",
		State: filepath.Join(dirs.state, "agent"), Runtime: dirs.run,
		CPU: int64(o.cpu * 1000), Memory: o.memory, Store: o.store,
		GPUs: o.gpus, GPUMem: o.gpuMem, Custom: o.custom, Inproc: o.inproc, Graphs: o.graphs, Warm: o.warm, Dir: o.warmDir,
		MinFree:      ctrl.MinFree(),
		ForwardAfter: -1, // there is no other agent
		Log:          log.With().Str("part", "agent").Logger(),
	}
	if o.inspect {
		cfg.Warm = -1
	}
	ag, err := agent.New(cfg)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	agentUp := launch(ag.Run, died)
	stopController := stop
	stop = func() error {
		err := errors.Join(agentUp(), ag.Close(), stopController())
		return errors.Join(err, os.RemoveAll(dirs.run)) // nobody else has it: the state folder is locked
	}

	p, err := dialPeer(ctx, "inproc://controller", pki.RoleController, "", o)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	c := &Cluster{Client: &Client{opts: o, ctrl: p, agent: make(map[string]*peer), local: true}, owned: true, stop: stop}
	p.work.Go(func() {
		select {
		case err := <-died:
			c.giveUp(fmt.Errorf("%w: %w", ErrUnavailable, err))
		case <-p.life.Done():
		}
	})
	// Who asks for data of an earlier run right after the start finds it.
	if err := c.Ready(ctx, 1); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// launch runs f until the returned function ends it. An end of its own accord is
// told through died, which has room for it.
func launch(f func(context.Context) error, died chan<- error) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var g errgroup.Group
	g.Go(func() error {
		err := f(ctx)
		if ctx.Err() == nil {
			died <- cmp.Or(err, errors.New("a part of the cluster has ended"))
		}
		return err
	})
	return func() error {
		cancel()
		err := g.Wait()
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
}
