package core

import "github.com/cascade-run/cascade/comms"

// The end of a task says what it has read (comms.Read), so that the controller can tell
// whether that is what there is when a dataset was made again (decision 36). Inputs that
// may lack some of their datasets do not count: which were there is no one's fault.

// given notes what a run is given. Bytes that a run before it is still to make are
// known when both have ended.
func (r *run) given(inputs []comms.RunInput) {
	for i := range inputs {
		for k := range inputs[i].Data {
			if inputs[i].Data[k].Place.Kind == comms.PlaceLive {
				r.inputs = inputs
				return
			}
		}
	}
	r.read = r.sum(inputs)
}

// givenBy is given for a task that reads what the one before it in a run makes.
func (r *run) givenBy(before taskIndex, attempt, output uint32) {
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
					continue // nobody else was told of it
				}
				d = &made.desc
			}
			read = comms.Read(read, d.Ref, d.Sum())
		}
	}
	return read
}

// readCause is the cause of the event that ends a run well, with what it has read.
func (r *run) readCause() comms.Cause {
	cause := r.endCause()
	if r.job.call != nil || cause.Kind == comms.CauseExecutor {
		return cause
	}
	if cause.Number = r.read; r.inputs != nil {
		cause.Number = r.sum(r.inputs)
	}
	return cause
}
