package ui

import (
	"context"
	"fmt"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// callsState is the state of the topic calls:ID: the called tasks of a job or session. Durations are seconds.
type callsState struct {
	Row       comms.JobRow    `json:"row"`
	Running   int             `json:"running"`
	Waiting   int             `json:"waiting"`
	Ended     int             `json:"ended"`
	Whole     bool            `json:"whole"` // false: there are more that ended, which are being read
	Functions []calledRow     `json:"functions"`
	Newest    []comms.CallRow `json:"newest"`
	Causes    []cause         `json:"causes"`
	Absent    []string        `json:"absent"` // hosts that do not tell what runs there
}

// Limits of one reading of the ends of called tasks.
const (
	callsPage  = 2000   // rows of one question
	callsRound = 20_000 // rows between two pauses
)

// callReader reads the ends of called tasks as they come: each is read once, but for those of the last page.
type callReader struct {
	job    comms.JobID
	cursor []byte // where that page begins
	read   int    // rows of it that are in the sums
	sums   *folded
}

// advance reads on and returns whether it has all.
func (r *callReader) advance(ctx context.Context, s Source) (whole bool, err error) {
	for round := 0; round < callsRound; round += callsPage {
		rows, next, err := pageOf[comms.CallRow](ctx, s, comms.Query{Kind: comms.QueryCalls, Job: r.job, Cursor: r.cursor}, callsPage)
		if err != nil {
			return false, err
		}
		for i := r.read; i < len(rows); i++ {
			r.sums.add(&rows[i])
		}
		if r.read = len(rows); len(next) == 0 {
			return true, nil
		}
		r.cursor, r.read = next, 0
	}
	return false, nil
}

// calls returns what makes the states of the topic calls:ID.
func (h *Handler) calls(id comms.JobID) func(context.Context) (any, error) {
	reader := &callReader{job: id, sums: newFolded()}
	return func(ctx context.Context) (any, error) {
		row, err := h.jobRow(ctx, id)
		if err != nil {
			return nil, err
		}
		whole, err := reader.advance(ctx, h.cfg.Source)
		if err != nil {
			return nil, err
		}
		c := &callsState{Row: row, Ended: reader.sums.ended, Whole: whole, Newest: reader.sums.newest.backward(), Causes: reader.sums.causes.top()}
		open := newOpened()
		if c.Absent, err = h.references(ctx, &row, open.add); err != nil {
			return nil, err
		}
		c.Functions = reader.sums.rows(open)
		for i := range c.Functions {
			c.Running, c.Waiting = c.Running+c.Functions[i].Running, c.Waiting+c.Functions[i].Waiting
		}
		return c, nil
	}
}

// jobRow is the row of a job.
func (h *Handler) jobRow(ctx context.Context, id comms.JobID) (row comms.JobRow, err error) {
	rows, err := rowsOf[comms.JobRow](ctx, h.cfg.Source, comms.QueryJobs, id, "", 1)
	if err != nil {
		return row, err
	}
	if len(rows) == 0 {
		return row, fmt.Errorf("there is no such job, it may have been removed: %w", cascade.ErrNotFound)
	}
	return rows[0], nil
}
