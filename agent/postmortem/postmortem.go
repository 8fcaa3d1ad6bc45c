// Package postmortem finds out what a task did wrong when its executor died of it. Examine reads the files that the
// process left; all other functions are pure:
//
//	crash output ── shm.ParseCrash ──▶ address ── Control.Find ──▶ segment, offset ── Input ──▶ "wrote to input x"
//	             └─ FindPanic ──▶ "panic: boom" and its stack
package postmortem

import (
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
)

// Live names the inputs that the run before handed over in the same process; ""
// when there are none. Their bytes lie in that run's lease.
func Live(kind *comms.Kind, run *comms.Run) string {
	var names []string
	for i, in := range run.Inputs {
		if i < len(kind.Inputs) && slices.ContainsFunc(in.Data, func(d comms.Desc) bool { return d.Place.Kind == comms.PlaceLive }) {
			names = append(names, kind.Inputs[i].Name)
		}
	}
	return strings.Join(names, " or ")
}

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
