package ui

import (
	"context"

	"github.com/cascade-run/cascade/comms"
)

// sessionRow is a session with its called tasks that have not ended.
type sessionRow struct {
	comms.JobRow
	Running int `json:"running"`
	Waiting int `json:"waiting"`
}

// sessions is the state of the topic sessions: those that have not ended, and the newest of all.
func (h *Handler) sessions(ctx context.Context) (any, error) {
	open, err := listOf[sessionRow](ctx, h.cfg.Source, comms.Query{Kind: comms.QueryJobs, Filter: comms.FilterOpenSessions})
	if err != nil {
		return nil, err
	}
	newest, err := listOf[comms.JobRow](ctx, h.cfg.Source, comms.Query{Kind: comms.QueryJobs, Filter: comms.FilterSessions})
	if err != nil {
		return nil, err
	}
	absent := []string{}
	if len(open.Rows) > 0 {
		calls := map[string]*openCalls{}
		for i := range open.Rows {
			calls[open.Rows[i].ID] = &openCalls{}
		}
		absent, err = h.references(ctx, &comms.JobRow{}, func(r *comms.ReferenceRow) {
			if c := calls[r.Job]; c != nil && r.Kind == "call" {
				c.add(r)
			}
		})
		if err != nil {
			return nil, err
		}
		for i := range open.Rows {
			r := &open.Rows[i]
			r.Running, r.Waiting = calls[r.ID].counts()
		}
	}
	return map[string]any{"open": open, "newest": newest, "absent": absent}, nil
}
