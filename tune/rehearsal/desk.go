package rehearsal

import (
	"fmt"
	"strings"

	"github.com/cascade-run/cascade/tune/core"
)

// Desk feeds a core by hand: the trials report what the caller says, in the order in which it says so.
type Desk struct {
	Core *core.Core
	seq  map[core.ID]int
}

// NewDesk returns the desk of an experiment of n trials with the configurations, in as many slots.
func NewDesk(o core.Options, s core.Scheduler, slots int, configs ...core.Values) *Desk {
	o.Samples = len(configs)
	d := &Desk{core.New(o, s), map[core.ID]int{}}
	d.Step(core.Event{Kind: core.Begun, Slots: slots})
	d.Step(core.Event{Kind: core.Suggested, N: len(configs), Configs: configs})
	return d
}

// Configs returns n empty configurations.
func Configs(n int) []core.Values {
	c := make([]core.Values, n)
	for i := range c {
		c[i] = core.Values{}
	}
	return c
}

// Step has an event happen, and has the workers stop and save as they are told. It returns the actions as text, such as
// "go 3 until training_iteration >= 4, stop 1".
func (d *Desk) Step(e core.Event) string {
	var said []string
	for events := []core.Event{e}; len(events) > 0; events = events[1:] {
		for _, a := range d.Core.Step(&events[0]) {
			if text := Said(&a); text != "" {
				said = append(said, text)
			}
			answer := core.Event{At: e.At, Trial: a.Trial, Attempt: a.Attempt}
			switch a.Kind {
			case core.Start:
				d.seq[a.Trial] = 0
				continue
			case core.Stop:
				answer.Kind, answer.Cause = core.Exited, core.CauseStopped
			case core.Save:
				answer.Kind, answer.Name = core.Saved, a.Name
			default:
				continue
			}
			events = append(events, answer)
		}
	}
	return strings.Join(said, ", ")
}

// Said is a short text of an action; that of Tell and Ask is empty.
func Said(a *core.Action) string {
	switch a.Kind {
	case core.Tell, core.Ask:
		return ""
	case core.Go:
		return fmt.Sprintf("go %d %s", a.Trial, a.Credit)
	case core.Start:
		from := ""
		if a.From != nil {
			from = " from " + a.From.Name
		}
		return fmt.Sprintf("start %d%s %s", a.Trial, from, a.Credit)
	case core.Delete:
		return "delete " + strings.Join(a.Names, " ")
	case core.Complete:
		return fmt.Sprintf("complete %d %s", a.Trial, a.End)
	case core.Finish:
		return "finish"
	}
	return fmt.Sprintf("%s %d", a.Kind, a.Trial)
}

// Report has a trial report metrics at an iteration, and wait.
func (d *Desk) Report(id core.ID, iteration int64, metrics core.Values) string {
	d.seq[id]++
	return d.Step(core.Event{Kind: core.Reported, Trial: id, Attempt: d.Core.Trials()[id].Attempt, Seq: d.seq[id], CanSave: true, Waiting: true,
		Results: []core.Result{{Iteration: iteration, Time: float64(iteration), Metrics: metrics}}})
}

// Fail has the worker of a trial end for a cause.
func (d *Desk) Fail(id core.ID, cause string) string {
	return d.Step(core.Event{Kind: core.Exited, Trial: id, Attempt: d.Core.Trials()[id].Attempt, Cause: cause, Error: "it broke"})
}

// States lists the statuses of the trials, such as "RUNNING PAUSED".
func (d *Desk) States() string {
	var s []string
	for _, t := range d.Core.Trials() {
		s = append(s, string(t.Status))
	}
	return strings.Join(s, " ")
}
