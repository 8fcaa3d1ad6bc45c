package core

import (
	"fmt"
	"slices"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A call may be a graph. Its row waits for its arguments as other rows do, and then, in place of running,
// for a job that the agent submits. Data goes in and out by the doors of the graph (dag.GivenFunction,
// dag.TakenFunction), which are tasks on this agent: no run stands behind them.
//
//	row ──its arguments are here──▶ Submit ──▶ controller ──Assign──▶ doors that give: arguments are lent to the job
//	 ▲                                            │                   door that takes: its inputs are lent to the row
//	 └─────────────── Progress, the last ─────────┘
//
// What is lent lies where it lay, and stays until the last who reads it needs it no more, whatever becomes of
// the job. When the row ends otherwise the job is cancelled.

// SubmitRequest is set in the numbers of requests that the core makes of a controller.
const SubmitRequest = 1 << 63

// mostCalled is how many bytes the encoded graph of a call has at most.
const mostCalled = 1 << 20

// submits is the jobs that rows wait for, and the jobs here that have doors.
type submits struct {
	takes bool // the controller takes jobs from agents
	open  []*submitted
	doors []*job
	last  uint64
}

// submitted is a job that a row waits for.
type submitted struct {
	at     rowRef
	submit *comms.Submit
	sent   bool   // what is asked for now, to the controller that is there
	known  bool   // a controller may know of it
	gone   string // the row waits no more, and the job is to be cancelled: why
	taken  bool   // the row has what the graph returns
}

// newJob notes a job that has doors.
func (s *submits) newJob(j *job) {
	if j.graph.Home() != "" {
		s.doors = append(s.doors, j)
	}
}

// controllerUp has all that is open told to a controller that does not know of it.
func (s *submits) controllerUp(ev ControllerUp) {
	s.takes = ev.Submits
	for _, o := range s.open {
		o.sent = o.sent && ev.Resumed
	}
}

// of returns the row's job that is not given up, or nil.
func (s *submits) of(at rowRef) *submitted {
	for _, o := range s.open {
		if o.at == at && o.gone == "" {
			return o
		}
	}
	return nil
}

// named returns the submission of a job, or nil.
func (s *submits) named(id comms.JobID) *submitted {
	for _, o := range s.open {
		if o.submit.Job == id {
			return o
		}
	}
	return nil
}

func (s *submits) forget(o *submitted) {
	s.open = slices.DeleteFunc(s.open, func(p *submitted) bool { return p == o })
}

// check compares jobs that rows wait for with the rows.
func (s *submits) check() error {
	for _, o := range s.open {
		if w := o.at.row(); o.gone == "" && !o.at.job.at(o.at.task).state.over() && (w.shape == nil || w.shape.graph == nil) {
			return fmt.Errorf("job %s was submitted for row %d of job %s, which is none of a graph", o.submit.Job, o.at.task, o.at.job.id)
		}
	}
	return nil
}

// graphOf reads the graph of a call.
func graphOf(k *comms.CallKind) (*dag.Graph, error) {
	if len(k.Graph) > mostCalled {
		return nil, fmt.Errorf("graph %s has %d bytes, the limit of one that a task runs is %d", k.Function, len(k.Graph), mostCalled)
	}
	g, err := dag.Decode(k.Graph)
	if err != nil {
		return nil, fmt.Errorf("graph %s: %w", k.Function, err)
	}
	given, taken := 0, 0
	for i := range g.Groups {
		switch grp := &g.Groups[i]; grp.Run.Function {
		case dag.GivenFunction:
			given++
		case dag.TakenFunction:
			taken += len(grp.Inputs)
		}
	}
	if given != len(k.Inputs) || taken != len(k.Outputs) && (taken > 0 || len(k.Outputs) > 1) {
		return nil, fmt.Errorf("graph %s has doors for %d inputs and %d outputs, and the call has %d and %d", k.Function, given, taken, len(k.Inputs), len(k.Outputs))
	}
	return g, nil
}

// submitGraph begins the job of a row whose arguments are here.
func (c *Core) submitGraph(at rowRef) {
	if c.submits.of(at) != nil { // an argument was lost, and is here again
		return
	}
	s := at.row().shape
	root, _ := at.job.root()
	g, err := s.graph.Within(root.graph.Environments, s.env.name)
	if err != nil {
		c.fail(at.job, at.task, nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: err.Error()}, comms.Cause{Kind: comms.CauseTask}, true)
		return
	}
	used := map[string]bool{}
	for i := range g.Groups {
		used[g.Groups[i].Run.Function] = true
	}
	m := &comms.Submit{Job: c.freshID(fmt.Append(at.job.id[:], at.task)), Graph: g.Encode(), Dir: root.dir, Tenant: root.tenant.name, Priority: root.priority,
		Weight: uint32(root.tenant.weight), Watch: true, Every: -1}
	for _, f := range root.registry {
		if used[f.Name] {
			m.Registry = append(m.Registry, f)
		}
	}
	sum := blake3.Sum256(m.Graph)
	m.GraphHash = comms.Hash(append([]byte{comms.HashBLAKE3}, sum[:]...))
	c.submits.last++
	m.Req = SubmitRequest | c.submits.last
	c.submits.open = append(c.submits.open, &submitted{at: at, submit: m})
	c.wakeAt(c.now)
}

// serveSubmits tells the controller what it does not know of, and serves doors.
func (c *Core) serveSubmits() {
	for _, o := range slices.Clone(c.submits.open) {
		c.serveSubmit(o)
	}
	for _, j := range c.submits.doors {
		c.serveDoors(j)
	}
	if len(c.submits.doors) > 0 {
		c.submits.doors = slices.DeleteFunc(c.submits.doors, func(j *job) bool { return c.byJob[j.id] != j })
	}
}

func (c *Core) serveSubmit(o *submitted) {
	if o.gone == "" && o.at.job.at(o.at.task).state.over() {
		o.gone = "the call that runs it has ended"
		if w := o.at.row(); w.failed != nil && w.failed.Message != "" {
			o.gone = w.failed.Message
		}
		if o.sent = false; !o.known {
			c.submits.forget(o)
			return
		}
	}
	switch {
	case o.sent || !c.ctl.open:
	case o.gone != "":
		o.sent = true
		c.emit(ToController{&comms.Control{Req: o.submit.Req, Job: o.submit.Job, Action: comms.SteerCancel, Reason: o.gone}})
	case !c.submits.takes:
		c.endSubmitted(o, &comms.TaskError{Kind: comms.ErrorSetup, Agent: c.cfg.Agent, Message: "the controller is of a version that takes no graphs from tasks: update it, or submit the graph with a client"})
	default:
		o.sent, o.known = true, true
		c.emit(ToController{o.submit})
	}
}

// notSubmitted takes the controller's refusal of a job, or its answer to a cancel.
func (c *Core) notSubmitted(m *comms.Reply) {
	i := slices.IndexFunc(c.submits.open, func(o *submitted) bool { return o.submit.Req == m.Req })
	if i < 0 {
		return
	}
	o := c.submits.open[i]
	switch {
	case o.gone != "": // it was cancelled, or is not there
		c.submits.forget(o)
	case m.Code != comms.CodeOK:
		c.endSubmitted(o, &comms.TaskError{Kind: comms.ErrorSetup, Agent: c.cfg.Agent, Message: fmt.Sprintf("the controller refused the graph: %s", m.Message)})
	}
}

// submittedEnds takes the end of a job.
func (c *Core) submittedEnds(m *comms.Progress) {
	o := c.submits.named(m.Job)
	if o == nil || !m.Final {
		return
	}
	e := m.Error
	switch {
	case m.Phase == comms.JobDone && (o.taken || o.gone != ""):
		e = nil
	case m.Phase == comms.JobCancelled && e != nil:
		e = &comms.TaskError{Kind: comms.ErrorCancelled, Agent: c.cfg.Agent, Message: fmt.Sprintf("job %s, which runs the graph, was cancelled: %s", m.Job, e.Message)}
	case e == nil:
		e = &comms.TaskError{Kind: comms.ErrorTask, Agent: c.cfg.Agent, Message: fmt.Sprintf("job %s, which runs the graph, is %v, and has not made its outputs", m.Job, m.Phase)}
	}
	c.endSubmitted(o, e)
}

// endSubmitted ends a row as its job has ended. The error is that of the task in the graph.
func (c *Core) endSubmitted(o *submitted, e *comms.TaskError) {
	c.submits.forget(o)
	j, t := o.at.job, o.at.task
	if o.gone != "" || j.at(t).state.over() {
		return
	}
	end, state := comms.Event{Kind: comms.EventFinished, Task: t, Attempt: j.at(t).attempt, Cause: comms.Cause{Kind: comms.CauseTask}, Error: e}, tFinished
	switch {
	case e == nil:
	case e.Kind == comms.ErrorCancelled:
		end.Kind, state = comms.EventCancelled, tCancelled
	default:
		end.Kind, state = comms.EventFailed, tFailed
	}
	c.noteEnd(j, end)
	c.end(j, t, state)
	if e != nil {
		c.todo = append(c.todo, ended{j, t})
	}
	c.wakeAt(c.now)
}

// serveDoors has the doors of a job that are ready do their work.
func (c *Core) serveDoors(j *job) {
	if c.byJob[j.id] != j || j.held || j.stopped != nil {
		return
	}
	for _, cl := range j.classes {
		for cl.door {
			e, ok := c.head(cl)
			if !ok {
				break
			}
			o := c.submits.named(j.id)
			if o == nil || o.gone != "" {
				c.pop(cl)
				c.fail(j, e.task, nil, &comms.TaskError{Kind: comms.ErrorCrash, Message: "the task that runs the graph has ended"}, j.cause(e), true)
				return
			}
			if !c.serveDoor(o, j, e) {
				break
			}
		}
	}
}

// serveDoor has a door do its work. It is false when what it gives is not here now.
func (c *Core) serveDoor(o *submitted, j *job, e entry) bool {
	gs := j.groupOf(e.task)
	if gs.group.Run.Function == dag.TakenFunction {
		c.pop(gs.class)
		if why := c.takeOut(o, j, e.task); why != "" {
			c.fail(j, e.task, nil, &comms.TaskError{Kind: comms.ErrorStore, Message: why}, j.cause(e), true)
			return true
		}
		o.taken = true
		c.endDoor(j, e, nil)
		return true
	}
	a := &o.at.row().args[j.graph.DoorNumber(e.task)]
	if !a.there {
		return false
	}
	c.pop(gs.class)
	c.endDoor(j, e, []comms.Desc{c.giveIn(j, e.task, o.at.job, a)})
	return true
}

// giveIn makes an argument of the call the output of a door.
func (c *Core) giveIn(j *job, t taskIndex, from *job, a *argument) comms.Desc {
	ref := comms.DatasetRef{Task: t}
	if have := j.data[ref]; have != nil {
		return have.desc
	}
	d := a.desc
	if a.data != nil {
		d = a.data.desc
	}
	d.Ref, d.Attempt = ref, j.at(t).attempt
	if j.peers != nil && !j.dropped {
		c.offerData(j, ref)
	}
	refs := j.countRefs(ref, false)
	if refs == 0 && !j.hasWanted(ref) || j.dropped {
		d.Place = comms.Place{}
		return d
	}
	data := &dataset{desc: d}
	if a.data != nil {
		data = c.lend(from, a.data, j, ref)
		data.desc = d
	}
	data.refs = refs
	j.data[ref] = data
	return d
}

// takeOut makes the inputs of a door the results of the call. It says what is not here.
func (c *Core) takeOut(o *submitted, j *job, t taskIndex) (why string) {
	ins, err := j.inputs(t)
	if err != nil {
		return err.Error()
	}
	if len(ins) == 0 { // its one output says that it has ended
		ref := comms.DatasetRef{Task: o.at.task}
		o.at.job.data[ref] = &dataset{desc: comms.Desc{Ref: ref, Attempt: 1, Place: comms.Place{Kind: comms.PlaceInline}}}
	}
	for k := range ins {
		refs, err := j.inputRefs(t, uint32(k))
		if err != nil || len(refs) != 1 || j.data[refs[0]] == nil {
			return fmt.Sprintf("output %s of the graph is not on agent %s", ins[k].Name, c.cfg.Agent)
		}
		d, ref := j.data[refs[0]], comms.DatasetRef{Task: o.at.task, Output: uint32(k)}
		if old := o.at.job.data[ref]; old != nil { // it was recomputed
			c.freeData(o.at.job, old)
		}
		if d.sealed {
			lent := c.lend(j, d, o.at.job, ref)
			lent.refs = 0
			continue
		}
		own := d.desc
		own.Ref = ref
		o.at.job.data[ref] = &dataset{desc: own}
	}
	return ""
}

// endDoor ends a door that has done its work.
func (c *Core) endDoor(j *job, e entry, outputs []comms.Desc) {
	edges := j.edgesOf(e.task)
	c.noteEnd(j, comms.Event{Kind: comms.EventFinished, Task: e.task, Attempt: j.at(e.task).attempt, Cause: j.cause(e), Outputs: outputs})
	c.end(j, e.task, tFinished)
	for _, d := range outputs {
		c.resolve(j, ofOutput(edges, d.Ref.Output), dag.SourceWhole, d.Ref, true)
		c.resolveGates(j, dag.SourceWhole, d.Ref, true)
	}
}
