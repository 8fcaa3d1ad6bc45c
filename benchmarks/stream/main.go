//go:build linux

package main

import (
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/benchmarks/internal/exit"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

const noop = "cascade-stream-noop"

func main() {
	cascade.Func0(noop, doNothing, "-> out")
	cascade.Main()
	var o options
	flag.Int64Var(&o.tasks, "tasks", 50_000_000, "how many tasks")
	flag.Int64Var(&o.each, "job", 500_000, "tasks of one job")
	flag.IntVar(&o.ahead, "ahead", 2, "jobs that are under way at a time")
	flag.Int64Var(&o.memory, "gcs-memory", 64, "MiB for the store's tables and caches")
	flag.IntVar(&o.keep, "keep-jobs", 4, "ended jobs that stay")
	flag.StringVar(&o.state, "state", "", "folder of the state (default a new one, removed at the end)")
	flag.StringVar(&o.csv, "csv", "stream.csv", "file for what was recorded")
	flag.StringVar(&o.plot, "plot", "", "file for the plot, .svg or .png; none: no plot")
	flag.StringVar(&o.draw, "draw", "", "draw this CSV instead of running")
	flag.Parse()
	exit.On("stream", o.run())
}

func doNothing(context.Context) (int64, error) { return 0, nil }

type options struct {
	tasks, each, memory    int64
	ahead, keep            int
	state, csv, plot, draw string
}

func (o *options) run() error {
	if o.draw == "" {
		if o.tasks < 1 || o.each < 1 || o.ahead < 1 || o.keep < 1 {
			return errors.New("-tasks, -job, -ahead and -keep-jobs want positive numbers")
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if err := o.measure(ctx); err != nil {
			return err
		}
		o.draw = o.csv
	}
	if o.plot == "" {
		return nil
	}
	lines, err := readLines(o.draw)
	if err != nil {
		return err
	}
	return draw(lines, o.memory, o.plot)
}

// measure runs the jobs.
func (o *options) measure(ctx context.Context) (err error) {
	if o.state == "" {
		if o.state, err = os.MkdirTemp("", "cascade-stream-"); err != nil {
			return fmt.Errorf("make the state folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.state)) }()
	}
	c, err := cascade.Local(ctx, cascade.WithState(o.state), cascade.WithStoreMemory(o.memory<<20),
		cascade.WithRetention(cascade.Retention{Jobs: o.keep}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	f, err := os.Create(o.csv)
	if err != nil {
		return fmt.Errorf("make the csv: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var done atomic.Int64
	record := recorder{out: csv.NewWriter(f), store: filepath.Join(o.state, "controller", "store"), done: &done, began: time.Now()}
	if err := record.begin(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var recording sync.WaitGroup
	recording.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := record.line(); err != nil {
					cancel(err)
				}
			}
		}
	})
	last, err := o.jobs(ctx, c, &done)
	cancel(err)
	recording.Wait()
	if err == nil {
		err = o.finish(c, last, &record)
	}
	return errors.Join(err, record.end())
}

// jobs submits job after job, some at a time, and returns the last.
func (o *options) jobs(ctx context.Context, c *cascade.Cluster, done *atomic.Int64) (last *cascade.Job, err error) {
	type running struct {
		job   *cascade.Job
		tasks int64
	}
	var open []running
	wait := func() error {
		r := open[0]
		open = open[1:]
		if _, err := r.job.Wait(ctx); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		done.Add(r.tasks)
		return nil
	}
	for at := int64(0); at < o.tasks; {
		n := min(o.each, o.tasks-at)
		b := dag.NewBuilder("stream")
		b.Add(dag.Group{Name: "noop", Axes: []dag.Axis{dag.Range("i", at, at+n-1)}, Run: dag.Run{Function: noop}})
		g, err := b.Build()
		if err != nil {
			return nil, err
		}
		if last, err = c.Submit(ctx, g); err != nil {
			return nil, errors.Join(err, context.Cause(ctx))
		}
		open = append(open, running{last, n})
		at += n
		if len(open) == o.ahead {
			if err := wait(); err != nil {
				return nil, err
			}
		}
	}
	for len(open) > 0 {
		if err := wait(); err != nil {
			return nil, err
		}
	}
	return last, nil
}

// finish counts the rows of the last job, and tells what the run came to.
func (o *options) finish(c *cascade.Cluster, last *cascade.Job, record *recorder) error {
	took := time.Since(record.began)
	if err := record.line(); err != nil {
		return err
	}
	rows := int64(0)
	for row, err := range cascade.EachRow[comms.TaskRow](context.Background(), c.Client, comms.QueryTasks, last.ID(), "") {
		if err != nil {
			return err
		}
		if row.State != "done" || row.Attempt == 0 || row.Started == "" {
			return fmt.Errorf("the row of %s is not that of a task that is done: %+v", row.Name, *row)
		}
		rows++
	}
	if want := (o.tasks-1)%o.each + 1; rows != want {
		return fmt.Errorf("the last job has %d rows, want %d", rows, want)
	}
	jobs, err := cascade.Rows[comms.JobRow](context.Background(), c.Client, comms.QueryJobs, comms.JobID{}, "")
	if err != nil {
		return err
	}
	fmt.Printf("%d tasks in %.1f s: %.0f tasks/s; most memory %d MiB without files, of which the store's own at most %d (--gcs-memory: %d); store on disk %d MiB at most, %d at the end; %d jobs stay\n",
		o.tasks, took.Seconds(), float64(o.tasks)/took.Seconds(), record.peak.anon>>20, record.peak.heap>>20, o.memory, record.peak.disk>>20, record.last.disk>>20, len(jobs))
	if record.peak.heap > o.memory<<20 {
		return fmt.Errorf("the store had %d MiB in memory, more than its %d", record.peak.heap>>20, o.memory)
	}
	return nil
}

// sample is a line of the CSV: sizes are in bytes.
type sample struct {
	seconds float64
	tasks   int64
	anon    int64 // RssAnon of the process with controller, agent and client
	mapped  int64 // resident pages of the store's files, which the kernel may take back
	disk    int64 // of the store
	heap    int64 // of anon, what is the store's own: see storeHeap
}

var columns = []string{"seconds", "tasks", "rss_anon", "store_mapped", "store_disk", "store_heap"}

type recorder struct {
	out        *csv.Writer
	store      string
	done       *atomic.Int64
	began      time.Time
	heap       storeHeap
	peak, last sample
}

func (r *recorder) begin() error {
	if err := r.out.Write(columns); err != nil {
		return err
	}
	return r.line()
}

func (r *recorder) line() error {
	s := sample{seconds: time.Since(r.began).Seconds(), tasks: r.done.Load()}
	var err error
	if s.anon, s.mapped, err = memory(r.store); err != nil {
		return err
	}
	if s.disk, err = diskOf(r.store); err != nil {
		return err
	}
	s.heap = r.heap.bytes()
	r.last = s
	r.peak.anon, r.peak.mapped, r.peak.disk = max(r.peak.anon, s.anon), max(r.peak.mapped, s.mapped), max(r.peak.disk, s.disk)
	r.peak.heap = max(r.peak.heap, s.heap)
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	return r.out.Write([]string{strconv.FormatFloat(s.seconds, 'f', 2, 64), n(s.tasks), n(s.anon), n(s.mapped), n(s.disk), n(s.heap)})
}

func (r *recorder) end() error {
	r.out.Flush()
	return r.out.Error()
}

// diskOf is what the files below a folder occupy.
func diskOf(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		sum += blocks(info)
		return nil
	})
	return sum, err
}
