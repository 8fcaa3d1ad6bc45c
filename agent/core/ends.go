package core

import (
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A parent is told, unasked and in order, what becomes of its calls. The messages of a step
// leave with it.

// tellElement tells a parent of an element of a stream.
func (c *Core) tellElement(at rowRef, d comms.Desc) {
	if by := at.job.dyn.by; !at.row().dropped && by.run != nil && by.run.id == at.row().run {
		c.tellCaller(by, comms.CallEnd{Ref: at.row().ref, Element: true, Outputs: []comms.Desc{c.tellable(d)}})
	}
}

// tellEnd tells a parent how a call has ended.
func (c *Core) tellEnd(at rowRef) {
	j, w := at.job, at.row()
	by := j.dyn.by
	if by.run == nil || w.value || by.run.id != w.run { // a run that has not come to it yet is told when it does
		return
	}
	end := comms.CallEnd{Ref: w.ref, Error: w.failed}
	for o := range w.shape.group.Outputs {
		if w.shape.group.Outputs[o].Generate != dag.GenerateNone {
			if st := j.streams[outputKey{at.task, uint32(o)}]; st != nil {
				end.Counts = append(end.Counts, comms.StreamEnd{Output: uint32(o), Count: st.next, Failed: w.failed != nil})
			} else {
				end.Counts = append(end.Counts, comms.StreamEnd{Output: uint32(o), Failed: w.failed != nil})
			}
			continue
		}
		if d := j.data[comms.DatasetRef{Task: at.task, Output: uint32(o)}]; d != nil && w.failed == nil {
			end.Outputs = append(end.Outputs, c.tellable(d.desc))
		}
	}
	c.tellCaller(by, end)
}

// tellAgain tells another run of a parent what came of a call that it meets again.
func (c *Core) tellAgain(at rowRef) {
	j, w := at.job, at.row()
	if w.value {
		return
	}
	for o := range w.shape.group.Outputs {
		if st := j.streams[outputKey{at.task, uint32(o)}]; st != nil {
			for e := range st.next { // each, in order: one that is gone is there when it is asked for
				ref := comms.DatasetRef{Task: at.task, Output: uint32(o), Element: e}
				if d := j.data[ref]; d != nil {
					c.tellElement(at, d.desc)
				} else {
					c.tellElement(at, comms.Desc{Ref: ref})
				}
			}
		}
	}
	if j.at(at.task).state.over() && !slices.Contains(c.rowsEnded, at) {
		c.tellEnd(at)
	}
}

// tellable is a dataset as a parent is told of it: it asks for bytes that are not in the message.
func (c *Core) tellable(d comms.Desc) comms.Desc {
	if d.Place.Kind != comms.PlaceInline {
		d.Place = comms.Place{Kind: comms.PlaceAgent, Where: c.cfg.Agent}
	}
	return d
}

func (c *Core) tellCaller(by *caller, e comms.CallEnd) {
	by.told++
	by.ends = append(by.ends, e)
	if !by.telled {
		by.telled = true
		c.callTold = append(c.callTold, by)
	}
	if by.wait != nil {
		c.wakeAt(c.now)
	}
}

// tellCallers sends what parents are to be told.
func (c *Core) tellCallers() {
	for i := 0; i < len(c.callTold); i++ {
		c.sendEnds(c.callTold[i])
		c.callTold[i].telled = false
	}
	c.callTold = c.callTold[:0]
}

// sendEnds sends what one parent is to be told, in messages of bounded size.
func (c *Core) sendEnds(by *caller) {
	if len(by.ends) == 0 {
		return
	}
	ends := by.ends
	by.ends = nil
	for len(ends) > 0 {
		n, size := 0, 0
		for ; n < len(ends) && (n == 0 || size < dispatchBytes); n++ {
			for i := range ends[n].Outputs {
				size += descBytes + len(ends[n].Outputs[i].Place.Bytes)
			}
		}
		if by.run.ex.state != exKilled {
			c.emit(ToExecutor{by.run.ex.id, &comms.CallEnds{Run: by.run.id, Ends: ends[:n:n]}})
		}
		ends = ends[n:]
	}
}
