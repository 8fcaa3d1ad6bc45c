package core

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// stream is one generated output of a task. Elements are published in order, so
// that one number says which are final.
type stream struct {
	next    uint64          // elements published
	ended   bool            // there are next elements and no more
	failed  bool            // ended because its generator failed finally
	torn    bool            // ended well, but elements were lost and could not be recomputed
	lost    map[uint64]bool // published elements that are gone, to be recomputed
	buffer  uint64          // unconsumed elements allowed; 0 any number
	open    map[uint64]int  // consumers of each unconsumed element that have not ended
	made    uint64          // elements that the present run has published
	allowed uint64          // elements that it may publish in all
}

// stream returns the record of a generated output, made at first use.
func (j *job) stream(t taskIndex, output uint32) *stream {
	k := outputKey{t, output}
	st := j.streams[k]
	if st == nil {
		st = &stream{open: map[uint64]int{}, lost: map[uint64]bool{}}
		if (j.peers == nil || j.awayAt(t) == nil) && j.consumed(t, output) {
			st.buffer = uint64(j.groupOf(t).group.Outputs[output].Buffer)
			if st.buffer == 0 {
				st.buffer = bufferSize
			}
		}
		j.streams[k] = st
	}
	return st
}

// unmade counts the elements that are lost and lie beyond those of which the last run of the generator says that it has made them.
func (st *stream) unmade(it *comms.ReportItem, output uint32) (n int) {
	for _, end := range it.Counts {
		for e := range st.lost {
			if end.Output == output && e >= end.Count {
				n++
			}
		}
	}
	return n
}

// consumed tells whether an output's elements have consumers of their own while
// the generator runs. Without, holding the generator back would hold it for ever.
func (j *job) consumed(t taskIndex, output uint32) bool {
	if len(j.graph.StreamSlots(t, output)) > 0 {
		return true
	}
	for _, e := range ofOutput(j.edgesOf(t), output) {
		if e.Kind == dag.SourceElement {
			return true
		}
	}
	return false
}

// element takes one published element of a run's output.
func (c *Core) element(r *run, d comms.Desc) error {
	j := r.job
	if outputs := r.gs.group.Outputs; int(d.Ref.Output) >= len(outputs) || outputs[d.Ref.Output].Generate == dag.GenerateNone {
		return fmt.Errorf("it published an element of output %d, which is not generated", d.Ref.Output)
	}
	if r.orphan {
		return c.discard(r, d) // the task starts over, or is not this agent's any more
	}
	st := j.stream(r.task, d.Ref.Output)
	d.Ref.Task = r.task
	if d.Ref.Element > st.next {
		return errElement(d.Ref.Element, st.next)
	}
	st.made++
	again, lost := d.Ref.Element < st.next, st.lost[d.Ref.Element]
	delete(st.lost, d.Ref.Element)
	fresh, err := c.publish(r, d)
	if err != nil || !fresh {
		return err
	}
	ref := d.Ref
	if !again || lost { // a loss was announced, so its repair is
		c.note(j, comms.Event{Kind: comms.EventPublished, Task: r.task, Attempt: r.attempt, Executor: r.ex.id,
			Cause: comms.Cause{Kind: comms.CauseRun}, Outputs: []comms.Desc{c.told(j, ref, d)}})
	}
	if !again {
		st.next++
	}
	if j.dyn != nil && j.data[ref] == nil { // its parent has dropped the stream
		j.goneElement(ref)
	}
	if !again || j.peers != nil {
		c.watchElement(j, st, ref) // other agents count again
	}
	c.resolve(j, ofElement(ofOutput(j.edgesOf(r.task), ref.Output), ref.Element), dag.SourceElement, ref, true)
	c.resolveGates(j, dag.SourceElement, ref, true)
	c.bind(j, ref, again)
	if st.ended && again {
		c.streamThere(j, r.task, ref.Output)
	}
	return nil
}

// watchElement begins to count the consumers that have not ended of a new element.
func (c *Core) watchElement(j *job, st *stream, ref comms.DatasetRef) {
	if st.buffer == 0 {
		return
	}
	n := j.openConsumers(ref)
	if n > 0 {
		st.open[ref.Element] = n
	} else {
		delete(st.open, ref.Element)
	}
}

// streamEnd closes a stream: all of its elements are there.
func (c *Core) streamEnd(j *job, t taskIndex, output uint32) {
	st := j.stream(t, output)
	if st.ended {
		return
	}
	st.ended = true
	c.unborn(j, t, output)
	c.skipUnfed(j, t, output)
	c.streamThere(j, t, output)
	c.slotsEnded(j, outputKey{t, output})
}

// streamThere tells the consumers of a whole stream that it is complete.
func (c *Core) streamThere(j *job, t taskIndex, output uint32) {
	st := j.streams[outputKey{t, output}]
	if len(st.lost) > 0 {
		return
	}
	ref := comms.DatasetRef{Task: t, Output: output}
	c.resolve(j, ofOutput(j.edgesOf(t), output), dag.SourceStream, ref, !st.failed)
	c.resolveGates(j, dag.SourceStream, ref, !st.failed)
}

// streamFailed closes a stream whose generator failed finally. Consumers of published
// elements go on; elements that were lost and not recomputed are given up.
func (c *Core) streamFailed(j *job, t taskIndex, output uint32) {
	k := outputKey{t, output}
	st := j.stream(t, output)
	if !st.ended {
		st.ended, st.failed = true, true
	}
	st.torn = st.torn || len(st.lost) > 0
	c.skipUnborn(j, t, output)
	c.skipUnfed(j, t, output)
	for _, e := range slices.Sorted(maps.Keys(st.lost)) {
		ref := comms.DatasetRef{Task: t, Output: output, Element: e}
		for _, s := range j.graph.StreamSlots(t, output) {
			if i, err := j.graph.Instance(s, e); err == nil && int(i) < len(j.tasks) && j.tasks[i].state == tWaiting {
				c.resolveEdge(j, i, ref, false)
			}
		}
	}
	if st.failed || st.torn {
		ref := comms.DatasetRef{Task: t, Output: output}
		c.resolve(j, ofOutput(j.edgesOf(t), output), dag.SourceStream, ref, false)
		c.resolveGates(j, dag.SourceStream, ref, false)
	}
	c.slotsEnded(j, k)
}

// reopenStreams lets a generator that runs again go on where it stopped.
func (c *Core) reopenStreams(j *job, t taskIndex) {
	for o := range j.groupOf(t).group.Outputs {
		if st := j.streams[outputKey{t, uint32(o)}]; st != nil {
			if st.failed {
				st.ended = false
			}
			st.failed, st.torn = false, false
		}
	}
}

// expand lists the datasets that a source stands for, in order.
func (j *job) expand(s dag.Source) []comms.DatasetRef {
	var refs []comms.DatasetRef
	switch s.Kind {
	case dag.SourceStream:
		if st := j.streams[outputKey{s.Task, s.Output}]; st != nil {
			for e := range st.next {
				refs = append(refs, comms.DatasetRef{Task: s.Task, Output: s.Output, Element: e})
			}
		}
	case dag.SourceGroup:
		slot, _, _ := j.graph.Slot(s.Task)
		if st := j.streams[j.slots[slot].key]; st != nil {
			for e := range st.next {
				if i, err := j.graph.Instance(slot, e); err == nil {
					refs = append(refs, comms.DatasetRef{Task: i, Output: s.Output})
				}
			}
		}
	default:
		refs = append(refs, comms.DatasetRef{Task: s.Task, Output: s.Output, Element: s.Element})
	}
	return refs
}
