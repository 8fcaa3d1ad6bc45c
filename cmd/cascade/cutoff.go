package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// A job is cut off when it has not ended and nobody serves its state folder but
// this command, which only looks: what the store says of it is how it stood when
// its run ended, and nothing will change.

// cutOff says what becomes of a job of that phase while nothing serves the state;
// "" when it has ended or is served.
func (a *app) cutOff(phase comms.JobPhase) string {
	switch {
	case !a.alone || phase.Final():
		return ""
	case phase == comms.JobHeld:
		return "held: no run is under way here; `cascade release` and then `cascade run` go on with it"
	}
	return "cut off: no run is under way here; `cascade run` goes on with it"
}

// stopped returns the progress of a job that is cut off: no task of it runs.
func stopped(p *cascade.Progress) *cascade.Progress {
	now := *p
	now.Groups = slices.Clone(p.Groups)
	for i := range now.Groups {
		g := &now.Groups[i]
		g.Ready, g.Running = g.Ready+g.Running, 0
	}
	return &now
}

// cutOffJob is the error for who waits for something of a job that is cut off.
func (a *app) cutOffJob(ctx context.Context, j *cascade.Job) (cut error, err error) {
	err = j.Watch(ctx, time.Second, func(p *cascade.Progress) bool {
		if why := a.cutOff(p.Phase); why != "" {
			cut = errors.New(why)
		}
		return false
	})
	return cut, err
}

// jobLine is a row of ls jobs.
type jobLine struct {
	comms.JobRow
	CutOff string `json:"cut_off,omitempty"`
}

// printJobs prints rows of jobs, and tells which are cut off.
func (a *app) printJobs(rows []comms.JobRow) error {
	for i := range rows {
		why := ""
		for _, phase := range []comms.JobPhase{comms.JobQueued, comms.JobHeld, comms.JobRunning} {
			if rows[i].Phase == phase.String() {
				why = a.cutOff(phase)
			}
		}
		switch {
		case a.json:
			if err := a.printJSON(jobLine{rows[i], why}); err != nil {
				return err
			}
		case why != "" && rows[i].Phase != comms.JobHeld.String():
			rows[i].Phase = "cut off"
		}
	}
	if a.json {
		return nil
	}
	columns := []string{"id", "name", "phase", "tasks", "done", "failed", "submitted", "ended", "error"}
	if slices.ContainsFunc(rows, func(r comms.JobRow) bool { return r.Waits != "" }) {
		columns = append(columns, "waits")
	}
	return table(a, rows, columns...)
}

// cutOffTask corrects the row of a task that ran when its job was cut off. Rows of
// other things stay.
func (a *app) cutOffTask(row any) {
	if t, ok := row.(*comms.TaskRow); ok && a.alone && t.State == "running" {
		t.State = "cut off"
	}
}

// listAgents lists the agents. One that this command started to read the state
// runs no task: the agent of the run that ended is away.
func (a *app) listAgents(ctx context.Context, client *cascade.Client) error {
	rows, err := cascade.Rows[comms.AgentRow](ctx, client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return err
	}
	for i := range rows {
		if a.alone {
			rows[i].State, rows[i].Running = "away", 0
		}
	}
	return table(a, rows, "name", "state", "cpu", "memory", "gpu", "running", "jobs", "seen")
}
