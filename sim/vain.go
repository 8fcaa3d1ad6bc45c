package sim

import (
	"maps"
	"slices"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
)

// inVain tells whether a task was skipped or cancelled for one that was given out anew since, or that
// was itself skipped in vain: it is to have another chance.
func (f *facts) inVain(b *core.Batch, e *comms.Event) bool {
	by := e.Cause.Ref.Task
	if e.Cause.Kind != comms.CauseTask {
		return false
	}
	since := f.since[by]
	if st := f.g.Group(by).Stream; st != nil && f.highest[by] == 0 {
		_, element, _ := f.g.Slot(by)
		if _, exists := f.made[comms.DatasetRef{Task: st.Generator, Output: st.Output, Element: element}]; !exists {
			since = f.since[st.Generator] // it went where that went
		}
	}
	return f.vain[by] || b.Agent != "" && b.Epoch < since
}

// noneInVain wants that no task of a job that has ended was skipped in vain, unless the job was cancelled, or stopped for another failure.
func (o *oracle) noneInVain(c *core.Commit, f *facts) {
	if c.Row != nil && c.Row.Phase.Final() && len(f.vain) > 0 && !f.cancel && !c.Row.Fails {
		o.w.fail(c.Job, "tasks %v have ended for what counts no more", slices.Sorted(maps.Keys(f.vain)))
	}
}
