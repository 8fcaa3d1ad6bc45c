package core

import (
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// events takes in a numbered batch. Events that were received before are passed over.
func (c *Core) events(a *agent, m *comms.Events) {
	b := &batch{}
	a.work.tell(m.Load)
	next := m.First
	var strangers []*comms.JobEvents
	for i := range m.Jobs {
		je := &m.Jobs[i]
		first, events := next, je.Events
		next += uint64(len(events))
		j := c.jobs[je.Job]
		seen := a.intake.received
		if j != nil && j.live != nil {
			if s := j.seen[a.row.Name]; s.Incarnation == a.row.Incarnation {
				seen = max(seen, s.UpTo)
			}
		}
		if skip := min(passed(first, seen), uint64(len(events))); skip > 0 {
			if j != nil && j.life == je.JobIncarnation {
				c.repeated(j, j.partOf(a.row.Name), je.Epoch, events[:skip])
			}
			first, events = first+skip, events[skip:]
		}
		switch {
		case len(events) == 0:
		case j != nil && j.deleting && j.lastOn(a.row.Name) && j.life == je.JobIncarnation:
			// The deletion may be lost with this controller: the next one needs the events then.
			b.left++
			j.unsaid = append(j.unsaid, pending{agent: a.row.Name, batch: b})
		case j == nil || j.deleting || !j.lastOn(a.row.Name) || j.life != je.JobIncarnation:
			if !slices.ContainsFunc(strangers, func(o *comms.JobEvents) bool { return o.Job == je.Job && o.JobIncarnation == je.JobIncarnation }) {
				strangers = append(strangers, je)
			}
			if j != nil && j.live != nil && !j.deleting && j.life == je.JobIncarnation {
				// It has gone to another agent, which may not be stored yet: should this
				// process die before, the next one has the job with this agent.
				c.commitPart(j, a, b, onCommitted, records.Commit{Job: j.id})
			}
		case j.live != nil && je.Epoch < j.partOf(a.row.Name).from:
			c.commitPart(j, a, b, onCommitted, records.Commit{Job: j.id}) // of a fragment that it lost
		case j.live == nil || j.states == nil || j.ending != nil:
			c.lateEvents(j, a, b, events)
		default:
			c.jobEvents(j, a, b, first, je.Epoch, events)
		}
	}
	for _, je := range strangers {
		c.disown(a, c.jobs[je.Job], je.Job, je.JobIncarnation)
	}
	if next > m.First && a.intake.take(b, next-1) {
		c.measured(a, m.Flows)
		c.acknowledge(a)
	}
}

// measured passes on what an agent says of the ways from others to it. A name that
// no agent has is not kept: there is no bound to such.
func (c *Core) measured(a *agent, flows []comms.Flow) {
	flows = slices.DeleteFunc(slices.Clone(flows), func(f comms.Flow) bool { return c.agents[f.From] == nil || f.From == a.row.Name })
	if len(flows) > 0 && !c.cfg.Passive {
		c.emit(Measured{Agent: a.row.Name, Flows: flows})
	}
}

// repeated looks at events that were received before: by a controller that stored them
// without doing what they ask for, as it died while it looked into what had to run
// again; or by this one, before it gave the agent's tasks out anew, of which the agent
// heard nothing. The agent has no other word that nothing of the job runs any more.
func (c *Core) repeated(j *job, p *part, epoch uint64, events []comms.Event) {
	if p == nil || p.runs || j.live == nil || j.states == nil || j.ending != nil || j.deleting {
		return
	}
	said := false
	for i := range events {
		switch events[i].Kind {
		case comms.EventDrained:
			said, p.drained = true, max(p.drained, epoch)
		case comms.EventRetry:
			said, p.drained = false, 0
		}
	}
	if said {
		c.overBefore(j)
	}
}

// overBefore goes on with a job if agents told a controller before this one that
// nothing of it runs any more.
func (c *Core) overBefore(j *job) {
	switch {
	case j.recovering != nil || j.deleting:
	case j.rec.Cancel != "" && j.stopped():
		c.endUnassigned(j)
	case j.rec.Cancel == "" && (j.idle() && j.states.Open() == 0 || j.failsHomeless()):
		c.recover(j, "", false) // nothing is left to run, or what is missing is found
	}
}

// commitPart emits one job's part of a batch.
func (c *Core) commitPart(j *job, a *agent, b *batch, w what, commit records.Commit) {
	b.left++
	var g *dag.Graph
	if j.live != nil {
		g = j.graph
	}
	c.emit(Store{Token: c.await(pending{what: w, job: j, agent: a.row.Name, batch: b}), Commit: commit, Graph: g})
}

func (c *Core) batchStored(p pending) {
	if p.batch == nil {
		return
	}
	p.batch.left--
	if a := c.agents[p.agent]; a != nil {
		c.acknowledge(a)
	}
}

// acknowledge tells the agent how far its events are durable, if that is news.
func (c *Core) acknowledge(a *agent) {
	if upTo, news := a.intake.durable(); news {
		c.send(a.link, &comms.Committed{UpTo: upTo})
	}
}

// lateEvents looks at events of a job that has ended: datasets that were kept
// may be lost, and recomputed.
func (c *Core) lateEvents(j *job, a *agent, b *batch, events []comms.Event) {
	commit := records.Commit{Job: j.id}
	put := func(ref comms.DatasetRef, desc comms.Desc) {
		if _, kept := j.exports[ref]; kept {
			d := records.Dataset{Desc: desc, Agent: a.row.Name}
			c.comparedLate(j, &d)
			j.have(d)
			commit.Datasets = append(commit.Datasets, d)
		}
	}
	for i := range events {
		e := &events[i]
		if ref := e.Cause.Ref; e.Kind == comms.EventLost {
			if d := j.exports[ref]; j.shared() && d.Agent != a.row.Name {
				continue // a copy that it had
			}
			desc := j.exports[ref].Desc
			desc.Place = comms.Place{}
			put(ref, desc)
			continue
		}
		if e.Kind == comms.EventAdopted && j.live == nil {
			continue // another has it, and this one was told by Retain to free its copy
		}
		for k := range e.Outputs {
			put(e.Outputs[k].Ref, e.Outputs[k])
		}
		if e.Kind == comms.EventDrained && j.live == nil {
			c.retain(j, a) // a Retain was without effect while the agent had something of the job to end
		}
	}
	// While the end is being stored the agent is told nothing: should this process
	// die, the next one may have another end for the job, and needs the events.
	if len(commit.Datasets) > 0 || j.live != nil && j.ending != nil {
		c.commitPart(j, a, b, onCommitted, commit)
	}
}
