package core

import (
	"cmp"
	"encoding/binary"
	"math"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// An executor learns what the runs of a group share as a Kind, before the first of
// them. Groups of one task, as a graph has that a program built task by task, share
// a kind with the groups of their job that differ in their names and in the values of
// their parameters only: then these go with the run.

// findAlone finds out whether a group shares its kind with groups like it.
func (gs *groupState) findAlone() {
	g := gs.group
	gs.alone = gs.size == 1 && g.Run.Function != "" && len(g.Env) == 0 && g.Gang == dag.GangNone && !gs.generator
	if gs.alone {
		gs.named, gs.varyWith = true, len(g.With) > 0 || g.IsInput()
	}
}

// kindOf returns the message that an executor must have before a run of a group.
func (c *Core) kindOf(j *job, gs *groupState) *comms.Kind {
	if gs.kind != nil {
		return gs.kind
	}
	if !gs.alone || j.dynamic() {
		gs.kind = c.newKind(j, gs)
		return gs.kind
	}
	c.key = gs.appendPorts(c.key[:0])
	if gs.kind = gs.class.kinds[string(c.key)]; gs.kind != nil {
		return gs.kind
	}
	gs.kind = c.newKind(j, gs)
	gs.kind.Group = ""
	if gs.class.kinds == nil {
		gs.class.kinds = map[string]*comms.Kind{}
	}
	gs.class.kinds[string(c.key)] = gs.kind
	return gs.kind
}

// appendPorts appends what tells the kinds of groups apart that share one, beside
// their class.
func (gs *groupState) appendPorts(b []byte) []byte {
	g := gs.group
	text := func(s string, set bool) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
		if set {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	b = binary.AppendUvarint(b, uint64(g.Timeout))
	text(g.Run.Function, false)
	b = binary.AppendUvarint(b, uint64(len(g.Inputs)))
	for i := range g.Inputs {
		text(g.Inputs[i].Name, g.Inputs[i].List)
	}
	b = binary.AppendUvarint(b, uint64(len(g.Outputs)))
	for o := range g.Outputs {
		text(g.Outputs[o].Name, gs.file[o])
	}
	for i := range g.With { // executors look once for each kind whether a function takes them
		text(g.With[i].Name, false)
	}
	return b
}

// newKind makes the kind of a group.
func (c *Core) newKind(j *job, gs *groupState) *comms.Kind {
	g := gs.group
	c.lastKind++
	k := &comms.Kind{ID: c.lastKind, Job: j.id, Group: g.Name, Function: g.Run.Function, Stdin: g.Run.Stdin, Stdout: g.Run.Stdout,
		Resources: c.resources(gs.need), Timeout: int64(g.Timeout), Dir: cmp.Or(gs.class.env.dir, j.dir)}
	if !j.dynamic() {
		k.HashMax = hashMax(j.graph.Rebuilt)
	}
	if g.Run.Command != nil {
		k.Command = words(g.Run.Command) // a run whose words differ brings its own
	}
	if !gs.varyEnv {
		k.Env = environ(g.Env)
	}
	if !gs.varyWith {
		k.With = gs.with
	}
	if !gs.named && len(g.Axes) > 0 {
		k.First = gs.first
		for i := range g.Axes {
			k.Axes = append(k.Axes, comms.KindAxis{First: g.Axes[i].First, N: int64(g.Axes[i].Len())})
		}
	}
	for i := range g.Inputs {
		in := &g.Inputs[i]
		k.Inputs = append(k.Inputs, comms.KindIn{Name: in.Name, List: in.List, From: sourceText(in)})
	}
	for o, out := range g.Outputs {
		ko := comms.KindOut{Name: out.Name, Generate: out.Generate, Count: out.Count, File: gs.file[o]}
		if out.Generate != dag.GenerateNone && j.dyn == nil && c.bounded(j, gs, uint32(o)) {
			ko.Buffer = uint64(out.Buffer)
			if ko.Buffer == 0 {
				ko.Buffer = bufferSize
			}
		}
		k.Outputs = append(k.Outputs, ko)
	}
	if j.dynamic() {
		root, t := j.root()
		k.Job = root.id
		if h := root.hosted(); h != nil {
			k.Job = h.root.Job
		}
		if k.Group = j.dyn.groupName(gs); root != j {
			k.Group = root.rootGroup(t)
		}
	}
	return k
}

// sourceText says where an input comes from, for messages: of a list its first source.
func sourceText(in *dag.InputDecl) string {
	switch len(in.From) {
	case 0:
		return ""
	case 1:
		return in.From[0].Text
	}
	return in.From[0].Text + ", ..."
}

// hashAnyway is up to how many bytes a dataset has a hash where the job does not say
// how recomputed datasets are treated: it takes less than 0.1 ms.
const hashAnyway = 1 << 20

// hashMax is up to how many bytes the datasets of a job have a hash.
func hashMax(policy dag.Rebuilt) uint64 {
	if policy == dag.RebuiltDefault {
		return hashAnyway
	}
	return math.MaxUint64
}

// tellKind announces a group's kind to an executor, once, and returns its number.
// A constant of the parameters is known by then.
func (c *Core) tellKind(ex *executor, j *job, gs *groupState) uint32 {
	k := c.kindOf(j, gs)
	if gs.told == ex {
		return k.ID
	}
	if gs.told = ex; !ex.kinds[k.ID] {
		ex.kinds[k.ID] = true
		c.emit(ToExecutor{ex.id, k})
	}
	return k.ID
}

// maxClosing is how many kinds of jobs that have ended an executor keeps at most.
const maxClosing = 256

// sendClosing tells an executor which kinds it may forget.
func (c *Core) sendClosing(ex *executor) {
	if ex.state != exKilled {
		for _, id := range ex.closing {
			c.emit(ToExecutor{ex.id, &comms.Kind{ID: id, Close: true}})
		}
	}
	ex.closing = ex.closing[:0]
}

// closeKinds lets executors forget a job's groups: with their next work, as a
// message of its own would wake a process for each small job that ends.
func (c *Core) closeKinds(j *job) {
	for i := range j.groups {
		c.closeKind(&j.groups[i])
	}
	for _, gs := range j.ownGroups {
		c.closeKind(gs)
	}
	if j.dyn != nil {
		for _, gs := range j.dyn.sortedGroups() {
			c.closeKind(gs)
		}
	}
}

func (c *Core) closeKind(gs *groupState) {
	gs.told = nil
	for _, ex := range c.execs {
		if gs.kind == nil || !ex.kinds[gs.kind.ID] {
			continue
		}
		delete(ex.kinds, gs.kind.ID)
		if ex.closing = append(ex.closing, gs.kind.ID); len(ex.closing) >= maxClosing {
			c.sendClosing(ex)
		}
	}
}
