package ui

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/report"
)

// painted is what a picture was made of, for questions about parts of it.
type painted struct {
	sight *sight
	run   *report.Run // nil: not known
}

// Pauses between pictures of a job.
const (
	paintEvery = 2 * time.Second
	finalEvery = 15 * time.Second // of one that has ended, unless it runs again
	largeAfter = time.Minute      // a large job that runs for less is shown without any of its tasks: to find some costs as much as to read all
	largeTimes = 200              // budget of a large job
	largeEvery = 5 * time.Second
)

// paint keeps the state of the topic picture:ID. Reading takes at most one part in budget of the time.
func (h *Handler) paint(ctx context.Context, t *topic, id comms.JobID) {
	var graph *dag.Graph
	var boxes *report.Boxes
	var ended int64 // of the picture that is there
	for ctx.Err() == nil {
		began := time.Now()
		one, cancel := context.WithTimeout(ctx, 4*askTime)
		s, err := h.see(one, id, graph, ended)
		cancel()
		pause := paintEvery
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.failed(err)
		case s == nil: // as it was
			pause = finalEvery
		default:
			if graph == nil {
				graph = s.graph
				if d, err := report.Draw(graph, nil, false); err == nil {
					boxes = d.Boxes()
				}
			}
			p, run := paintPicture(s)
			p.Graph = boxes
			t.set(p, &painted{s, run})
			ended = 0
			if s.progress.Final {
				ended, pause = s.progress.Ended, finalEvery
			}
		}
		times := time.Duration(budget)
		if s != nil && !s.whole {
			times, pause = largeTimes, max(pause, largeEvery)
		}
		rest(ctx, max(pause, times*time.Since(began)))
	}
}

// see asks how a job stands. It returns nil when the job ended at the time of the picture before.
func (h *Handler) see(ctx context.Context, id comms.JobID, graph *dag.Graph, ended int64) (*sight, error) {
	src := h.cfg.Source
	s := &sight{graph: graph, alone: h.cfg.Alone}
	err := src.Watch(ctx, id, time.Second, func(p *comms.Progress) bool {
		s.progress = p
		return false
	})
	switch {
	case errors.Is(err, cascade.ErrNotFound):
		return nil, fmt.Errorf("there is no such job, it may have been removed: %w", err)
	case err != nil:
		return nil, err
	case s.progress == nil:
		return nil, errors.New("the cluster said nothing about the job")
	case s.progress.Final && ended != 0 && s.progress.Ended == ended:
		return nil, nil
	}
	if graph == nil {
		if s.graph, err = graphOf(ctx, src, id); err != nil {
			return nil, err
		}
	}
	if s.hosts, err = rowsOf[comms.AgentRow](ctx, src, comms.QueryAgents, comms.JobID{}, "", 0); err != nil {
		return nil, err
	}
	if h.cfg.Alone {
		s.hosts = nil
	}
	s.now = h.cfg.Now()
	err = h.seeTasks(ctx, id, s)
	for i := range s.rows {
		if h.cfg.Alone && s.rows[i].State == "running" {
			s.rows[i].State = "cut off"
		}
		soFar(&s.rows[i], s.now)
	}
	return s, err
}

// seeTasks reads all tasks and the plan of a job, or, of a large one, the tasks that run and that failed.
func (h *Handler) seeTasks(ctx context.Context, id comms.JobID, s *sight) (err error) {
	total := uint64(0)
	for i := range s.progress.Groups {
		total += s.progress.Groups[i].Total
	}
	s.whole = total <= wholeTasks
	if began := s.progress.Started; !s.whole && !s.progress.Final && (began == 0 || s.now.Sub(time.Unix(0, began)) < largeAfter) {
		return nil
	}
	if s.losses, err = rowsOf[comms.LossRow](ctx, h.cfg.Source, comms.QueryLosses, id, "", someTasks); err != nil {
		return err
	}
	if s.whole {
		if s.rows, err = rowsOf[comms.TaskRow](ctx, h.cfg.Source, comms.QueryTasks, id, "", 0); err != nil {
			return err
		}
		if !s.progress.Phase.Final() { // of one that has ended it would be the plan of a next run
			s.plan, err = rowsOf[comms.PlanRow](ctx, h.cfg.Source, comms.QueryPlan, id, "", 0)
		}
		return err
	}
	for _, state := range []string{"running", "failed"} {
		rows, err := rowsOf[comms.TaskRow](ctx, h.cfg.Source, comms.QueryTasks, id, state, someTasks)
		if err != nil {
			return err
		}
		s.rows = append(s.rows, slices.DeleteFunc(rows, func(r comms.TaskRow) bool { return r.State != state })...) // the name may be a task's
	}
	return nil
}
