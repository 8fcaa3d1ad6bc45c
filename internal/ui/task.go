package ui

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// taskState is one task. Times are RFC 3339, durations seconds, sizes bytes.
type taskState struct {
	Row     comms.TaskRow      `json:"row"`
	Colour  string             `json:"colour"`
	Usual   float64            `json:"usual"`
	Plan    *comms.PlanRow     `json:"plan,omitempty"`
	Inputs  list[neighbour]    `json:"inputs"`
	Readers list[neighbour]    `json:"readers"`
	Story   []comms.StoryRow   `json:"story"`
	Older   bool               `json:"older"` // the story begins before what is listed
	Outputs []comms.DatasetRow `json:"outputs"`
}

// neighbour is a task whose outputs another reads, or which reads its.
type neighbour struct {
	Task  string `json:"task"`
	State string `json:"state"`
	Host  string `json:"host,omitempty"`
}

// Limits of what a page shows of a task.
const (
	shownStory = 200
	readStory  = 5000
	readData   = 5000
	shownNear  = 50
)

// task answers with what is known of a task.
func (h *Handler) task(r *http.Request) (any, error) {
	id, err := jobOf(r)
	if err != nil {
		return nil, err
	}
	name := r.URL.Query().Get("name")
	ctx := r.Context()
	rows, err := rowsOf[comms.TaskRow](ctx, h.cfg.Source, comms.QueryTasks, id, name, 2)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(rows, func(t comms.TaskRow) bool { return t.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("%w: job %s has no task %q", cascade.ErrNotFound, id, name)
	}
	t := &taskState{Row: rows[at], Story: []comms.StoryRow{}, Outputs: []comms.DatasetRow{}}
	soFar(&t.Row, h.cfg.Now())
	t.Row.Error, t.Row.LogTail = clip(t.Row.Error), ""
	if err := h.near(r, id, t); err != nil {
		return nil, err
	}
	if t.Story, err = rowsOf[comms.StoryRow](ctx, h.cfg.Source, comms.QueryStory, id, name, readStory); err != nil {
		return nil, err
	}
	if more := len(t.Story) - shownStory; more > 0 {
		t.Story, t.Older = t.Story[more:], true
	}
	data, err := rowsOf[comms.DatasetRow](ctx, h.cfg.Source, comms.QueryDatasets, id, "", readData)
	if err != nil {
		return nil, err
	}
	for _, d := range data {
		if strings.HasPrefix(d.Name, name+".") && len(t.Outputs) < shownRows {
			t.Outputs = append(t.Outputs, d)
		}
	}
	return t, nil
}

// near finds the tasks around one in the graph, from the picture of its job.
func (h *Handler) near(r *http.Request, id comms.JobID, t *taskState) error {
	p, err := h.pictureOf(r, id)
	if err != nil {
		return err
	}
	s := p.sight
	rows := make(map[dag.TaskIndex]*comms.TaskRow, len(s.rows))
	for i := range s.rows {
		rows[dag.TaskIndex(s.rows[i].Index)] = &s.rows[i]
	}
	for _, f := range familiesOf(s) {
		if f.Name == t.Row.Group {
			if t.Colour, t.Usual = f.Colour, f.Median; f.Ended == 0 {
				t.Usual = f.Planned
			}
		}
	}
	for i := range s.plan {
		if s.plan[i].Task == t.Row.Name {
			t.Plan = &s.plan[i]
		}
	}
	t.Inputs.Rows, t.Readers.Rows = []neighbour{}, []neighbour{}
	add := func(l *list[neighbour], i dag.TaskIndex) {
		n := neighbour{Task: s.graph.TaskName(i), State: "waiting"}
		if row := rows[i]; row != nil {
			n.State, n.Host = row.State, row.Agent
		}
		if len(l.Rows) == shownNear {
			l.Next = "more"
			return
		}
		if !slices.Contains(l.Rows, n) {
			l.Rows = append(l.Rows, n)
		}
	}
	me := dag.TaskIndex(t.Row.Index)
	err = sources(s.graph, me, func(i dag.TaskIndex) { add(&t.Inputs, i) })
	if err != nil || !s.whole {
		return err
	}
	for i := range s.rows {
		other := dag.TaskIndex(s.rows[i].Index)
		err := sources(s.graph, other, func(from dag.TaskIndex) {
			if from == me {
				add(&t.Readers, other)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sources calls f with each task whose outputs a task reads.
func sources(g *dag.Graph, i dag.TaskIndex, f func(dag.TaskIndex)) error {
	inputs, err := g.Inputs(i)
	if err != nil {
		return fmt.Errorf("inputs of %s: %w", g.TaskName(i), err)
	}
	for _, in := range inputs {
		for _, s := range in.Sources {
			f(s.Task)
		}
	}
	if st := g.Group(i).Stream; st != nil {
		f(st.Generator)
	}
	return nil
}

// pictureOf is what the newest picture of a job was made of.
func (h *Handler) pictureOf(r *http.Request, id comms.JobID) (*painted, error) {
	t, leave, err := h.look("picture:" + id.String())
	if err != nil {
		return nil, err
	}
	defer leave()
	_, kept, err := t.first(r.Context())
	if err != nil {
		return nil, err
	}
	p, ok := kept.(*painted)
	if !ok {
		return nil, fmt.Errorf("%w: the tasks of job %s cannot be read now", cascade.ErrUnavailable, id)
	}
	return p, nil
}
