package core

import (
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// drained tells whether the word of an agent, the last that worked on the job,
// that nothing more will run ends the job: it does unless tasks are being made to
// start over, or will be when an agent that is away is back or given up. It was said
// at the job's present epoch, so the agent knew of all that was to run.
func (c *Core) drained(j *job, e *comms.Event) bool {
	if j.recovering != nil || j.redo && j.rec.Cancel == "" {
		return false
	}
	if e.Error != nil {
		if j.rec.Error == nil {
			j.rec.Error = e.Error
		}
		return true
	}
	if n := j.states.Open(); n > 0 && j.rec.Cancel == "" {
		if j.rec.Error == nil {
			j.rec.Error = &comms.TaskError{Kind: comms.ErrorSkipped, Agent: j.rec.Agent,
				Message: fmt.Sprintf("the agent ended the job with %d tasks left", n)}
		}
	}
	return true
}

// end decides how a job has ended.
func (c *Core) end(j *job) {
	row := j.rec
	row.Ended = c.now.UnixNano()
	row.Groups = j.states.Groups()
	row.Phase = j.outcome()
	if row.Phase == comms.JobDone {
		row.Error = nil
	} else if row.Phase == comms.JobFailed && row.Error == nil {
		row.Error = &comms.TaskError{Kind: comms.ErrorSkipped, Agent: row.Agent, Message: "an output of the job, or a task that nothing depends on, did not come"}
	}
	j.ending, j.assign = &row, nil
}

// stops takes in that a task has failed: if it may not, its agents stop the job.
func (s *States) stops(t dag.TaskIndex) {
	if !s.g.MayFail(s.g.GroupIndex(t)) {
		s.fatal = append(s.fatal, t)
	}
}

// stopper returns a task for whose failure its agents stop the job. When that is known nothing
// is given out anew, but for a client, who wants it in spite of that, and gangs that are broken:
// a member may have failed because its peers are gone.
func (s *States) stopper(broken []dag.TaskIndex) (t dag.TaskIndex, stopped bool) {
	k := slices.IndexFunc(s.fatal, func(t dag.TaskIndex) bool {
		return s.get(t) == TaskFailed && !slices.ContainsFunc(gangOf(s.g, t), func(m dag.TaskIndex) bool { return slices.Contains(broken, m) })
	})
	if k < 0 {
		return 0, false
	}
	return s.fatal[k], true
}

// fails tells whether its agents stop a job for the failure of a task.
func (j *job) fails() bool {
	_, stopped := j.states.stopper(nil)
	return stopped
}

// failsHomeless tells whether a job that fails has nothing left but tasks that no agent can
// run: it does not wait for one that can.
func (j *job) failsHomeless() bool { return j.rec.Homeless && j.idle() && j.fails() }

// fail ends a job that is being stopped for the failure of a task, when something of it would
// be given out anew: who gets that may have come to the end of the job before.
func (c *Core) fail(j *job, t dag.TaskIndex) {
	name := j.graph.TaskName(t)
	j.rec.Fails, j.rec.Cancel = true, fmt.Sprintf("the job stopped because %s failed", name)
	if j.rec.Error == nil {
		j.rec.Error = &comms.TaskError{Kind: comms.ErrorSkipped, Task: name, Message: j.rec.Cancel}
	}
	c.giveUp(j)
	c.storeRow(j)
	c.stopAgents(j)
}

// losesSession tells whether a job is a session whose agent is gone and that goes on so far. Of one whose
// graph is not here the next agent says so: it is granted a second attempt.
func (j *job) losesSession() bool {
	return j.graph != nil && (j.graph.IsSession() && j.anyGone() || j.homeGone()) && j.rec.Cancel == "" && j.stage == stageActive
}

// homeGone tells whether the agent is gone whose task runs the graph.
func (j *job) homeGone() bool {
	home := j.graph.Home()
	return home != "" && slices.ContainsFunc(j.parts, func(p *part) bool { return p.gone && dag.AgentResource(p.agent) == home })
}

// loseSession ends a session whose agent is lost, or has another process: its program is
// attached to none, and no other can take its place.
func (c *Core) loseSession(j *job) {
	name, message, why := j.graph.TaskName(0), "the agent to which its program was attached has ended", "the agent of the session has ended"
	if !j.graph.IsSession() {
		name, message, why = "", "the agent of the task that runs the graph has ended", "the agent of the task that runs it has ended"
	}
	j.rec.Fails, j.rec.Cancel = true, why
	if j.rec.Error == nil {
		j.rec.Error = &comms.TaskError{Kind: comms.ErrorCrash, Task: name, Agent: j.rec.Agent, Message: message}
	}
	c.giveUp(j)
	c.storeRow(j)
	c.stopAgents(j)
}

// outcome is the phase in which a job ends. A failure is tolerated where
// dag.Graph.MayFail says so, as long as every export is there; a job without
// exports is there for its sinks.
func (j *job) outcome() comms.JobPhase {
	if j.rec.Fails {
		return comms.JobFailed
	}
	t := j.states.Totals()
	there := j.result || len(j.graph.Exports) == 0
	if t.Done == t.Tasks && there && (t.Tasks > 0 || j.rec.Error == nil) && !j.mixed() {
		return comms.JobDone
	}
	if j.rec.Cancel != "" {
		return comms.JobCancelled
	}
	if !there || j.states.Open() > 0 {
		return comms.JobFailed
	}
	for i := range j.states.groups {
		if j.states.groups[i].Failed > 0 && !j.graph.MayFail(i) {
			return comms.JobFailed
		}
	}
	if len(j.graph.Exports) == 0 && j.missesSink() {
		return comms.JobFailed
	}
	return comms.JobDone
}

// missesSink tells whether a task that nothing depends on is not done, but those
// that may fail by themselves.
func (j *job) missesSink() (missed bool) {
	j.states.Each(func(t dag.TaskIndex, s TaskState) {
		missed = missed || s.Over() && s != TaskDone && !j.graph.Group(t).KeepGoing && j.graph.Sink(t)
	})
	return missed
}

// endUnassigned ends a cancelled job that no agent works on.
func (c *Core) endUnassigned(j *job) {
	if r := j.recovering; r != nil { // nothing goes on
		j.recovering, j.stage = nil, stageActive
		if l := c.links[r.link]; l != nil && len(r.rerun) > 0 {
			c.reply(l, r.req, comms.CodeConflict, "the job is being cancelled")
		}
	}
	commit := records.Commit{Job: j.id}
	if j.rec.Cancel != "" && j.states.Open() > 0 { // that no agent has to stop
		commit.Batch = &records.Batch{Number: j.rec.Batches, Epoch: j.rec.Epoch, At: c.now.UnixNano(), Cancelled: j.states.cancel(), Why: j.rec.Cancel}
		j.rec.Batches++
	}
	c.end(j)
	commit.Row = j.ending
	c.emit(Store{Token: c.await(pending{what: onEnded, job: j}), Commit: commit})
}

// ended runs when the end of a job is durable.
func (c *Core) ended(j *job) {
	stored := j.rec.Stored
	j.rec, j.ending, j.stage = *j.ending, nil, stageEnded
	j.rec.Stored = stored
	c.finalWatch(j)
	c.lay(j, &j.rec)
	for _, name := range j.remains.agents() {
		if a := c.agents[name]; a != nil && a.link != nil {
			c.retain(j, a)
		}
	}
	c.retire()
}

// lay keeps of a job that has ended only what remains.
func (c *Core) lay(j *job, r *records.Job) {
	j.remains = remains{phase: r.Phase, stopped: r.Phase == comms.JobCancelled || r.Fails, keep: r.Keep, graph: r.GraphHash, agent: r.Agent, incarnation: r.Incarnation, epoch: r.Epoch,
		ended: r.Ended, stored: r.Stored}
	for _, f := range r.Assignments {
		if f.Agent != r.Agent {
			j.remains.others = append(j.remains.others, f.Agent)
		}
	}
	j.stage, j.live = stageEnded, nil
	delete(c.running, j.id)
	c.kept.add(j)
}

// agents lists those that the job was assigned to last.
func (r *remains) agents() []string {
	if r.agent == "" {
		return nil
	}
	return append([]string{r.agent}, r.others...)
}

// revive makes a job that has ended one of which more is known again. Its row
// comes with the Prepare that the caller asks for.
func (c *Core) revive(j *job) {
	c.kept.remove(j)
	r := &j.remains
	j.live = &live{rec: records.Job{ID: j.id, JobIncarnation: j.life, Phase: r.phase, GraphHash: r.graph, Agent: r.agent, Incarnation: r.incarnation, Epoch: r.epoch,
		Ended: r.ended, Stored: r.stored, Keep: r.keep, Fails: r.stopped && r.phase == comms.JobFailed}}
	if len(r.others) > 0 {
		for _, name := range r.agents() {
			j.rec.Assignments = append(j.rec.Assignments, records.Assignment{Agent: name})
		}
	}
	j.parts = partsOf(&j.rec, nil)
	c.running[j.id] = j
}

// delete removes a job that has ended from the store.
func (c *Core) delete(j *job, p pending) {
	c.kept.remove(j)
	j.deleting = true
	p.what, p.job = onDeleted, j
	c.emit(Delete{Token: c.await(p), Job: j.id})
}

func (c *Core) deleted(j *job, p pending) {
	for _, name := range j.remains.agents() {
		if a := c.agents[name]; a != nil && a.link != nil {
			c.send(a.link, &comms.Steer{Job: j.id, JobIncarnation: j.life, Action: comms.SteerForget})
		}
	}
	for _, told := range j.unsaid {
		c.batchStored(told)
	}
	delete(c.jobs, j.id)
	j.gone = true
	if l := c.links[p.link]; l != nil {
		c.reply(l, p.req, comms.CodeOK, "")
	}
}
