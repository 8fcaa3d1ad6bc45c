package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/admin"
	"github.com/cascade-run/cascade/cmd/internal/daemon"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// submitFlags say how a job is submitted.
type submitFlags struct {
	id       string
	tenant   string
	priority int64
	weight   uint32
	hold     bool
	keep     bool
	labels   []string
}

func (f *submitFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.id, "id", "", "job ID (a UUID); submitting the same job with the same ID is idempotent")
	c.Flags().StringVar(&f.tenant, "tenant", "", "tenant whose share of the cluster the job uses (default the user)")
	c.Flags().Int64Var(&f.priority, "priority", 0, "priority; jobs of higher priority go first (default 0)")
	c.Flags().Uint32Var(&f.weight, "weight", 1, "weight of the tenant, relative to other tenants")
	c.Flags().BoolVar(&f.hold, "hold", false, "submit on hold: start when cascade release is called")
	c.Flags().BoolVar(&f.keep, "keep", false, "keep the job and its outputs until cascade rm jobs, regardless of retention limits")
	c.Flags().StringArrayVar(&f.labels, "label", nil, "label for people, `NAME=VALUE`; repeatable")
}

func (f *submitFlags) options(dir string) ([]cascade.SubmitOption, error) {
	opts := []cascade.SubmitOption{
		cascade.WithDir(dir), cascade.WithPriority(f.priority), cascade.WithWeight(f.weight),
	}
	if f.id != "" {
		id, err := comms.ParseJobID(f.id)
		if err != nil {
			return nil, badInput{err}
		}
		opts = append(opts, cascade.WithJobID(id))
	}
	if f.tenant != "" {
		opts = append(opts, cascade.WithTenant(f.tenant))
	}
	if f.hold {
		opts = append(opts, cascade.WithHold())
	}
	if f.keep {
		opts = append(opts, cascade.WithKeep())
	}
	for _, l := range f.labels {
		name, value, ok := strings.Cut(l, "=")
		if !ok {
			return nil, badInputf("--label %s: want NAME=VALUE", l)
		}
		opts = append(opts, cascade.WithLabel(name, value))
	}
	return opts, nil
}

// clusterFlags size the cluster that run starts on this host.
type clusterFlags struct {
	cpu           float64
	memory, store string
	gcsMemory     string
	gpus          int
	gpuMemory     string
	resources     []string
	durable       cascade.Durability
}

func (f *clusterFlags) add(c *cobra.Command) {
	c.Flags().Float64Var(&f.cpu, "cpu", 0, "cores that tasks may use (default all)")
	c.Flags().StringVar(&f.memory, "memory", "", "private memory that tasks may use, such as 8GiB (default the memory of the host)")
	c.Flags().StringVar(&f.store, "store", "", "shared memory for datasets, such as 2GiB (default a part of /dev/shm)")
	c.Flags().StringVar(&f.gcsMemory, "gcs-memory", "", "memory for tables and caches of the control store, at least 64MiB (default 64MiB)")
	c.Flags().IntVar(&f.gpus, "gpus", 0, "number of GPUs that tasks may use (default as detected, negative none)")
	c.Flags().StringVar(&f.gpuMemory, "gpu-memory", "", "memory of each GPU, such as 40GiB (default as the driver reports)")
	c.Flags().StringArrayVar(&f.resources, "resource", nil, "custom resource that tasks may use, `NAME=AMOUNT`, such as licence=2; repeatable")
	f.durable = cascade.Crash
	c.Flags().Var(&f.durable, "durability", "what acknowledged data survives: a crash of every process, or also a power loss")
}

func (f *clusterFlags) options(c *cobra.Command) ([]cascade.Option, error) {
	var opts []cascade.Option
	if c.Flags().Changed("cpu") {
		if err := checkCPU(f.cpu); err != nil {
			return nil, err
		}
		opts = append(opts, cascade.WithCPU(f.cpu))
	}
	for _, r := range f.resources {
		name, text, ok := strings.Cut(r, "=")
		n, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil || name == "" || n <= 0 {
			return nil, badInputf("--resource %s: want NAME=AMOUNT, such as licence=2", r)
		}
		if flag := daemon.FlagOf(name); flag != "" {
			return nil, badInputf("--resource %s: it is said by --%s", r, flag)
		}
		opts = append(opts, cascade.WithResource(name, n))
	}
	devices := func(memory int64) cascade.Option { return cascade.WithGPUs(f.gpus, memory) }
	opts = append(opts, devices(0))
	for _, s := range []struct {
		flag, value string
		option      func(int64) cascade.Option
	}{{"memory", f.memory, cascade.WithMemory}, {"store", f.store, cascade.WithStore}, {"gpu-memory", f.gpuMemory, devices}, {"gcs-memory", f.gcsMemory, cascade.WithStoreMemory}} {
		if s.value == "" {
			continue
		}
		n, err := parseSize(s.value)
		if err != nil || n < 1<<20 {
			return nil, badInputf("--%s %s: want a size of at least 1MiB, such as 512MiB", s.flag, s.value)
		}
		opts = append(opts, s.option(n))
	}
	return append(opts, cascade.WithDurability(f.durable)), nil
}

func checkCPU(cores float64) error {
	if cores > 0 && !math.IsInf(cores, 1) {
		return nil
	}
	return badInputf("--cpu %g: want a positive number of cores, such as 4 or 0.5", cores)
}

func (a *app) runCommand() *cobra.Command {
	var job jobFlags
	var sub submitFlags
	var size clusterFlags
	var resume resumeFlags
	c := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a job on this host and wait for it",
		Long: `Start a controller, an agent and executors inside this command, run the job and
copy its outputs to the destinations in the job file. If another run uses the
same state folder, the job joins it. After a run that was killed, the same
command continues its job; completed tasks do not run again.

With --resume only tasks run that failed, or whose function or command,
parameters, files, environment or inputs have changed. The results of all others
are reused from the earlier job. --explain prints the reason for each task that
runs.

The first interrupt (Ctrl-C) cancels the job, the second stops everything at
once. The command then prints how to continue.`,
		Example: `  cascade run examples/ensemble/job.yaml
  cascade run job.yaml -p date=2026-11-21 --store 4GiB
  cascade run job.yaml --resume --explain`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := resume.check(); err != nil {
				return err
			}
			g, dir, _, err := a.readChecked(c.Context(), args[0], &job)
			if err != nil {
				return err
			}
			if err := a.checkOutputs(g, dir, &job); err != nil {
				return err
			}
			opts, err := sub.options(dir)
			if err != nil {
				return err
			}
			more, err := size.options(c)
			if err != nil {
				return err
			}
			a.runAnew(c, args[0], g.Retain || resume.from != "")
			return a.place(a.runJob(c.Context(), g, dir, &resume, sub.id == "", opts, append(more, cascade.WithWarmDir(dir))))
		},
	}
	job.add(c)
	sub.add(c)
	size.add(c)
	resume.add(c)
	a.progressFlag(c)
	return c
}

func (a *app) submitCommand() *cobra.Command {
	var job jobFlags
	var sub submitFlags
	var wait bool
	c := &cobra.Command{
		Use:   "submit FILE",
		Short: "Submit a job to a running cluster and print its ID",
		Long: `Submit a job to a running cluster and print its ID. The command does not wait
for the job and copies no outputs: the cluster keeps them for cascade get. With
--wait it waits for the end and copies the outputs as run does.`,
		Example: `  cascade submit job.yaml --to hpc
  cascade submit job.yaml --to ipc:///run/cascade/controller.sock
  cascade submit job.yaml --to hpc --wait`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if a.to == "" {
				return hintedf("cascade submit FILE --to CLUSTER, or for all commands cascade config set to CLUSTER; cascade run FILE runs it on this host",
					"submit: no cluster is named: --to, CASCADE_TO and the setting to are empty")
			}
			g, dir, _, err := a.readChecked(c.Context(), args[0], &job)
			if err != nil {
				return err
			}
			if wait {
				if err := a.checkOutputs(g, dir, &job); err != nil {
					return err
				}
			}
			opts, err := sub.options(dir)
			if err != nil {
				return err
			}
			return a.place(a.withClient(c.Context(), func(client *cascade.Client) error {
				j, err := client.Submit(c.Context(), g, opts...)
				if err != nil {
					return err
				}
				a.tellUnserved(c.Context(), client, j)
				if wait {
					a.runAnew(c, args[0], g.Retain)
					return a.follow(c.Context(), client, j, g, dir)
				}
				if a.json {
					return a.printJSON(map[string]string{"job": j.ID().String()})
				}
				_, err = fmt.Fprintln(a.out, j.ID())
				return err
			}))
		},
	}
	job.add(c)
	sub.add(c)
	c.Flags().BoolVar(&wait, "wait", false, "wait for the end and copy the outputs, as run does")
	a.progressFlag(c)
	return c
}

// tellUnserved tells which agents get nothing of a job, for whose platform it has no binary.
// The job runs on the others: that it cannot be asked for is no fault of it.
func (a *app) tellUnserved(ctx context.Context, client *cascade.Client, j *cascade.Job) {
	all, err := admin.Unserved(ctx, client, j)
	if err != nil {
		a.note("which agents have no binary is not known: %v", err)
	}
	for _, text := range all {
		a.note("%s: none of its tasks goes there", text)
	}
}

// runJob runs g on a cluster of its own, or on the one that --to names. A job of the
// same graph that was cut off is that job, unless it is named.
func (a *app) runJob(ctx context.Context, g *dag.Graph, dir string, resume *resumeFlags, unnamed bool, opts []cascade.SubmitOption, size []cascade.Option) error {
	return a.withExecutors(ctx, size, func(client *cascade.Client) error {
		if unnamed {
			j, err := a.unfinished(ctx, client, g, dir)
			if err != nil {
				return err
			}
			if j != nil {
				return a.follow(ctx, client, j, g, dir)
			}
		}
		j, err := a.submitResumed(ctx, client, g, resume, opts)
		if err != nil {
			return err
		}
		a.tellUnserved(ctx, client, j)
		return a.follow(ctx, client, j, g, dir)
	})
}

// unfinished returns the job that was cut off and would be submitted again, the latest of
// several; nil when there is none. It is this command's from now on.
func (a *app) unfinished(ctx context.Context, client *cascade.Client, g *dag.Graph, dir string) (*cascade.Job, error) {
	for i, r := range slices.Backward(a.left) {
		id, err := comms.ParseJobID(r.ID)
		if err != nil || r.Name != g.Name {
			continue
		}
		same, err := admin.Same(ctx, client, id, g, dir)
		if err != nil {
			return nil, err
		}
		if same {
			a.note("it is the job that was to run: it is not submitted again (%s, to restart)", a.hint("cancel", r.ID))
			a.left = slices.Delete(slices.Clone(a.left), i, i+1)
			return client.Job(id), nil
		}
	}
	return nil, nil
}

// errLeft ends a command at the second interrupt.
var errLeft = fmt.Errorf("%w: ended at once by the second interrupt", cascade.ErrCancelled)

// follow shows a job's progress to its end, copies its outputs and prints the
// summary. The first interrupt cancels the job, the second ends the waiting.
func (a *app) follow(ctx context.Context, client *cascade.Client, j *cascade.Job, g *dag.Graph, dir string) error {
	last, err := a.watch(ctx, client, j, g)
	if err != nil {
		return err
	}
	failure := cascade.JobResult(last)
	var files, missing []string
	switch {
	case failure == nil:
		if files, err = j.Save(ctx, dir); err != nil {
			return a.unsaved(j.ID(), files, err)
		}
	case g.KeepGoing && last.Phase == comms.JobFailed:
		files, missing, err = j.SaveThere(ctx, dir)
	}
	if failure != nil && !a.json {
		a.explainFailure(ctx, client, g, last, failure)
		a.explainOutputs(files, missing, err)
		return reported{failure}
	}
	if err := a.summary(ctx, client, g, last, files, missing); err != nil {
		return err
	}
	switch {
	case err != nil:
		return errors.Join(failure, err)
	case failure != nil:
		return reported{failure}
	}
	return nil
}

// unsaved says what became of the outputs when they could not all be copied: the
// job itself is done, and they are kept.
func (a *app) unsaved(id comms.JobID, files []string, err error) error {
	return fmt.Errorf("%w\nthe job is done and %s copied; its outputs are kept: %s copies one, %s lists them",
		err, plural(len(files), "output"), a.hint("get", id.String(), "TASK.OUTPUT", "-o", "FILE"), a.hint("ls", "datasets", id.String()))
}

// watch shows a job's progress to its end. It takes the interrupts before it prints: from
// then on one cancels the job.
func (a *app) watch(ctx context.Context, client *cascade.Client, j *cascade.Job, g *dag.Graph) (last *cascade.Progress, err error) {
	a.stdout.follow()
	interrupts, leave := a.signals.take()
	defer leave()
	show := a.newProgress(g, j.ID())
	defer show.end()
	ctx, cancel := context.WithCancelCause(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(nil)
	updates, ended := make(chan *cascade.Progress), make(chan error, 1)
	work.Go(func() {
		ended <- j.Watch(ctx, show.every(), func(p *cascade.Progress) bool {
			select {
			case updates <- p:
			case <-ctx.Done():
			}
			return true
		})
	})
	tick := time.NewTicker(show.every())
	defer tick.Stop()
	interrupted := false
	for {
		select {
		case last = <-updates:
			show.update(last)
			if a.owner && last.Waits != "" {
				return last, fmt.Errorf("job %s: %w", last.Name, a.cannotRun(last))
			}
		case <-tick.C:
			show.tick(ctx, client, last)
		case err := <-ended:
			return last, err
		case <-interrupts:
			if interrupted {
				return last, errLeft
			}
			interrupted = true
			show.say("cancelling job %s; interrupt again to end at once", j.ID())
			work.Go(func() {
				if err := j.Cancel(ctx, "interrupted by the user"); err != nil && ctx.Err() == nil {
					cancel(err)
				}
			})
		}
	}
}
