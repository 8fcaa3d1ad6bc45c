package core

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm/ledger"
)

// A client may list the references that an agent has: the rows of dynamic tasks, each with what holds
// it and how much it keeps. Rows come and go between two pages; one that is there all the time is on one of them.

// Bounds of one page: the loop does nothing else meanwhile.
const (
	pageRows = 1000
	pageLook = 1 << 16 // rows that are looked at, forgotten ones too
)

// query answers a client that lists references.
func (c *Core) query(client uint64, q *comms.Query) {
	page, err := c.referencePage(q)
	if err != nil {
		c.emit(ToClient{Client: client, Msg: &comms.Reply{Req: q.Req, Code: comms.CodeBadRequest, Message: err.Error()}})
		return
	}
	c.emit(ToClient{Client: client, Msg: page})
}

func (c *Core) referencePage(q *comms.Query) (*comms.Page, error) {
	if q.Kind != comms.QueryReferences {
		return nil, fmt.Errorf("an agent lists references, and no %s: ask the controller", q.Kind)
	}
	from, first, err := readPlace(q.Cursor)
	if err != nil {
		return nil, err
	}
	most, looked := pageRows, 0
	if q.Limit > 0 {
		most = int(min(q.Limit, pageRows))
	}
	page := &comms.Page{Req: q.Req}
	for _, j := range c.dynamicJobs(q.Job, from) {
		t := taskIndex(0)
		if j.id == from {
			t = first
		}
		for ; int(t) < j.dyn.rows.n; t++ {
			if len(page.Rows) == most || looked == pageLook {
				page.Cursor = binary.BigEndian.AppendUint32(bytes.Clone(j.id[:]), uint32(t))
				return page, nil
			}
			looked++
			at := rowRef{j, t}
			if w := at.row(); w.shape == nil && !w.value {
				continue
			}
			row, err := msgpack.Marshal(c.referenceRow(at))
			if err != nil {
				return nil, fmt.Errorf("encode reference %s: %w", at.title(), err)
			}
			page.Rows = append(page.Rows, row)
		}
	}
	return page, nil
}

// readPlace reads where a page begins: a job, and a row in it.
func readPlace(cursor []byte) (job comms.JobID, t taskIndex, err error) {
	switch len(cursor) {
	case 0:
	case len(job) + 4:
		t = taskIndex(binary.BigEndian.Uint32(cursor[copy(job[:], cursor):]))
	default:
		err = fmt.Errorf("the cursor has %d bytes: it is not one that an agent returned", len(cursor))
	}
	return job, t, err
}

// dynamicJobs are the jobs of dynamic tasks from one on, in the order of their names: those of one job at the root, or all.
func (c *Core) dynamicJobs(root, from comms.JobID) []*job {
	var jobs []*job
	for _, j := range c.jobs {
		if j.dyn != nil && bytes.Compare(j.id[:], from[:]) >= 0 && (root.IsZero() || rootID(j) == root) {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *job) int { return bytes.Compare(a.id[:], b.id[:]) })
	return jobs
}

// rootID names the job of the controller from which dynamic tasks come.
func rootID(j *job) comms.JobID {
	r, _ := j.root()
	if h := r.hosted(); h != nil {
		return h.root.Job
	}
	return r.id
}

// referenceRow tells of one row what people ask: whose it is, what holds it, and what it keeps.
func (c *Core) referenceRow(at rowRef) *comms.ReferenceRow {
	j, w := at.job, at.row()
	row := &comms.ReferenceRow{Name: j.rowName(at.task), Kind: c.referenceKind(at), Job: rootID(j).String(), Owner: owner(j), Agent: c.cfg.Agent,
		State: stateWord(j.at(at.task).state), Parent: !w.dropped && j.dyn.by != nil, Values: c.refs.holds[j][at.task], Readers: uint32(len(w.readers))}
	if w.shape != nil {
		row.Function = w.shape.kind.Function
	}
	if w.made > 0 {
		row.Age = max(0, time.Duration(c.now.UnixNano()-w.made).Seconds())
	}
	places := [...]struct {
		word  string
		bytes *uint64
		some  bool
	}{{"shm", &row.Shm, false}, {"disk", &row.Disk, false}, {"message", &row.Message, false}}
	for _, ref := range j.rowData(at.task) {
		d := j.data[ref]
		if d == nil {
			continue
		}
		row.Datasets++
		row.Size += d.desc.Size
		p := &places[c.placeOf(j, d)]
		if p.some = true; d.lent == nil {
			*p.bytes += d.desc.Size
		}
	}
	for i := range w.args {
		if d := j.data[argRef(at.task, i)]; d != nil && d.lent == nil {
			row.Arguments += d.desc.Size
		}
	}
	for _, p := range places {
		if p.some {
			row.Place = strings.TrimPrefix(row.Place+"+"+p.word, "+")
		}
	}
	row.Holders = holders(row, w)
	if row.Host, row.Waits = c.waitsFor(at); row.State == "running" {
		if r := c.runListed(at); r != nil {
			row.Ran = max(0, c.now.Sub(r.startedAt).Seconds())
		}
	}
	return row
}

func (c *Core) referenceKind(at rowRef) string {
	switch w := at.row(); {
	case c.refs.remotes[at] != nil:
		return "remote"
	case w.copyOf != nil:
		return "copy"
	case w.shape == borrowed:
		return "borrowed"
	case w.value:
		return "value"
	}
	return "call"
}

// owner says whose calls these are: a session, a task of a job, or another agent's.
func owner(j *job) string {
	if h := j.hosted(); h != nil {
		return "agent " + h.owner.name
	}
	root, _ := j.root()
	if h := root.hosted(); h != nil {
		return "agent " + h.owner.name + " " + string(j.dyn.by.taskName())
	}
	if root.session && j.dyn.by.job == root {
		return root.graph.Name
	}
	return root.graph.Name + " " + string(j.dyn.by.taskName())
}

// holders says what keeps a row, for people.
func holders(row *comms.ReferenceRow, w *callRow) string {
	var all []string
	if row.Parent {
		all = append(all, "parent")
	}
	count := func(n uint32, one string) {
		if n == 1 {
			all = append(all, "1 "+one)
		} else if n > 1 {
			all = append(all, fmt.Sprintf("%d %ss", n, one))
		}
	}
	count(row.Values, "value")
	count(row.Readers, "reader")
	if w.grant > 0 {
		all = append(all, "its owner")
	}
	if w.line.deps > 0 {
		all = append(all, "lineage")
	}
	return strings.Join(all, ", ")
}

// placeOf is where the bytes of a dataset are: 0 in shared memory, 1 on disk alone, 2 in its description.
func (c *Core) placeOf(j *job, d *dataset) int {
	if !d.sealed {
		return 2
	}
	if info, ok := c.led.Dataset(j.key(d)); ok && info.State == ledger.Spilled {
		return 1
	}
	return 0
}

func stateWord(s taskState) string {
	switch s {
	case tAbsent, tWaiting, tAsked, tAside:
		return "waiting"
	case tReady, tDelayed, tPinning, tQueued:
		return "ready"
	case tAway:
		return "away"
	case tRunning:
		return "running"
	case tFinished:
		return "done"
	case tFailed:
		return "failed"
	case tSkipped:
		return "skipped"
	}
	return "cancelled"
}
