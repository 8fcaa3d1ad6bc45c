package core

import (
	"slices"

	"github.com/cascade-run/cascade/comms"
)

// The end of a task says what it has read (comms.Read), so that the controller can tell
// whether the bytes are the same when a dataset was recomputed (decision 34). Inputs that
// may lack some of their datasets do not count: which were there is no one's fault.

// given notes what a run is given. Bytes that a run before it is still to make are
// known when both have ended.
func (r *run) given(inputs []comms.RunInput) {
	for i := range inputs {
		for k := range inputs[i].Data {
			if d := &inputs[i].Data[k]; d.Place.Kind == comms.PlaceLive {
				r.job.tasks[d.Ref.Task].flags |= fAwaited
				r.inputs = inputs
			}
		}
	}
	if r.inputs == nil {
		r.read = r.sum(inputs)
	}
}

// givenBy is given for a task that reads what the one before it in a run makes.
func (r *run) givenBy(before taskIndex, attempt, output uint32) {
	r.job.tasks[before].flags |= fAwaited
	r.inputs = []comms.RunInput{{Data: []comms.Desc{{Ref: comms.DatasetRef{Task: before, Output: output}, Attempt: attempt,
		Place: comms.Place{Kind: comms.PlaceLive}}}}}
}

func (r *run) sum(inputs []comms.RunInput) (read uint64) {
	for i := range inputs {
		if r.gs.group.Inputs[i].Min > 0 {
			continue
		}
		for k := range inputs[i].Data {
			d := &inputs[i].Data[k]
			if d.Place.Kind == comms.PlaceLive {
				made := r.job.data[d.Ref]
				if made == nil || made.desc.Attempt != d.Attempt {
					continue // it was private: it was not announced
				}
				d = &made.desc
			}
			read = comms.Read(read, d.Ref, d.Sum())
		}
	}
	return read
}

// goneWhileRead has the runs that read a dataset keep what it was: it goes before they have
// ended, as its task is to run again.
func (c *Core) goneWhileRead(j *job, d *comms.Desc) {
	if int(d.Ref.Task) >= len(j.tasks) || j.tasks[d.Ref.Task].flags&fAwaited == 0 {
		return
	}
	for _, ex := range c.execs {
		for _, r := range ex.queue {
			if r.job == j {
				r.hasRead(d)
			}
		}
	}
}

// hasRead notes which bytes a dataset had that was a live value when the run was given it.
func (r *run) hasRead(d *comms.Desc) {
	for i := range r.inputs {
		for k := range r.inputs[i].Data {
			if l := &r.inputs[i].Data[k]; l.Ref == d.Ref && l.Attempt == d.Attempt && l.Place.Kind == comms.PlaceLive {
				r.inputs = slices.Clone(r.inputs) // the executor's message has these, too
				r.inputs[i].Data = slices.Clone(r.inputs[i].Data)
				r.inputs[i].Data[k] = *d
			}
		}
	}
}

// readCause is the cause of the event that ends a run well, with what it has read.
func (r *run) readCause() comms.Cause {
	cause := r.endCause()
	if r.job.dynamic() || cause.Kind == comms.CauseExecutor {
		return cause
	}
	if cause.Number = r.read; r.inputs != nil {
		cause.Number = r.sum(r.inputs)
	}
	return cause
}
