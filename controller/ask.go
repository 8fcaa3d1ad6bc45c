package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// Bounds of a page.
const (
	defaultRows = 500
	maxRows     = 10_000
	maxPage     = 4 << 20 // bytes
)

// heard corrects the rows of agents by what only their links know: when each was
// heard last, and whether its link is broken and may come back. The core is not told
// of that: to it such an agent is still there.
func (c *Controller) heard(rows []comms.AgentRow, now time.Time) {
	at, links := map[string]int{}, make([]*peer, len(rows))
	ids := make([]core.LinkID, len(rows))
	for i := range rows {
		at[rows[i].Name] = i
	}
	for id, p := range c.peers {
		if i, ok := at[p.who.Name]; ok && p.who.Role == "agent" && id > ids[i] {
			ids[i], links[i] = id, p
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range links {
		row := &rows[i]
		if p == nil || row.State != "ready" && row.State != "connecting" && row.State != "leaving" {
			continue
		}
		last := now
		if since, broken := c.broken[p.link]; broken {
			last = since
			if row.State != "leaving" {
				row.State = "away"
			}
		}
		row.Seen = last.Add(-p.link.Quiet()).UTC().Format(time.RFC3339Nano)
	}
}

// ask answers a question from a snapshot of the store, beside the loop.
func (c *Controller) ask(a core.Ask) {
	c.heard(a.Agents, time.Now())
	var losses lossesNow
	var unread error
	switch q, ok := a.Msg.(*comms.Query); {
	case ok && q.Kind == comms.QueryStory:
		losses.alone = c.noAgent()
	case ok && q.Kind == comms.QueryLosses:
		losses, unread = c.lossesNow(q.Job)
	}
	c.slow(func() {
		var m comms.Message
		var err error
		var req uint64
		switch q := a.Msg.(type) {
		case *comms.Query:
			req = q.Req
			if err = unread; err == nil {
				m, err = c.page(q, &a, losses)
			}
		case *comms.Locate:
			req = q.Req
			m, err = c.located(q, a.Graph)
		case *comms.Watch:
			req = q.Req
			var row records.Job
			if row, err = c.store.Job(q.Job); err == nil {
				m = core.EndOf(&row, q.Req)
			}
		default:
			err = fmt.Errorf("no answer to a %T", a.Msg)
		}
		if err != nil {
			m = &comms.Reply{Req: req, Code: codeOf(err), Message: err.Error()}
		}
		c.done(core.Answered{Token: a.Token, Msg: m})
	})
}

// noJob says that there is no such job.
type noJob struct{ id comms.JobID }

func (e *noJob) Error() string { return fmt.Sprintf("no job %s", e.id) }

// Is tells that a caller treats it as what the store does not have.
func (*noJob) Is(target error) bool { return target == gcs.ErrNotFound }

// pager collects the rows of one page. Rows before start are passed over.
type pager struct {
	page  comms.Page
	batch uint64 // of the store, from whose begin on start counts; 0 for most rows
	other uint64 // rows of another list that come before that batch
	start uint64
	at    uint64
	limit int
	bytes int
	err   error
}

func newPager(q *comms.Query) (*pager, error) {
	p := &pager{page: comms.Page{Req: q.Req}, limit: int(min(q.Limit, maxRows))}
	if p.limit == 0 {
		p.limit = defaultRows
	}
	n := len(q.Cursor)
	story := n == 24 && (q.Kind == comms.QueryStory || q.Kind == comms.QueryCalls || q.Kind == comms.QueryRecords)
	switch jobs := q.Kind == comms.QueryJobs; {
	case n == 0:
	case jobs && n == len(comms.JobID{}): // see jobRows
	case n == 8 && !jobs, story:
		p.start = binary.BigEndian.Uint64(q.Cursor)
	default:
		return nil, &badRequest{"the cursor is not one that the controller returned for this kind of query"}
	}
	if story {
		p.batch, p.other = binary.BigEndian.Uint64(q.Cursor[8:]), binary.BigEndian.Uint64(q.Cursor[16:])
	}
	return p, nil
}

// next begins another batch, before which other rows of another list were offered: a later
// page need not read those before it.
func (p *pager) next(batch, other uint64) {
	if batch > p.batch {
		p.batch, p.start, p.at, p.other = batch, 0, 0, other
	}
}

// add offers the next row; row is called only when it is on the page. It returns
// false when the page is full or could not be made.
func (p *pager) add(row func() any) bool {
	if p.at++; p.at <= p.start {
		return true
	}
	if len(p.page.Rows) >= p.limit || p.bytes > maxPage {
		p.page.Cursor = binary.BigEndian.AppendUint64(nil, p.at-1)
		if p.batch > 0 {
			p.page.Cursor = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(p.page.Cursor, p.batch), p.other)
		}
		return false
	}
	v := row()
	if p.err != nil {
		return false
	}
	b, ok := v.([]byte)
	if !ok {
		if b, p.err = msgpack.Marshal(v); p.err != nil {
			return false
		}
	}
	p.page.Rows = append(p.page.Rows, b)
	p.bytes += len(b)
	return true
}

func (c *Controller) page(q *comms.Query, a *core.Ask, losses lossesNow) (comms.Message, error) {
	g := a.Graph
	p, err := newPager(q)
	if err != nil {
		return nil, err
	}
	if !q.Job.IsZero() {
		if err := c.barrierUntil(q.Job, c.pause.begun()); err != nil { // on a full disk rows are those that are stored
			return nil, err
		}
		if g == nil {
			if g, err = c.graph(q.Job); errors.Is(err, gcs.ErrNotFound) {
				return nil, &noJob{q.Job}
			} else if err != nil {
				return nil, err
			}
		}
	}
	switch q.Kind {
	case comms.QueryAgents:
		for i := range a.Agents {
			if !p.add(func() any { return &a.Agents[i] }) {
				break
			}
		}
	case comms.QueryUse:
		for i := range a.Uses {
			if !p.add(func() any { return &a.Uses[i] }) {
				break
			}
		}
	case comms.QueryJobs:
		err = c.jobRows(p, q, a.Waits)
	case comms.QueryTasks:
		err = c.taskRows(p, q, g)
	case comms.QueryDatasets:
		err = c.datasetRows(p, q, g)
	case comms.QueryEnvironments:
		err = c.environmentRows(p, q, g)
	case comms.QueryStory:
		err = c.storyRows(p, q, g, losses.alone)
	case comms.QueryCalls:
		err = c.callRows(p, q, g)
	case comms.QueryRecords:
		err = c.recordRows(p, q)
	case comms.QueryLosses:
		err = c.lossRows(p, q.Job, losses)
	case comms.QueryGraph:
		var b []byte
		if b, err = c.store.Graph(q.Job); err == nil {
			p.add(func() any { return b })
		}
	case comms.QueryProfiles:
		err = c.profileRows(p, q.Filter)
	case comms.QueryLinks:
		err = c.linkRows(p, q.Filter)
	case comms.QueryPlan:
		err = c.planRows(p, q.Job, g, a.Cluster)
	default:
		err = &badRequest{fmt.Sprintf("unknown kind of query %q", q.Kind)}
	}
	if err == nil {
		err = p.err
	}
	if err != nil {
		return nil, err
	}
	return &p.page, nil
}

func (c *Controller) graph(job comms.JobID) (*dag.Graph, error) {
	b, err := c.store.Graph(job)
	if err != nil {
		return nil, err
	}
	return c.cfg.Graphs.Decode(b)
}

// stamp prints a time as rows have it, "" for none.
func stamp(ns int64) string {
	if ns == 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339Nano)
}

// jobRows lists jobs, those submitted last first; JobIDs grow with time. A filter
// is a name, a phase or one of comms.FilterOpen and the like. The cursor is the ID of the last job on the page before: a
// page reads no row of those.
func (c *Controller) jobRows(p *pager, q *comms.Query, waits map[comms.JobID]string) error {
	if !q.Job.IsZero() {
		r, err := c.store.Job(q.Job)
		if err != nil {
			return err
		}
		if ok, err := c.matches(&r, q.Filter); !ok {
			return err
		}
		p.add(func() any { return jobRow(&r, waits) })
		return nil
	}
	var last comms.JobID
	copy(last[:], q.Cursor)
	for r, err := range c.store.JobsBefore(last) {
		if err != nil {
			return err
		}
		if ok, err := c.matches(&r, q.Filter); err != nil {
			return err
		} else if !ok {
			continue
		}
		if !p.add(func() any { return jobRow(&r, waits) }) {
			p.page.Cursor = last[:]
			return nil
		}
		last = r.ID
	}
	return nil
}

func (c *Controller) matches(r *records.Job, filter string) (bool, error) {
	switch filter {
	case "", r.Name, r.Phase.String():
		return true, nil
	case comms.FilterOpen:
		return !r.Phase.Final(), nil
	case comms.FilterSessions:
		return c.isSession(r)
	case comms.FilterOpenSessions:
		if r.Phase.Final() {
			return false, nil
		}
		return c.isSession(r)
	}
	return false, nil
}

// isSession tells whether a job is that of a session. The name of another may begin alike, so the graph decides.
func (c *Controller) isSession(r *records.Job) (bool, error) {
	if !strings.HasPrefix(r.Name, dag.SessionPrefix) {
		return false, nil
	}
	g, err := c.graph(r.ID)
	if errors.Is(err, gcs.ErrNotFound) {
		return false, nil // it was removed meanwhile
	}
	return err == nil && g.IsSession(), err
}

func jobRow(r *records.Job, waits map[comms.JobID]string) *comms.JobRow {
	row := &comms.JobRow{ID: r.ID.String(), Name: r.Name, Phase: r.Phase.String(), Tenant: r.Tenant, Priority: r.Priority, Labels: r.Labels,
		Tasks: r.Totals.Tasks, Done: r.Totals.Done, Failed: r.Totals.Failed, Submitted: stamp(r.Submitted), Ended: stamp(r.Ended), Dir: r.Dir, Waits: waits[r.ID]}
	if why := r.Why(); why != nil {
		row.Error = why.Error()
	}
	return row
}

func (c *Controller) datasetRows(p *pager, q *comms.Query, g *dag.Graph) error {
	if !q.Job.IsZero() {
		return c.jobDatasets(p, q.Job, g)
	}
	return c.eachJob(p, func(job comms.JobID, g *dag.Graph) error { return c.jobDatasets(p, job, g) })
}

// eachJob adds the rows of one job after the other until the page is full.
func (c *Controller) eachJob(p *pager, add func(comms.JobID, *dag.Graph) error) error {
	for row, err := range c.store.Jobs() {
		if err != nil {
			return err
		}
		g, err := c.graph(row.ID)
		if err != nil {
			return err
		}
		if err := add(row.ID, g); err != nil || p.page.Cursor != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) jobDatasets(p *pager, job comms.JobID, g *dag.Graph) error {
	rows, err := c.store.Datasets(job)
	if err != nil {
		return err
	}
	for i := range rows {
		d := &rows[i].Desc
		if !p.add(func() any {
			return &comms.DatasetRow{Job: job.String(), Name: g.DatasetName(dag.Dataset(d.Ref)), Attempt: comms.Try(d.Attempt), Codec: d.Codec, DType: d.DType,
				Shape: d.Shape, Size: d.Size, Place: placeName(d.Place.Kind), Agent: rows[i].Agent}
		}) {
			break
		}
	}
	return nil
}

func placeName(k comms.PlaceKind) string {
	switch k {
	case comms.PlaceInline:
		return "store"
	case comms.PlaceSegment:
		return "memory"
	case comms.PlaceDisk:
		return "disk"
	case comms.PlaceLive:
		return "executor"
	case comms.PlaceAgent:
		return "agent"
	case comms.PlaceNone:
	}
	return "lost"
}

// planRows shows the plan that was found for jobs of this graph on the agents that are
// there, else a first plan.
func (c *Controller) planRows(p *pager, job comms.JobID, g *dag.Graph, cl planner.Cluster) error {
	row, err := c.store.Job(job)
	if err != nil {
		return err
	}
	plan := c.graphs.followed(row.GraphHash, &cl)
	if plan == nil {
		if plan, err = c.firstPlan(g, cl); err != nil {
			return err
		}
	}
	for i := range plan.Tasks {
		t, id := &plan.Tasks[i], dag.TaskIndex(i)
		if !p.add(func() any {
			row := &comms.PlanRow{Task: g.TaskName(id), Rank: plan.Ranks[i], Start: t.Start, Finish: t.Finish, Reason: plan.Reason(g, id), Held: plan.HeldText(g, id)}
			if t.Host >= 0 {
				row.Host = plan.Hosts[t.Host]
			}
			return row
		}) {
			break
		}
	}
	return nil
}

// firstPlan is a plan for the agents that are there; when none is, for those that have been.
func (c *Controller) firstPlan(g *dag.Graph, cl planner.Cluster) (*planner.Plan, error) {
	if len(cl.Hosts) == 0 {
		agents, err := c.store.Agents()
		if err != nil {
			return nil, err
		}
		for i := range agents {
			cl.Hosts = append(cl.Hosts, core.HostOf(&agents[i]))
		}
	}
	return planner.Make(g, c.snapshot(g), cl)
}

// seconds turns nanoseconds into rounded seconds.
func seconds(ns int64) float64 { return math.Round(float64(ns)/1e3) / 1e6 }
