package controller

import (
	"errors"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/gcs"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/memo"
)

// earlier compares a job with the one from which it resumes. It returns nil when
// that is not in the store any more.
func (c *Controller) earlier(g *dag.Graph, contents []comms.Content, r *comms.Resume) (*core.Earlier, error) {
	b, err := c.store.Graph(r.Job)
	if errors.Is(err, gcs.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	old, err := c.cfg.Graphs.Decode(b)
	if err != nil {
		return nil, err
	}
	past, err := c.past(r.Job, old)
	if errors.Is(err, gcs.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var again []core.Choice
	for _, name := range r.Again {
		if choice, ok := core.Choose(g, name); ok {
			again = append(again, choice)
		}
	}
	found := memo.Compare(&memo.Past{
		Job: memo.Job{Graph: old, Contents: past.Request.Contents},
		State: func(t dag.TaskIndex) string {
			s, _ := past.States.Get(t)
			return s.String()
		},
		Elements: past.States.Elements,
	}, &memo.Job{Graph: g, Contents: contents}, func(t dag.TaskIndex) bool {
		for _, choice := range again {
			if choice.Has(t) {
				return true
			}
		}
		return false
	})
	out := &core.Earlier{Ends: found.Ends}
	for _, p := range found.Same {
		out.Same = append(out.Same, core.Pair(p))
	}
	for _, w := range found.Why {
		out.Why = append(out.Why, records.Reason(w))
	}
	return out, nil
}
