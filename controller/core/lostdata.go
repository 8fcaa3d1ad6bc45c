package core

import "github.com/cascade-run/cascade/comms"

// lostData says how a dataset is lost.
type lostData struct {
	promised bool   // an agent lacks it that was promised it
	epoch    uint64 // of that agent, or of the one that has lost it
}

// owe takes in whether a dataset is lost, and whether an agent lacks it that was promised it.
func (s *States) owe(r comms.DatasetRef, lost, promised bool) {
	switch was := s.lost[r].promised; {
	case promised && !was:
		s.owing[r.Task]++
	case was && !promised:
		if s.owing[r.Task]--; s.owing[r.Task] == 0 {
			delete(s.owing, r.Task)
		}
	}
	if lost {
		s.lost[r] = lostData{promised, s.epoch}
	} else {
		delete(s.lost, r)
	}
}

// lacks tells whether an agent lacks a dataset that it was promised and that no agent
// recomputes: it waits for the controller to see to that.
func (s *States) lacks() bool {
	for t := range s.owing {
		if s.get(t).Over() {
			return true
		}
	}
	return false
}

// unkept returns the promised datasets that agents lack of tasks that have ended since it was
// called last: the agent that reran such a task still had them, or did not make them, and announces nothing.
func (s *States) unkept() (refs []comms.DatasetRef) {
	if len(s.broke) == 0 {
		return nil
	}
	for r, l := range s.lost {
		if l.promised && s.broke[r.Task] && s.get(r.Task).Over() {
			refs = append(refs, r)
		}
	}
	clear(s.broke)
	return refs
}

// lose takes in that a dataset is lost. Of a task that was given out anew since it
// says nothing: what is there of that was made later. A new process, which knows no
// epoch, speaks of what it has found.
func (s *States) lose(e *comms.Event) bool {
	ref := e.Cause.Ref
	if s.epoch > 0 && s.exists(ref.Task) && s.void(ref.Task) {
		return false
	}
	s.owe(ref, true, s.lost[ref].promised || e.Cause.Kind == comms.CauseSubmit || e.Cause.Kind == comms.CauseDataset)
	return true
}
