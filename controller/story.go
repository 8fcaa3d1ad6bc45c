package controller

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/controller/members"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// badRequest is an error of the one who asks.
type badRequest struct{ text string }

func (e *badRequest) Error() string { return e.text }

func codeOf(err error) comms.Code {
	var bad *badRequest
	switch {
	case errors.As(err, &bad), errors.Is(err, members.ErrInvalid):
		return comms.CodeBadRequest
	case errors.Is(err, gcs.ErrNotFound), errors.Is(err, members.ErrUnknown):
		return comms.CodeNotFound
	case errors.Is(err, comms.ErrDenied), errors.Is(err, pki.ErrRevoked):
		return comms.CodeDenied
	case errors.Is(err, gcs.ErrClosed), errors.Is(err, gcs.ErrNoSpace):
		return comms.CodeUnavailable
	}
	return comms.CodeInternal
}

// taskRows lists tasks by index. The first pass over the batches finds where
// each task stands, the second what is known of those on the page: memory is a
// byte a task, and a row for each task of the page.
func (c *Controller) taskRows(p *pager, q *comms.Query, g *dag.Graph) error {
	tasks, named := core.Choose(g, q.Filter)
	part, listed := pageOf(p, q, g, tasks, named)
	r := core.NewReplay(g, false)
	for b, err := range c.store.BatchesOf(q.Job, part) {
		if err != nil {
			return err
		}
		r.Add(&b)
	}
	rows := map[dag.TaskIndex]*comms.TaskRow{}
	begun := map[*comms.TaskRow]uint32{} // the last attempt that did
	var order []*comms.TaskRow
	row := func(i dag.TaskIndex) {
		s, attempt := r.States.Get(i)
		rows[i] = &comms.TaskRow{Name: g.TaskName(i), Index: uint32(i), Group: g.Group(i).Name, State: s.String(), Attempt: comms.Try(attempt)}
		order = append(order, rows[i])
	}
	for _, i := range listed {
		row(i)
	}
	if listed == nil {
		full := false
		r.States.Each(func(i dag.TaskIndex, s core.TaskState) {
			if full || q.Filter != "" && s.String() != q.Filter && !(named && tasks.Has(i)) {
				return
			}
			full = !p.add(func() any {
				row(i)
				return []byte(nil) // its bytes follow
			})
		})
		if len(order) > 0 {
			part.First, part.Last = dag.TaskIndex(order[0].Index), dag.TaskIndex(order[len(order)-1].Index)
		}
	}
	for b, err := range c.store.BatchesOf(q.Job, part) {
		if err != nil {
			return err
		}
		startedOver(rows, b.Reset)
		startedOver(rows, b.Moved)
		for i := range b.Events {
			b.Events[i].Each(func(e *comms.Event) bool {
				if row := rows[e.Task]; row != nil {
					if addToRow(row, e, b.Agent); beginning(e) {
						begun[row] = max(begun[row], e.Attempt, 1)
					}
				}
				return true
			})
		}
	}
	for i, row := range rows { // the number of the present attempt counts it also before it begins
		if _, attempt := r.States.Get(i); row.Attempt > 0 && begun[row] < attempt {
			row.Attempt--
		}
	}
	p.page.Rows = p.page.Rows[:0]
	cursor := p.page.Cursor
	whole := &pager{limit: maxRows}
	for k, row := range order {
		if whole.add(func() any { return row }) {
			continue
		}
		// The page has no room for its bytes: the next one begins with it.
		next := p.start + uint64(k)
		if listed != nil {
			next = uint64(row.Index)
		}
		cursor = binary.BigEndian.AppendUint64(nil, next)
		break
	}
	p.page.Rows, p.page.Cursor = whole.page.Rows, cursor
	return whole.err
}

// startedOver has the rows of tasks that start over say nothing of where and when they ran before:
// that may be an agent which is lost.
func startedOver(rows map[dag.TaskIndex]*comms.TaskRow, tasks []comms.Range) {
	for i, row := range rows {
		if slices.ContainsFunc(tasks, func(r comms.Range) bool { return r.First <= i && i <= r.Last }) {
			*row = comms.TaskRow{Name: row.Name, Index: row.Index, Group: row.Group, State: row.State, Attempt: row.Attempt}
		}
	}
}

// pageOf finds the tasks of a page and the batches that are of them, without
// reading any: of a job in which all tasks are known from the start, when they are
// not asked for by their state. listed is nil when all batches must be read to
// know the tasks.
func pageOf(p *pager, q *comms.Query, g *dag.Graph, tasks core.Choice, named bool) (part gcs.Part, listed []dag.TaskIndex) {
	part.Last = math.MaxUint32
	if g.NumSlots() > 0 || q.Filter != "" && !named {
		return part, nil
	}
	first, last, known := dag.TaskIndex(0), dag.TaskIndex(max(g.NumTasks(), 1)-1), g.NumTasks() > 0
	if named {
		first, last, known = tasks.Bounds()
	}
	if !known {
		return part, nil
	}
	// Here the cursor is the number of the first task.
	for i := max(uint64(first), p.start); i <= uint64(last); i++ {
		if len(listed) == p.limit {
			p.page.Cursor = binary.BigEndian.AppendUint64(nil, i)
			break
		}
		if t := dag.TaskIndex(i); !named || tasks.Has(t) {
			listed = append(listed, t)
		}
	}
	if listed == nil {
		listed = []dag.TaskIndex{}
		return gcs.Part{First: 1}, listed // of no batch
	}
	return gcs.Part{First: listed[0], Last: listed[len(listed)-1]}, listed
}

// beginning tells whether an event is of an attempt that has begun.
func beginning(e *comms.Event) bool {
	switch e.Kind {
	case comms.EventStarted, comms.EventPublished, comms.EventThrottled, comms.EventFinished:
		return true
	}
	return e.Usage != nil && e.Usage.Start != 0
}

func addToRow(row *comms.TaskRow, e *comms.Event, agent string) {
	switch e.Kind {
	case comms.EventReady, comms.EventLost, comms.EventSpilled, comms.EventAdopted, comms.EventEnv, comms.EventBuilding, comms.EventDrained, comms.EventCall, comms.EventTorn:
		return
	case comms.EventStarted:
		row.Started = stamp(e.At)
	case comms.EventFinished:
		row.Error, row.LogTail = "", ""
	}
	row.Agent = agent
	if e.Executor != 0 {
		row.Executor = uint32(e.Executor)
	}
	if u := e.Usage; u != nil {
		row.Started, row.Seconds, row.CPU = stamp(u.Start), seconds(u.Duration), seconds(u.CPU)
		row.PeakRSS, row.BytesIn, row.BytesOut = u.PeakRSS, u.BytesIn, u.BytesOut
		row.Device = u.Device
	}
	if e.Error != nil {
		row.Error, row.LogTail = e.Error.Text(), string(e.Error.LogTail)
	}
}

// storyRows lists every transition of a task or family with its cause, or of all
// tasks when none is named.
func (c *Controller) storyRows(p *pager, q *comms.Query, g *dag.Graph, alone bool) error {
	tasks, ok := core.Choose(g, q.Filter)
	if q.Filter != "" && !ok && strings.Contains(q.Filter, "/") {
		return c.callStory(p, q, g)
	}
	if q.Filter != "" && !ok {
		return &badRequest{fmt.Sprintf("no task %q in job %s", q.Filter, g.Name)}
	}
	part := gcs.Part{From: p.batch, Last: math.MaxUint32}
	if ok && g.NumSlots() == 0 {
		if first, last, known := tasks.Bounds(); known {
			part.First, part.Last = first, last
		}
	}
	losses, err := c.lossStory(q.Job, g, tasks, q.Filter == "", alone)
	if err != nil {
		return err
	}
	k := int(min(p.other, uint64(len(losses)))) // the cursor is the client's: it may be any number
	lossesBefore := func(at int64) bool {
		for ; k < len(losses) && losses[k].at < at; k++ {
			if !p.add(func() any { return losses[k].row }) {
				return false
			}
		}
		return true
	}
	for b, err := range c.store.BatchesOf(q.Job, part) {
		if err != nil {
			return err
		}
		if p.next(b.Number, uint64(k)); !lossesBefore(b.At) {
			return nil
		}
		if !reasonRows(p, q, g, &b, tasks) || !differRows(p, q, g, &b, tasks) {
			return nil
		}
		if !restartRows(p, q, g, &b, tasks) || !cancelledRows(p, q, g, &b, tasks) {
			return nil
		}
		room := true
		for i := range b.Events {
			b.Events[i].Each(func(e *comms.Event) bool {
				if q.Filter != "" && (ofJob(e.Kind) || !tasks.Has(e.Task)) {
					return true
				}
				room = eventRows(p, g, e, b.Agent)
				return room
			})
			if !room {
				return nil
			}
		}
	}
	p.next(math.MaxUint64, uint64(k))
	lossesBefore(math.MaxInt64)
	return nil
}

// restartRows tells which tasks start over, and which moved before they began; false when the page is full.
func restartRows(p *pager, q *comms.Query, g *dag.Graph, b *records.Batch, tasks core.Choice) bool {
	told := slices.Clone(b.Reset)
	for _, a := range b.Unbegun {
		told = append(told, a.Run...)
		detail := fmt.Sprintf("to %s before it began", a.Agent)
		if a.Agent == "" {
			detail = "before it began; no agent has it yet"
		}
		for _, r := range a.Run {
			if q.Filter != "" && !tasks.Meets(r) {
				continue
			}
			if !p.add(func() any {
				return &comms.StoryRow{At: stamp(b.At), Task: rangeName(g, r, tasks), What: "moved", Cause: b.Cause(), Agent: a.Agent, Detail: detail}
			}) {
				return false
			}
		}
	}
	for _, r := range append(slices.Clone(b.Reset), without(b.Moved, told)...) {
		if q.Filter != "" && !tasks.Meets(r) {
			continue
		}
		if !p.add(func() any {
			return &comms.StoryRow{At: stamp(b.At), Task: rangeName(g, r, tasks), What: "starts over", Cause: b.Cause(), Lost: b.Lost}
		}) {
			return false
		}
	}
	return true
}

// without returns the ranges of all that are not in some; all is sorted.
func without(all, some []comms.Range) (out []comms.Range) {
	slices.SortFunc(some, func(a, b comms.Range) int { return cmp.Compare(a.First, b.First) })
	for _, r := range all {
		first := uint64(r.First)
		for _, s := range some {
			if s.Last < r.First || s.First > r.Last {
				continue
			}
			if uint64(s.First) > first {
				out = append(out, comms.Range{First: dag.TaskIndex(first), Last: s.First - 1})
			}
			first = max(first, uint64(s.Last)+1)
		}
		if first <= uint64(r.Last) {
			out = append(out, comms.Range{First: dag.TaskIndex(first), Last: r.Last})
		}
	}
	return out
}

// reasonRows tells why tasks of a job that resumes from an earlier one run; false when the page is full.
func reasonRows(p *pager, q *comms.Query, g *dag.Graph, b *records.Batch, tasks core.Choice) bool {
	for _, why := range b.Reasons {
		for _, r := range why.Tasks {
			if q.Filter != "" && !tasks.Meets(r) {
				continue
			}
			if !p.add(func() any {
				return &comms.StoryRow{At: stamp(b.At), Task: rangeName(g, r, tasks), What: "runs again", Cause: why.Text}
			}) {
				return false
			}
		}
	}
	return true
}

// differRows tells which datasets were recomputed and differ; false when the page is full.
func differRows(p *pager, q *comms.Query, g *dag.Graph, b *records.Batch, tasks core.Choice) bool {
	for i := range b.Differs {
		d := &b.Differs[i]
		if q.Filter != "" && !tasks.Has(d.Ref.Task) {
			continue
		}
		if !p.add(func() any {
			return &comms.StoryRow{At: stamp(b.At), Task: g.TaskName(d.Ref.Task), Attempt: comms.Try(d.Attempt), What: "differs", Agent: b.Agent,
				Cause: "recomputed", Detail: fmt.Sprintf("%s: its hash begins with %016x, before with %016x", g.DatasetName(dag.Dataset(d.Ref)), d.Is, d.Was)}
		}) {
			return false
		}
	}
	return true
}

// cancelledRows tells which tasks ended with their cancelled job and no agent; false when the page is full.
func cancelledRows(p *pager, q *comms.Query, g *dag.Graph, b *records.Batch, tasks core.Choice) bool {
	for _, r := range b.Cancelled {
		if q.Filter != "" && !tasks.Meets(r) {
			continue
		}
		if !p.add(func() any {
			return &comms.StoryRow{At: stamp(b.At), Task: rangeName(g, r, tasks), What: eventName(comms.EventCancelled), Cause: b.Why}
		}) {
			return false
		}
	}
	return true
}

// ofJob tells whether an event is of the job as a whole and not of a task.
func ofJob(k comms.EventKind) bool {
	return k == comms.EventDrained || k == comms.EventEnv || k == comms.EventBuilding
}

func rangeName(g *dag.Graph, r comms.Range, tasks core.Choice) string {
	i, one := tasks.One()
	switch {
	case one:
		return g.TaskName(i)
	case r.First == r.Last:
		return g.TaskName(r.First)
	}
	return g.TaskName(r.First) + " to " + g.TaskName(r.Last)
}

// eventRows tells an event; false when the page is full.
func eventRows(p *pager, g *dag.Graph, e *comms.Event, agent string) bool {
	if tellsStart(e) && !p.add(func() any { return startRow(g, e, agent) }) {
		return false
	}
	return p.add(func() any { return storyRow(g, e, agent) })
}

// tellsStart tells whether an event that ends an attempt is also the word that it
// started: what ends before it is told says both at once, with the cause of its start.
// That is never in words, as the cause of an attempt's end by others is.
func tellsStart(e *comms.Event) bool {
	switch e.Kind {
	case comms.EventFinished, comms.EventRetry, comms.EventFailed: // one that is cancelled has told its start before
	default:
		return false
	}
	switch e.Cause.Kind {
	case comms.CauseSubmit, comms.CauseDataset, comms.CauseTask:
		return e.Cause.Text == "" && e.Usage != nil && e.Usage.Start != 0
	}
	return false
}

// startRow is the start that an event tells with the end.
func startRow(g *dag.Graph, e *comms.Event, agent string) *comms.StoryRow {
	row := &comms.StoryRow{At: stamp(e.Usage.Start), Task: g.TaskName(e.Task), Attempt: comms.Try(e.Attempt), What: eventName(comms.EventStarted), Cause: causeText(g, e), Agent: agent}
	if e.Executor != 0 {
		row.Detail = fmt.Sprintf("executor %d", e.Executor)
	}
	return row
}

func storyRow(g *dag.Graph, e *comms.Event, agent string) *comms.StoryRow {
	row := &comms.StoryRow{At: stamp(e.At), Attempt: comms.Try(e.Attempt), What: eventName(e.Kind), Cause: causeText(g, e), Agent: agent}
	if tellsStart(e) {
		row.Cause = "the run"
	}
	if !ofJob(e.Kind) {
		row.Task = g.TaskName(e.Task)
	}
	var detail []string
	if died := e.Cause.Kind == comms.CauseExecutor && e.Cause.Number == uint64(e.Executor); e.Executor != 0 && !died { // else it is the cause
		detail = append(detail, fmt.Sprintf("executor %d", e.Executor))
	}
	for i := range e.Outputs {
		d := &e.Outputs[i]
		where := "in " + placeName(d.Place.Kind)
		if d.Place.Kind == comms.PlaceNone { // nothing reads it any more
			where = "freed"
		}
		detail = append(detail, fmt.Sprintf("%s %d bytes %s", g.DatasetName(dag.Dataset(d.Ref)), d.Size, where))
	}
	if e.Usage != nil {
		detail = append(detail, strconv.FormatFloat(seconds(e.Usage.Duration), 'f', -1, 64)+" s")
		if d := e.Usage.Device; d != nil {
			detail = append(detail, fmt.Sprintf("%d values of %d bytes copied from a device to the host, %d kept there", d.Copies, d.Bytes, d.Kept))
		}
	}
	if e.Kind == comms.EventCall && e.Count > 1 {
		detail = append(detail, fmt.Sprintf("%d tries", e.Count))
	}
	if e.Kind == comms.EventStreamEnd {
		detail = append(detail, fmt.Sprintf("%d elements", e.Count))
	}
	if e.Error != nil {
		detail = append(detail, e.Error.Text())
	}
	row.Detail = strings.Join(detail, "; ")
	return row
}

func eventName(k comms.EventKind) string {
	names := [...]string{"", "ready", "started", "published", "finished", "retried", "failed", "skipped", "cancelled",
		"end of stream", "lost", "job drained", "returned", "throttled", "spilled", "environment", "building", "finished in a row", "", "adopted", "called", "to start over"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("event %d", k)
}

func causeText(g *dag.Graph, e *comms.Event) string {
	c := &e.Cause
	text := ""
	switch c.Kind {
	case comms.CauseSubmit:
		text = "the job was assigned"
	case comms.CauseDataset:
		if text = g.DatasetName(dag.Dataset(c.Ref)); c.Text == "" {
			text += " was published"
		}
	case comms.CauseTask:
		if e.Kind == comms.EventCall {
			return e.CallText()
		}
		text = g.TaskName(c.Ref.Task) + " ended"
	case comms.CauseExecutor:
		text = fmt.Sprintf("executor %d", c.Number)
	case comms.CauseUser:
		text = "asked for"
	case comms.CauseMemory:
		text = "memory"
	case comms.CauseTime:
		text = "time-out"
	case comms.CauseRun:
		text = "the run"
	case comms.CauseNone:
	}
	if c.Text != "" {
		text = strings.TrimPrefix(text+": "+c.Text, ": ")
	}
	return text
}

// located finds the datasets of Locate: the exports, or those that are named.
func (c *Controller) located(q *comms.Locate, g *dag.Graph) (comms.Message, error) {
	if err := c.barrier(q.Job); err != nil {
		return nil, err
	}
	if g == nil {
		var err error
		if g, err = c.graph(q.Job); err != nil {
			return nil, err
		}
	}
	r, have, freed, err := c.datasets(q.Job, g)
	if err != nil {
		return nil, err
	}
	if len(q.Names) == 0 {
		data, missing := core.LocateExports(g, r.States, have)
		if len(missing) > 0 && !q.Partly {
			return nil, fmt.Errorf("output %s was not produced: %w", missing[0], gcs.ErrNotFound)
		}
		return &comms.Located{Req: q.Req, Data: data, Missing: missing}, nil
	}
	why := func(r comms.DatasetRef) string {
		if freed[r] {
			return ": it is no output of the job, and was freed"
		}
		return ""
	}
	out := &comms.Located{Req: q.Req}
	for _, name := range q.Names {
		refs, one, err := core.Resolve(g, r.States, name)
		if err != nil {
			return nil, &badRequest{err.Error()}
		}
		before := len(out.Data)
		for _, ref := range refs {
			d, ok := have[ref]
			if !ok && !one && !freed[ref] {
				out.Missing = append(out.Missing, g.DatasetName(dag.Dataset(ref)))
				continue // of a family some may have failed
			}
			if !ok {
				return nil, fmt.Errorf("dataset %s is not there%s: %w", g.DatasetName(dag.Dataset(ref)), why(ref), gcs.ErrNotFound)
			}
			out.Data = append(out.Data, comms.LocatedData{Name: g.DatasetName(dag.Dataset(ref)), Desc: d.Desc, Agent: d.Agent})
		}
		if len(out.Data) == before && len(refs) > 0 {
			return nil, fmt.Errorf("none of the %d datasets %s is there: %w", len(refs), name, gcs.ErrNotFound)
		}
	}
	return out, nil
}

// datasets finds what a job has made and still has. freed are those that go with its end,
// which agents hear of later than clients: all but its exports, and what is in its batches.
func (c *Controller) datasets(job comms.JobID, g *dag.Graph) (r *core.Replay, have map[comms.DatasetRef]records.Dataset, freed map[comms.DatasetRef]bool, err error) {
	row, err := c.store.Job(job)
	if err != nil {
		return nil, nil, nil, err
	}
	r = core.NewReplay(g, true)
	for b, err := range c.store.Batches(job) {
		if err != nil {
			return nil, nil, nil, err
		}
		r.Add(&b)
	}
	have, freed = map[comms.DatasetRef]records.Dataset{}, map[comms.DatasetRef]bool{}
	for _, d := range r.Data() {
		if row.Phase.Final() && d.Desc.Place.Kind != comms.PlaceInline {
			freed[d.Desc.Ref] = true
			continue
		}
		have[d.Desc.Ref] = d
	}
	exports, err := c.store.Datasets(job) // newer than the batches where they differ
	for _, d := range exports {
		have[d.Desc.Ref] = d
	}
	return r, have, freed, err
}
