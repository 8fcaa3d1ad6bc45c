package main

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// A job is cut off when it has not ended and only this command, which reads, serves
// its state folder: what the store says of it is how it stood when its run ended, and
// nothing will change.

// cutOff says what becomes of a job of that phase while nothing serves the state;
// "" when it has ended or is served. A session is lost with its program.
func (a *app) cutOff(phase comms.JobPhase, session func() (bool, error)) (string, error) {
	if !a.alone || phase.Final() {
		return "", nil
	}
	of, err := session()
	switch {
	case err != nil:
		return "", err
	case of:
		return "cut off: its program has ended, and no other goes on with a session; the next `cascade run` ends it", nil
	case phase == comms.JobHeld:
		return "held: no run is under way here; `cascade release` and then `cascade run` go on with it", nil
	}
	return "cut off: no run is under way here; `cascade run` goes on with it", nil
}

// isSession asks whether a job is that of a session.
func isSession(ctx context.Context, client *cascade.Client, id comms.JobID) func() (bool, error) {
	return func() (bool, error) {
		g, _, err := client.Graph(ctx, id)
		return err == nil && g.IsSession(), err
	}
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
func (a *app) cutOffJob(ctx context.Context, client *cascade.Client, j *cascade.Job) (cut error, err error) {
	var asked error
	err = j.Watch(ctx, time.Second, func(p *cascade.Progress) bool {
		var why string
		if why, asked = a.cutOff(p.Phase, isSession(ctx, client, p.Job)); why != "" {
			cut = errors.New(why)
		}
		return false
	})
	return cut, errors.Join(err, asked)
}

// jobLine is a row of ls jobs. Stands is its phase, also that it is cut off; Why is its error, or
// what it waits for.
type jobLine struct {
	comms.JobRow
	CutOff string `json:"cut_off,omitempty" column:"-"`
	Stands string `json:"-" column:"phase"`
	Why    string `json:"-" column:"why"`
}

// printJobs prints rows of jobs, and tells which are cut off.
func (a *app) printJobs(ctx context.Context, client *cascade.Client, rows iter.Seq2[*comms.JobRow, error]) error {
	some := false
	var asked error
	err := tableOf(a, mapped(rows, func(r *comms.JobRow) *jobLine {
		some = true
		cut, err := a.cutOffPhase(ctx, client, r)
		asked = errors.Join(asked, err)
		l := &jobLine{JobRow: *r, CutOff: cut, Stands: r.Phase, Why: r.Error}
		if r.Phase != comms.JobHeld.String() && l.CutOff != "" {
			l.Stands = "cut off"
		}
		if l.Why == "" && r.Waits != "" {
			l.Why = "waits: " + r.Waits
		}
		return l
	}), "id", "name", "phase", "tasks", "done", "failed", "submitted", "ended", "why")
	if err == nil && !some && a.list.form == "" && !a.json {
		a.note("no job has run here: %s runs one", a.hint("run", "FILE"))
	}
	return errors.Join(err, asked)
}

// cutOffPhase is cutOff of a job by its row.
func (a *app) cutOffPhase(ctx context.Context, client *cascade.Client, r *comms.JobRow) (string, error) {
	for _, p := range []comms.JobPhase{comms.JobQueued, comms.JobHeld, comms.JobRunning} {
		if r.Phase != p.String() {
			continue
		}
		id, err := comms.ParseJobID(r.ID)
		if err != nil {
			return "", err
		}
		return a.cutOff(p, isSession(ctx, client, id))
	}
	return "", nil
}

// mapped applies f to rows as they come.
func mapped[A, B any](rows iter.Seq2[*A, error], f func(*A) *B) iter.Seq2[*B, error] {
	return func(yield func(*B, error) bool) {
		for row, err := range rows {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(f(row), nil) {
				return
			}
		}
	}
}

// cutOffTask corrects the row of a task that ran when its job was cut off. Rows of
// other things stay.
func (a *app) cutOffTask(row any) {
	if t, ok := row.(*comms.TaskRow); ok && a.alone && t.State == "running" {
		t.State = "cut off"
	}
}

// silentAgents tells for how long nothing was heard of the agents whose link is broken: what
// the controller says of their tasks is how they stood then.
func (a *app) silentAgents(ctx context.Context, client *cascade.Client) (map[string]time.Duration, error) {
	if a.alone {
		return nil, nil // no agent of its jobs is at work
	}
	rows, err := cascade.Rows[comms.AgentRow](ctx, client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return nil, err
	}
	return silent(rows, time.Now()), nil
}

func silent(rows []comms.AgentRow, now time.Time) map[string]time.Duration {
	found := map[string]time.Duration{}
	for _, r := range rows {
		if at, err := time.Parse(time.RFC3339Nano, r.Seen); r.State == "away" && err == nil {
			found[r.Name] = max(now.Sub(at), time.Millisecond) // the controller's clock may be ahead of ours
		}
	}
	return found
}

// noAgent tells whether no agent is there. That of the run that ended, of whose state
// this command reads, is not missed: the next run has it.
func (a *app) noAgent(ctx context.Context, client *cascade.Client) (bool, error) {
	if a.alone {
		return false, nil
	}
	rows, err := cascade.Rows[comms.AgentRow](ctx, client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(rows, func(r comms.AgentRow) bool { return r.State == "ready" }), nil
}
