package cascade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cascade-run/cascade/agent"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/client"
	"github.com/cascade-run/cascade/internal/flock"
	"github.com/cascade-run/cascade/internal/graphcache"
	"github.com/cascade-run/cascade/internal/safedir"
	"github.com/cascade-run/cascade/internal/statedir"
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
	// From here to the end of the cluster no process joins: one that comes now starts its own.
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
		lock, holder, err := statedir.LockLocal(dirs.State)
		if err != nil {
			return nil, fmt.Errorf("start a local cluster: %w", err)
		}
		if lock != nil {
			return own(ctx, o, dirs, lock)
		}
		c, err := join(ctx, o, dirs, holder)
		if err == nil || !statedir.NobodyListens(err) || time.Since(began) > ownerComes {
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
func own(ctx context.Context, o options, dirs statedir.Local, lock *os.File) (*Cluster, error) {
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
func join(ctx context.Context, o options, dirs statedir.Local, holder string) (*Cluster, error) {
	leave := func() error { return nil }
	if !o.inspect {
		stay, err := takeLock(ctx, joinedFile(dirs), flock.Shared, func() {})
		if err != nil {
			return nil, fmt.Errorf("join the cluster of process %s: %w", holder, err)
		}
		leave = stay.Close
	}
	// No reconnect follows its end: the next owner of the folder is a new cluster.
	o.Patience, o.Local = ownerGone, true
	c, err := dial(ctx, "ipc://"+dirs.Controller, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state folder %s is served by process %s, which does not answer: %w", dirs.State, holder, err), leave())
	}
	return &Cluster{Client: c, stop: leave}, nil
}

// joinedFile is what those lock who joined a cluster.
func joinedFile(dirs statedir.Local) string { return filepath.Join(dirs.State, "joined") }

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

// localDirs makes the folders. Sockets get a short path of their own, because a
// socket's path may have no more than 107 bytes.
func localDirs(o options) (statedir.Local, error) {
	dirs, err := statedir.FindLocal(o.state)
	if err != nil {
		return dirs, err
	}
	if err := safedir.Own(dirs.State); err != nil {
		return dirs, fmt.Errorf("make the state folder: %w", err)
	}
	for _, dir := range []string{filepath.Dir(dirs.Run), dirs.Run} { // the first may be in /tmp, where others could have made it
		if err := safedir.Private(dir); err != nil {
			return dirs, fmt.Errorf("make the folder of sockets: %w", err)
		}
	}
	return dirs, nil
}

// startLocal starts the controller, then the agent, then a client. stop ends
// them: the agent first, so that its last events are committed.
func startLocal(ctx context.Context, o options, dirs statedir.Local) (*Cluster, error) {
	o.Inproc, o.Graphs, o.Local = comms.NewInproc(), &graphcache.Graphs{}, true
	log := o.Log
	ctrl, err := controller.New(controller.Config{
		Address: "inproc://controller,ipc://" + dirs.Controller,
		State:   filepath.Join(dirs.State, "controller"),
		Build:   Version(),
		Sync:    o.durable == PowerLoss,
		Passive: o.inspect,
		Memory:  o.gcs,
		Retain:  controller.Retention(o.retain),

		Inproc: o.Inproc,
		Graphs: o.Graphs,
		Log:    log.With().Str("part", "controller").Logger(),
	})
	if err != nil {
		return nil, err
	}
	died := make(chan error, 2)
	controllerUp := launch(ctrl.Run, died)
	stop := func() error { return errors.Join(controllerUp(), ctrl.Close()) }

	cfg := agent.Config{
		Name: "local", Controller: "inproc://controller", Build: Version(),
		State: filepath.Join(dirs.State, "agent"), Runtime: dirs.Run,
		CPU: int64(o.cpu * 1000), Memory: o.memory, Store: o.store,
		GPUs: o.gpus, GPUMem: o.gpuMem, Custom: o.custom, Inproc: o.Inproc, Graphs: o.Graphs, Warm: o.warm, Dir: o.warmDir,
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
		return errors.Join(err, os.RemoveAll(dirs.Run)) // no other process has it: the state folder is locked
	}

	conn, err := client.Dial(ctx, "inproc://controller", o.Config)
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	c := &Cluster{Client: &Client{opts: o, conn: conn}, owned: true, stop: stop}
	conn.Go(func(life context.Context) {
		select {
		case err := <-died:
			conn.GiveUp(fmt.Errorf("%w: %w", ErrUnavailable, err))
		case <-life.Done():
		}
	})
	// A request for data of an earlier run finds it right after the start.
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
