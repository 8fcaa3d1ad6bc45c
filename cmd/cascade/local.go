package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/statedir"
)

// connect returns a client and what ends it: of the cluster that --to names, of
// the one that runs on this host, or of one made to read this host's state.
func (a *app) connect(ctx context.Context) (*cascade.Client, func() error, error) {
	if a.to != "" {
		c, err := cascade.Dial(ctx, a.to, a.options()...)
		if err != nil {
			return nil, nil, a.explained(err)
		}
		return c, c.Close, nil
	}
	cluster, err := cascade.Local(ctx, append(a.options(), cascade.WithoutExecutors())...)
	if err != nil {
		return nil, nil, err
	}
	a.alone = cluster.Owned()
	return cluster.Client, cluster.Close, nil
}

// withClient runs f with a client.
func (a *app) withClient(ctx context.Context, f func(*cascade.Client) error) (err error) {
	c, end, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return f(c)
}

// errNothing says that no job has run in the state folder.
var errNothing = errors.New("no job has run here yet")

// withJobs is withClient for questions about what there is. A state folder in which nothing ran
// is not made for them.
func (a *app) withJobs(ctx context.Context, f func(*cascade.Client) error) error {
	if a.to != "" {
		return a.withClient(ctx, f)
	}
	paths, err := statedir.FindLocal(a.state)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(paths.State, "controller")); !errors.Is(err, os.ErrNotExist) {
		return a.withClient(ctx, f)
	}
	if _, err := os.Stat(paths.State); err != nil && slices.Contains(append(jobPhases(), taskStates()...), a.state) {
		return hintedf("did you mean --status "+a.state+"?", "--state names a folder, and there is none called %s", a.state)
	}
	return notHere{hintedf(a.hint("run", "FILE")+" runs one, "+a.hint("init")+" writes a first one", "%w (in %s)", errNothing, paths.State)}
}

// listing ends a list of what there is: that there is nothing is no error.
func (a *app) listing(err error) error {
	if !errors.Is(err, errNothing) {
		return err
	}
	message, hint := splitHint(err)
	a.note("%s: %s", message, hint)
	return nil
}

// withExecutors is like withClient, but a cluster on this host can run tasks. It
// ends only when the jobs of others on it have ended too: those that joined
// while it ran, and those that an earlier run left.
func (a *app) withExecutors(ctx context.Context, size []cascade.Option, f func(*cascade.Client) error) (err error) {
	if a.to != "" {
		return a.withClient(ctx, f)
	}
	cluster, err := cascade.Local(ctx, append(a.options(), size...)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if a.owner = cluster.Owned(); !a.owner {
		return f(cluster.Client)
	}
	left, err := openJobs(ctx, cluster.Client)
	if err != nil {
		return err
	}
	for i := range left {
		a.tellLeft(ctx, cluster.Client, &left[i])
	}
	a.left = left
	err = f(cluster.Client)
	left = a.left
	if exitCode(err) == exitInfrastructure || errors.Is(err, errLeft) || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, a.waitForOthers(ctx, cluster, left))
}

// tellLeft says what becomes of a job that an earlier run left.
func (a *app) tellLeft(ctx context.Context, client *cascade.Client, r *comms.JobRow) {
	id, err := comms.ParseJobID(r.ID)
	if err == nil {
		if session, err := isSession(ctx, client, id)(); err == nil && session {
			a.note("ending %s (%s), whose program has ended", r.Name, r.ID)
			return
		}
	}
	a.note("going on with job %s (%s), which was cut off", r.Name, r.ID)
}

// openJobs lists the jobs that run or could.
func openJobs(ctx context.Context, client *cascade.Client) ([]comms.JobRow, error) {
	rows, err := cascade.Rows[comms.JobRow](ctx, client, comms.QueryJobs, comms.JobID{}, comms.FilterOpen)
	return slices.DeleteFunc(rows, func(r comms.JobRow) bool { // one that is held, or is only called so
		return r.Phase != comms.JobQueued.String() && r.Phase != comms.JobRunning.String()
	}), err
}

// waitForOthers waits for the jobs that would be cut off by the end of this
// command's cluster. No other command waits for those that an earlier run left, so
// their outputs are copied here.
func (a *app) waitForOthers(ctx context.Context, cluster *cascade.Cluster, left []comms.JobRow) error {
	client := cluster.Client
	open, err := openJobs(ctx, client)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	interrupts, leave := a.signals.take()
	defer leave()
	work.Go(func() {
		select {
		case <-interrupts:
			cancel(errLeft)
		case <-ctx.Done():
		}
	})
	for _, r := range open {
		a.note("waiting for job %s (%s), which runs here too; interrupt to leave it for the next run", r.Name, r.ID)
		if err := a.waitForOther(ctx, client, r, containsJob(left, r)); err != nil {
			return err
		}
	}
	for _, r := range left {
		if containsJob(open, r) {
			continue
		}
		if err := a.waitForOther(ctx, client, r, true); err != nil { // it has ended meanwhile
			return err
		}
	}
	err = cluster.AwaitJoined(ctx, func() {
		a.note("waiting for the commands that joined this run; interrupt to leave without them")
	})
	if errors.Is(err, errLeft) {
		return nil // they end when they find the cluster gone
	}
	return err
}

func containsJob(rows []comms.JobRow, row comms.JobRow) bool {
	return slices.ContainsFunc(rows, func(r comms.JobRow) bool { return r.ID == row.ID })
}

func (a *app) waitForOther(ctx context.Context, client *cascade.Client, r comms.JobRow, outputs bool) error {
	id, err := comms.ParseJobID(r.ID)
	if err != nil {
		return err
	}
	j := client.Job(id)
	var p *cascade.Progress
	err = j.Watch(ctx, everyLines, func(now *cascade.Progress) bool {
		p = now
		return p.Waits == "" || p.Phase == comms.JobRunning
	})
	if err == nil && !p.Final {
		a.note("job %s (%s) is left: %v", r.Name, r.ID, a.cannotRun(p))
		return nil
	}
	if err == nil {
		err = cascade.JobResult(p)
	}
	var ended *cascade.JobError
	switch {
	case errors.Is(context.Cause(ctx), errLeft):
		return nil // the next run goes on with it
	case errors.As(err, &ended), err == nil && !outputs:
		a.note("job %s (%s) %s", r.Name, r.ID, p.Phase)
		return nil
	case err != nil:
		return err
	}
	files, err := j.Save(ctx, r.Dir)
	if err != nil {
		return fmt.Errorf("job %s (%s), which was cut off: %w", r.Name, r.ID, a.unsaved(id, files, err))
	}
	a.note("job %s (%s) %s, %s copied", r.Name, r.ID, p.Phase, plural(len(files), "output"))
	return nil
}

// cannotRun is the error of a job that this host, being the only one, is too small for.
func (a *app) cannotRun(p *cascade.Progress) error {
	return badInputf("this host cannot run it: %s (%s ends it)", p.Waits, a.hint("cancel", p.Job.String()))
}
