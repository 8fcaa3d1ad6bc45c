package ui

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// shownRows is the most rows of a list that a page shows at once.
const shownRows = 200

// list is some rows of a list. Next asks for those behind them; empty: there are no more.
type list[T any] struct {
	Rows []T    `json:"rows"`
	Next string `json:"next,omitempty"`
}

func listOf[T any](ctx context.Context, s Source, q comms.Query) (list[T], error) {
	rows, cursor, err := pageOf[T](ctx, s, q, shownRows)
	if rows == nil {
		rows = []T{}
	}
	return list[T]{rows, base64.RawURLEncoding.EncodeToString(cursor)}, err
}

// openJobs is the state of the topic jobs: those that have not ended, and the newest of all.
func (h *Handler) openJobs(ctx context.Context) (any, error) {
	open, err := listOf[comms.JobRow](ctx, h.cfg.Source, comms.Query{Kind: comms.QueryJobs, Filter: comms.FilterOpen})
	if err != nil {
		return nil, err
	}
	newest, err := listOf[comms.JobRow](ctx, h.cfg.Source, comms.Query{Kind: comms.QueryJobs})
	return map[string]any{"open": open, "newest": newest}, err
}

// jobs answers with jobs of a name or phase, and those behind a cursor.
func (h *Handler) jobs(r *http.Request) (any, error) {
	q, err := queryOf(r, comms.QueryJobs)
	if err != nil {
		return nil, err
	}
	return listOf[comms.JobRow](r.Context(), h.cfg.Source, q)
}

// queryOf is the query that a request describes: filter, and cursor of the page before.
func queryOf(r *http.Request, kind string) (comms.Query, error) {
	v := r.URL.Query()
	cursor, err := base64.RawURLEncoding.DecodeString(v.Get("cursor"))
	if err != nil {
		return comms.Query{}, badf("the cursor is not one that a list returned")
	}
	return comms.Query{Kind: kind, Filter: v.Get("filter"), Cursor: cursor}, nil
}

// tasks answers with tasks of a job, of a family or state.
func (h *Handler) tasks(r *http.Request) (any, error) {
	q, err := queryOf(r, comms.QueryTasks)
	if err != nil {
		return nil, err
	}
	if q.Job, err = jobOf(r); err != nil {
		return nil, err
	}
	l, err := listOf[comms.TaskRow](r.Context(), h.cfg.Source, q)
	for i := range l.Rows {
		soFar(&l.Rows[i], h.cfg.Now())
		l.Rows[i].LogTail = "" // the log has it
	}
	return l, err
}

// counts are tasks by state.
type counts struct {
	Name      string `json:"name,omitempty"`
	Total     uint64 `json:"total"`
	Ready     uint64 `json:"ready"`
	Running   uint64 `json:"running"`
	Done      uint64 `json:"done"`
	Failed    uint64 `json:"failed"`
	Skipped   uint64 `json:"skipped"`
	Cancelled uint64 `json:"cancelled"`
	Retries   uint64 `json:"retries"`
}

func (c *counts) add(g *comms.GroupCounts) {
	c.Total, c.Ready, c.Running, c.Done = c.Total+g.Total, c.Ready+g.Ready, c.Running+g.Running, c.Done+g.Done
	c.Failed, c.Skipped, c.Cancelled, c.Retries = c.Failed+g.Failed, c.Skipped+g.Skipped, c.Cancelled+g.Cancelled, c.Retries+g.Retries
}

// jobState is the state of the topic job:ID. Times are RFC 3339, durations seconds, sizes bytes.
type jobState struct {
	Row      comms.JobRow `json:"row"`
	Phase    string       `json:"phase"`
	Final    bool         `json:"final"`
	Started  string       `json:"started,omitempty"`
	Ended    string       `json:"ended,omitempty"`
	Took     float64      `json:"took"`
	Total    counts       `json:"total"`
	Families []counts     `json:"families"`
	Waits    string       `json:"waits,omitempty"`
	Late     string       `json:"late,omitempty"`
	Error    *jobError    `json:"error,omitempty"`
	TaskTime float64      `json:"task_seconds"`
	BytesOut uint64       `json:"bytes_out"`
	Spilled  uint64       `json:"spilled"`
	Copied   uint64       `json:"copied"`
	Differs  string       `json:"differs,omitempty"`
}

type jobError struct {
	Task    string `json:"task,omitempty"`
	Message string `json:"message"`
	Host    string `json:"host,omitempty"`
}

// stateOf is how a job stands, for pages.
func stateOf(row comms.JobRow, p *comms.Progress) *jobState {
	s := &jobState{Row: row, Phase: p.Phase.String(), Final: p.Phase.Final(), Started: stamp(p.Started), Ended: stamp(p.Ended), Took: p.Took().Seconds(), Families: []counts{},
		Waits: p.Waits, Late: p.Late, TaskTime: time.Duration(p.TaskTime).Seconds(), BytesOut: p.BytesOut, Spilled: p.Spilled, Copied: p.Copied, Differs: p.Differing}
	for i := range p.Groups {
		c := counts{Name: p.Groups[i].Group}
		c.add(&p.Groups[i])
		s.Families = append(s.Families, c)
		s.Total.add(&p.Groups[i])
	}
	if e := p.Error; e != nil {
		s.Error = &jobError{e.Task, e.Message, e.Agent}
	}
	return s
}

func stamp(nanoseconds int64) string {
	if nanoseconds == 0 {
		return ""
	}
	return time.Unix(0, nanoseconds).UTC().Format(time.RFC3339Nano)
}

// soFar sets how long a task that runs has taken up to now.
func soFar(t *comms.TaskRow, now time.Time) {
	if t.State != "running" {
		return
	}
	if at, err := time.Parse(time.RFC3339Nano, t.Started); err == nil {
		t.Seconds = max(t.Seconds, now.Sub(at).Seconds()) // its host's clock may be ahead of ours
	}
}

// watchEvery is the shortest pause between two states of a job.
const watchEvery = 500 * time.Millisecond

// watchJob keeps the state of the topic job:ID. A job that has ended is asked for again now and
// then: it may be run again.
func (h *Handler) watchJob(ctx context.Context, t *topic, id comms.JobID) {
	var row comms.JobRow
	for ctx.Err() == nil {
		rows, err := rowsOf[comms.JobRow](ctx, h.cfg.Source, comms.QueryJobs, id, "", 1)
		if err == nil && len(rows) == 1 {
			row = rows[0]
		}
		if err == nil {
			err = h.cfg.Source.Watch(ctx, id, watchEvery, func(p *comms.Progress) bool {
				t.set(stateOf(row, p), nil)
				return true
			})
		}
		switch {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, cascade.ErrNotFound):
			t.failed(fmt.Errorf("there is no such job, it may have been removed: %w", err))
		default:
			t.failed(err)
		}
		rest(ctx, 2*time.Second)
	}
}

// log answers with the end of what a task wrote, or, with from, what it wrote from there on.
func (h *Handler) log(r *http.Request) (any, error) {
	id, err := jobOf(r)
	if err != nil {
		return nil, err
	}
	v := r.URL.Query()
	task := v.Get("task")
	if task == "" {
		return nil, badf("the log of which task? task=NAME names it")
	}
	from, err := strconv.ParseUint(v.Get("from"), 10, 64)
	if err != nil { // of its end
		_, total, err := h.cfg.Source.Log(r.Context(), id, task, 0, 1)
		if err != nil {
			return nil, err
		}
		from = total - min(total, logBytes)
	}
	text, total, err := h.cfg.Source.Log(r.Context(), id, task, from, logBytes)
	if err != nil {
		return nil, err
	}
	return map[string]any{"from": from, "next": from + uint64(len(text)), "total": total, "text": string(text)}, nil
}

// logBytes is how much of a log a page is given at once.
const logBytes = 256 << 10
