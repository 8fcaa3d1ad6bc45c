package cascade

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/client"
)

// Job is a handle on a submitted job. Its methods may be called from any goroutine.
type Job struct {
	client *Client
	id     comms.JobID
	graph  *dag.Graph                   // of a job that this handle submitted, else nil
	told   atomic.Pointer[subscription] // of a job that this handle submitted, while no caller waits for it
}

// subscription is the open end of a Submit: result and end are told there.
type subscription struct {
	request *client.Request
	result  bool // was told
}

// ID returns the job's name, which is unique everywhere.
func (j *Job) ID() comms.JobID { return j.id }

// Graph returns the graph as this handle submitted it, with its environments packed; nil of a
// job that was submitted elsewhere.
func (j *Job) Graph() *dag.Graph { return j.graph }

// Progress tells how a job stands.
type Progress = comms.Progress

// Watch calls yield with the job's progress: at once, then when it changed, at
// most once in every, and a last time when its end is durable. It returns when
// the job has ended, when yield returns false, or when ctx ends; the job goes on.
func (j *Job) Watch(ctx context.Context, every time.Duration, yield func(*Progress) bool) error {
	return j.watch(ctx, every, false, yield)
}

// Events is like Watch; each Progress also carries the events since the last one.
func (j *Job) Events(ctx context.Context, every time.Duration, yield func(*Progress) bool) error {
	return j.watch(ctx, every, true, yield)
}

func (j *Job) watch(ctx context.Context, every time.Duration, events bool, yield func(*Progress) bool) error {
	return j.subscribe(ctx, &comms.Watch{Job: j.id, Every: int64(every), Events: events}, yield)
}

// subscribe sends a watch and follows it.
func (j *Job) subscribe(ctx context.Context, m *comms.Watch, yield func(*Progress) bool) error {
	c, err := j.client.conn.Start(func(req uint64) comms.Message {
		m.Req = req
		return m
	})
	if err != nil {
		return fmt.Errorf("watch job %s: %w", j.id, err)
	}
	defer c.End()
	return j.follow(ctx, c, yield)
}

func (j *Job) follow(ctx context.Context, c *client.Request, yield func(*Progress) bool) error {
	for {
		m, _, err := c.Next(ctx)
		if err != nil {
			return fmt.Errorf("watch job %s: %w", j.id, err)
		}
		p, ok := m.(*comms.Progress)
		if !ok {
			return fmt.Errorf("watch job %s: unexpected answer %T", j.id, m)
		}
		if !yield(p) || p.Final {
			return nil
		}
	}
}

// Wait waits until the job's end is durable. The error is a *JobError when the
// job failed or was cancelled, and wraps the *TaskError that was the cause.
func (j *Job) Wait(ctx context.Context) (*Progress, error) {
	return j.until(ctx, func(p *Progress) bool { return p.Final }, false)
}

// WaitResult waits until every exported dataset is there, which may come before
// the end is durable, or until the job has ended without them.
func (j *Job) WaitResult(ctx context.Context) (*Progress, error) {
	return j.until(ctx, func(p *Progress) bool { return p.Result || p.Final }, true)
}

// until waits on the subscription of the job's submit, when it has one that
// no other caller waits on and that has not told the result before, else on a new one.
func (j *Job) until(ctx context.Context, enough func(*Progress) bool, result bool) (last *Progress, err error) {
	yield := func(p *Progress) bool {
		last = p
		return !enough(p)
	}
	if s := j.told.Swap(nil); s != nil && !(result && s.result) {
		err = j.follow(ctx, s.request, func(p *Progress) bool {
			s.result = s.result || p.Result
			return yield(p)
		})
		if err == nil && !last.Final || ctx.Err() != nil {
			j.told.Store(s)
		}
	} else {
		if s != nil {
			j.told.Store(s)
		}
		err = j.watch(ctx, -1, false, yield)
	}
	if err != nil {
		return last, err
	}
	return last, JobResult(last)
}

// JobResult returns the error that a job's last Progress stands for: nil when
// it is done or still running, else a *JobError.
func JobResult(p *Progress) error {
	e := &JobError{Job: p.Job, Name: p.Name, Phase: p.Phase}
	switch {
	case p.Phase == comms.JobFailed:
		e.Cause = p.Error
	case p.Phase != comms.JobCancelled:
		return nil
	case p.Error != nil:
		e.Reason = p.Error.Message
	}
	return e
}

// Cancel stops what runs of the job and starts nothing more of it.
func (j *Job) Cancel(ctx context.Context, reason string) error {
	return j.control(ctx, "cancel", comms.SteerCancel, nil, reason)
}

// Hold starts nothing more of the job until Release. Running tasks go on. Tasks that
// were sent to start behind them return; only those that were joined into one run to
// pass values on, of which the first has begun, run to their end.
func (j *Job) Hold(ctx context.Context, reason string) error {
	return j.control(ctx, "hold", comms.SteerHold, nil, reason)
}

// Release ends a Hold.
func (j *Job) Release(ctx context.Context) error {
	return j.control(ctx, "release", comms.SteerRelease, nil, "")
}

// Rerun runs the named tasks again, and everything that depends on them.
func (j *Job) Rerun(ctx context.Context, tasks ...string) error {
	return j.RerunFor(ctx, "", tasks...)
}

// RerunFor is Rerun with a reason, for the audit log.
func (j *Job) RerunFor(ctx context.Context, reason string, tasks ...string) error {
	return j.control(ctx, "rerun", comms.SteerRerun, tasks, reason)
}

// Forget frees everything the cluster keeps of an ended job.
func (j *Job) Forget(ctx context.Context) error {
	return j.control(ctx, "forget", comms.SteerForget, nil, "")
}

func (j *Job) control(ctx context.Context, verb string, action comms.SteerAction, tasks []string, reason string) error {
	_, err := j.client.conn.Ask(ctx, func(req uint64) comms.Message {
		return &comms.Control{Req: req, Job: j.id, Action: action, Tasks: tasks, Reason: reason}
	})
	if err != nil {
		return fmt.Errorf("%s job %s: %w", verb, j.id, err)
	}
	return nil
}

// Located is a dataset and where it is.
type Located = comms.LocatedData

// Locate finds datasets by name: TASK.OUTPUT, TASK.OUTPUT[ELEMENT], or TASK when
// it has one output. Without names it finds the job's exported datasets.
func (j *Job) Locate(ctx context.Context, names ...string) ([]Located, error) {
	l, err := j.locate(ctx, comms.Locate{Names: names})
	return l.Data, err
}

// LocateThere is Locate, and names the datasets of families that are not there: their
// tasks have failed, or have not ended.
func (j *Job) LocateThere(ctx context.Context, names ...string) (located []Located, missing []string, err error) {
	l, err := j.locate(ctx, comms.Locate{Names: names, Partly: len(names) == 0})
	return l.Data, l.Missing, err
}

func (j *Job) locate(ctx context.Context, want comms.Locate) (comms.Located, error) {
	m, err := j.client.conn.Ask(ctx, func(req uint64) comms.Message {
		want.Req, want.Job = req, j.id
		return &want
	})
	if err != nil {
		return comms.Located{}, fmt.Errorf("locate datasets of job %s: %w", j.id, err)
	}
	l, ok := m.(*comms.Located)
	if !ok {
		return comms.Located{}, fmt.Errorf("locate datasets of job %s: unexpected answer %T", j.id, m)
	}
	return *l, nil
}

// Fetch writes the bytes of a dataset to w, as they lie in the store: codec,
// dtype and shape are in d.Desc.
func (j *Job) Fetch(ctx context.Context, d Located, w io.Writer) error {
	if d.Desc.Place.Kind == comms.PlaceInline {
		if _, err := w.Write(d.Desc.Place.Bytes); err != nil {
			return fmt.Errorf("fetch %s: %w", d.Name, err)
		}
		return nil
	}
	if d.Desc.Size == 0 {
		return nil
	}
	id := comms.DatasetID{Job: j.id, DatasetRef: d.Desc.Ref}
	if _, err := j.client.conn.Fetch(ctx, d.Agent, d.Addresses, &comms.Fetch{Data: id}, d.Desc.Size, w); err != nil {
		return fmt.Errorf("fetch %s from agent %s: %w", d.Name, d.Agent, err)
	}
	return nil
}

// Log writes what a task wrote, from offset on, to w, and returns the offset behind it.
func (j *Job) Log(ctx context.Context, task string, offset uint64, w io.Writer) (uint64, error) {
	rows, err := j.logRows(ctx, task)
	switch {
	case err != nil:
		return offset, err
	case len(rows) > 1:
		return offset, fmt.Errorf("log of %s: %w: these are %d tasks, of which Logs writes all", task, ErrBadRequest, len(rows))
	}
	ended := map[string]uint64{rows[0].Name: offset}
	err = j.writeLogs(ctx, rows, ended, func(comms.TaskRow) io.Writer { return w })
	return ended[rows[0].Name], err
}

// Logs writes what the tasks of a name wrote: of a task, of a family such as
// spread or spread[*,500], or of all tasks when the name is empty. Tasks that have
// failed come first. to returns where the log of a task goes, nil for nowhere.
// The text behind a task's offset is written, and the offset moved: a caller that
// follows a log passes the same offsets again. It returns how the tasks stood before.
func (j *Job) Logs(ctx context.Context, name string, offsets map[string]uint64, to func(comms.TaskRow) io.Writer) ([]comms.TaskRow, error) {
	rows, err := j.logRows(ctx, name)
	if err != nil {
		return nil, err
	}
	order := func(r comms.TaskRow) int {
		if r.State == "failed" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b comms.TaskRow) int { return cmp.Compare(order(a), order(b)) })
	return rows, j.writeLogs(ctx, rows, offsets, to)
}

func (j *Job) logRows(ctx context.Context, name string) ([]comms.TaskRow, error) {
	rows, err := Rows[comms.TaskRow](ctx, j.client, comms.QueryTasks, j.id, name)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	for i := 0; len(rows) == 0 && i < len(name); i++ { // a called task: what it wrote is where the one runs from which its calls come
		if name[i] == '/' {
			if rows, err = Rows[comms.TaskRow](ctx, j.client, comms.QueryTasks, j.id, name[:i]); err != nil {
				return nil, fmt.Errorf("log of %s: %w", name, err)
			}
			if rows = slices.DeleteFunc(rows, func(r comms.TaskRow) bool { return r.Name != name[:i] }); len(rows) > 0 {
				rows[0].Name = name
			}
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("log of %s: %w: no such task in job %s", name, ErrNotFound, j.id)
	}
	return rows, nil
}

func (j *Job) writeLogs(ctx context.Context, rows []comms.TaskRow, offsets map[string]uint64, to func(comms.TaskRow) io.Writer) error {
	agents, err := Rows[comms.AgentRow](ctx, j.client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return fmt.Errorf("log of %s: %w", rows[0].Name, err)
	}
	for _, r := range rows {
		w := to(r)
		if r.Agent == "" || w == nil { // it has not run yet
			continue
		}
		at := slices.IndexFunc(agents, func(a comms.AgentRow) bool { return a.Name == r.Agent })
		if at < 0 {
			return fmt.Errorf("log of %s: %w: agent %s, where it ran, is not there", r.Name, ErrUnavailable, r.Agent)
		}
		n, err := j.client.conn.Fetch(ctx, r.Agent, agents[at].Addresses, &comms.Fetch{Log: true, Task: r.Name, Data: comms.DatasetID{Job: j.id}, Offset: offsets[r.Name]}, 0, w)
		offsets[r.Name] += n
		if err != nil {
			return fmt.Errorf("log of %s: %w", r.Name, err)
		}
	}
	return nil
}
