// Package blame finds out what a task did wrong when its executor died of it. It is pure; the agent uses it after a death:
//
//	crash output ── shm.ParseCrash ──▶ address ── Control.Find ──▶ segment, offset ── Input ──▶ "wrote to input x"
//	             └─ FindPanic ──▶ "panic: boom" and its stack
package blame

import "github.com/cascade-run/cascade/comms"

// Input names the input of a run that holds a byte of a segment; ok is false when none does.
func Input(kind *comms.Kind, run *comms.Run, segment uint32, offset uint64) (name string, ok bool) {
	for i, in := range run.Inputs {
		for _, d := range in.Data {
			p := &d.Place
			if p.Kind == comms.PlaceSegment && p.Segment == segment && offset >= p.Offset && offset-p.Offset < d.Size && i < len(kind.Inputs) {
				return kind.Inputs[i].Name, true
			}
		}
	}
	return "", false
}
