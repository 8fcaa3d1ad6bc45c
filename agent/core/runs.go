package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// run is one attempt at one task, from the choice of its executor to its end.
type run struct {
	id      comms.RunID
	job     *job
	task    taskIndex
	attempt uint32
	gs      *groupState
	ex      *executor // nil while it is pinning
	cause   comms.Cause
	mean    float64 // seconds predicted when it was queued
	live    bool    // waits for a live value of the run before it

	started   bool
	told      bool // EventStarted was noted
	startedAt time.Time
	asked     bool      // a Reclaim names it
	back      bool      // a generator that waits for credit, or a run that waits for a call: it has no cpu
	backAt    time.Time // since when
	orphan    bool      // its task is not this agent's any more
	private   []uint32
	gang      *member // in a gang that has started
	rest      []step  // tasks behind this one, see paths.go

	inputs []comms.RunInput // some are still to be made by runs before it; nil: none is
	read   uint64           // what it was given, when inputs is nil: see comms.Read

	caller *caller            // its calls; nil while it has made none
	lists  bool               // a value of it holds a future, and it is the task of a graph
	lacks  string             // what is lost that only another run of its task can bring; "" nothing
	more   []ledger.RequestID // what they returned and it reads

	pins    ledger.RequestID // 0: no input lies in shared memory
	granted bool
	pinErr  error

	usage    *comms.Usage     // what it cost, when it failed
	used     int64            // bytes of private memory when it was ended because of them; 0: it was not
	abort    *comms.TaskError // it was cancelled or ran out of time, and why
	halted   bool             // it was cancelled because its job was stopped
	endedBy  *comms.Cause     // it was cancelled because another member of its gang did not end well: that one
	deadline time.Time        // when its executor is killed; zero never
}

func (r *run) group() *groupState { return r.gs }

func (r *run) owner() ledger.Owner { return ledger.Owner(r.id)<<1 | 1 }

func (ex *executor) owner() ledger.Owner { return ledger.Owner(ex.id) << 1 }

// endCause is the cause of the event that ends a run: what made it start, where no
// event has told that before.
func (r *run) endCause() comms.Cause {
	if r.told {
		return comms.Cause{Kind: comms.CauseRun}
	}
	return r.cause
}

// newRun makes a run of a task that leaves the ready state.
func (c *Core) newRun(j *job, t taskIndex, cause comms.Cause) *run {
	c.lastRun++
	r := &run{id: c.lastRun, job: j, task: t, attempt: j.tasks[t].attempt, gs: j.groupOf(t), cause: cause}
	c.runs[r.id] = r
	j.inflight++
	return r
}

// dropRun forgets a run and ends its pins.
func (c *Core) dropRun(r *run) {
	c.unfold(r)
	delete(c.runs, r.id)
	r.job.inflight--
	c.unpin(r)
	c.endCaller(r)
	if r.gang != nil {
		c.returnPorts([]uint16{r.gang.port})
	}
	c.touch(r.job)
	if r.gs.generator {
		c.generators = slices.DeleteFunc(c.generators, func(o *run) bool { return o == r })
	}
}

// runOf finds the run of a task, as a run of its own; nil when there is none.
func (c *Core) runOf(j *job, t taskIndex) *run {
	for _, ex := range c.execs {
		for _, r := range ex.queue {
			if r.job != j || r.orphan {
				continue
			}
			if r.task == t {
				c.unfold(r)
				return r
			}
			if slices.ContainsFunc(r.rest, func(s step) bool { return s.task == t }) {
				c.unfold(r)
				return c.runOf(j, t)
			}
		}
	}
	return nil
}

// message writes a run for its executor, with what must be sent before it.
func (c *Core) message(r *run, ex *executor) (comms.Run, error) {
	j, g := r.job, r.gs.group
	m, err := r.message()
	if err != nil {
		return m, err
	}
	m.Kind = c.tellKind(ex, j, r.gs)
	if r.gang != nil {
		m.Env = append(m.Env, r.gang.environ()...)
	}
	if len(g.Inputs) > 0 {
		if m.Inputs, err = c.inputs(r, ex); err != nil {
			return m, err
		}
		r.given(m.Inputs)
		if n := inputBytes(&m); n > maxRunBytes {
			return m, fmt.Errorf("its small inputs make a message of %d bytes, the limit is %d: reduce them in two steps", n, maxRunBytes)
		}
	}
	if r.gs.generator {
		m.Skip = make([]uint64, len(g.Outputs))
		for o := range g.Outputs {
			if g.Outputs[o].Generate != dag.GenerateNone {
				m.Skip[o] = c.skipCount(j, r.task, uint32(o))
			}
		}
	}
	return m, nil
}

// message writes what the graph tells of a run: all but its kind, its inputs and what
// depends on other runs. The executor knows the shared parts from the kind.
func (r *run) message() (comms.Run, error) {
	g := r.job.graph
	m := comms.Run{ID: r.id, Task: r.task, Attempt: r.attempt}
	if comms.Try(r.attempt) == comms.LastTry {
		return m, fmt.Errorf("it was tried or moved %d times, and has no number for another attempt", comms.LastTry-1)
	}
	if r.job.dyn != nil {
		m.With, m.Name = r.job.dyn.rows.at(r.task).with, r.job.rowName(r.task)
		return m, nil
	}
	with, err := r.gs.parameters(g, r.task)
	if err != nil {
		return m, err
	}
	if r.gs.varyWith {
		m.With = with
	}
	if r.gs.named {
		m.Name = r.job.taskName(r.task)
	}
	if r.gs.varyCmd {
		cmd, err := g.Command(r.task)
		if err != nil {
			return m, err
		}
		m.Command = words(cmd)
	}
	if r.gs.varyEnv {
		env, err := g.EnvVars(r.task)
		if err != nil {
			return m, err
		}
		m.Env = environ(env)
	}
	return m, nil
}

// inputs lists the datasets of each input. A dataset that is not there yet comes from a
// run before it on the same executor, as a live value.
func (c *Core) inputs(r *run, ex *executor) ([]comms.RunInput, error) {
	j := r.job
	if j.dyn != nil {
		return c.rowArguments(r, ex), nil
	}
	ins, err := j.inputs(r.task)
	if err != nil {
		return nil, err
	}
	out := make([]comms.RunInput, len(ins))
	for i, in := range ins {
		data := make([]comms.Desc, 0, len(in.Sources))
		for _, s := range in.Sources {
			if s.Kind == dag.SourceWhole || s.Kind == dag.SourceElement {
				data = append(data, c.inputDesc(j, comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element}, ex))
				continue
			}
			for _, ref := range j.expand(s) {
				data = append(data, c.inputDesc(j, ref, ex))
			}
		}
		out[i].Data = data
	}
	return out, nil
}

func (c *Core) inputDesc(j *job, ref comms.DatasetRef, ex *executor) comms.Desc {
	d := j.data[ref]
	if d == nil {
		for k := len(ex.queue) - 1; k >= 0; k-- {
			p := ex.queue[k]
			if p.job != j {
				continue
			}
			if n := len(p.rest); n > 0 && p.rest[n-1].task == ref.Task { // nothing is queued behind the others
				return comms.Desc{Ref: ref, Attempt: p.rest[n-1].attempt, Place: comms.Place{Kind: comms.PlaceLive, Run: p.id + comms.RunID(n)}}
			}
			if p.task == ref.Task {
				return comms.Desc{Ref: ref, Attempt: p.attempt, Place: comms.Place{Kind: comms.PlaceLive, Run: p.id}}
			}
		}
		return comms.Desc{Ref: ref}
	}
	if !d.sealed {
		return d.desc
	}
	desc := d.desc
	if info, ok := c.led.Dataset(j.key(d)); ok { // a dataset that was spilled has come back elsewhere
		desc.Place.Segment, desc.Place.Offset = uint32(info.Place.Segment), uint64(info.Place.Offset)
		c.announce(ex, info.Place.Segment)
	}
	return desc
}

// findConstants finds out which parts of a run all tasks of a group share. Parts that
// hold a placeholder, of a parameter of the job or of a loop, go with each run.
func (gs *groupState) findConstants() {
	g := gs.group
	gs.varyWith = gs.varyWith || g.IsInput()
	for _, f := range g.With {
		gs.varyWith = gs.varyWith || placeholder(f.Value)
	}
	for _, f := range g.Env {
		gs.varyEnv = gs.varyEnv || placeholder(f.Value)
	}
	for _, a := range g.Run.Command {
		for _, p := range a {
			gs.varyCmd = gs.varyCmd || p.Kind == dag.ArgExpr
		}
	}
}

// findStep finds out whether tasks of a group can be steps, which are functions
// with one input or none.
func (gs *groupState) findStep() {
	g := gs.group
	gs.named = g.Stream != nil
	for i := range g.Axes {
		gs.named = gs.named || g.Axes[i].Values != nil
	}
	gs.step = g.Stream == nil && !g.IsDoor() && g.Gang == dag.GangNone && g.Run.Function != "" && !gs.varyEnv && !gs.generator && gs.unfit == "" &&
		(len(g.Inputs) == 0 || len(g.Inputs) == 1 && !g.Inputs[0].List)
}

// placeholder tells whether a value holds text that may differ between tasks.
func placeholder(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, "$")
	case []any:
		return slices.ContainsFunc(v, placeholder)
	case map[string]any:
		for _, e := range v {
			if placeholder(e) {
				return true
			}
		}
	}
	return false
}

// parameters returns the msgpack map of a task's parameters; nil without any.
func (gs *groupState) parameters(g *dag.Graph, t taskIndex) ([]byte, error) {
	if gs.with != nil {
		return gs.with, nil
	}
	if len(gs.group.With) == 0 && !gs.group.IsInput() {
		return nil, nil
	}
	fields, err := g.With(t)
	if err != nil {
		return nil, err
	}
	b := comms.AppendParameters(nil, fields)
	if !gs.varyWith {
		gs.with = b
	}
	return b, nil
}

func words(cmd []dag.Arg) []comms.Word {
	out := make([]comms.Word, len(cmd))
	for i, a := range cmd {
		out[i].Parts = a
	}
	return out
}

func environ(fields []dag.Field) []string {
	var out []string
	for _, f := range fields {
		out = append(out, f.Name+"="+fmt.Sprint(f.Value))
	}
	return out
}
