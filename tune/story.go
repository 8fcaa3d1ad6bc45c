package tune

import (
	"fmt"
	"strings"

	"github.com/cascade-run/cascade/tune/core"
	"github.com/cascade-run/cascade/tune/journal"
)

// Line is one thing that happened to a trial.
type Line struct {
	Seconds float64 `json:"seconds"` // for how long the experiment had run
	Text    string  `json:"text"`
}

// Story tells what happened to a trial, from the journal alone.
func Story(folder string, id core.ID) ([]Line, error) {
	var lines []Line
	trials := 0
	err := journal.Read(folder, func(r *journal.Record) error {
		e := &r.Event
		say := func(format string, args ...any) {
			lines = append(lines, Line{e.At.Seconds(), fmt.Sprintf(format, args...)})
		}
		if e.Kind == core.Suggested {
			if n := int(id) - trials; n >= 0 && n < len(e.Configs) {
				text, err := e.Configs[n].MarshalJSON()
				if err != nil {
					return err
				}
				say("suggested: %s", text)
			}
			trials += len(e.Configs)
		}
		if e.Kind == core.Begun && r.N > 1 && trials > int(id) {
			say("a new runner began")
		}
		if e.Trial == id {
			happened(e, say)
		}
		for i := range r.Do {
			if a := &r.Do[i]; a.Trial == id {
				decided(a, say)
			}
		}
		return nil
	})
	if err == nil && int(id) >= trials {
		err = fmt.Errorf("the experiment has no trial %d, it has %d trials", id, trials)
	}
	return lines, err
}

func happened(e *core.Event, say func(string, ...any)) {
	switch e.Kind {
	case core.Reported:
		if n := len(e.Results); n > 0 {
			last := &e.Results[n-1]
			text, err := last.Metrics.MarshalJSON()
			if err != nil {
				text = []byte(err.Error())
			}
			say("attempt %d reported result %d, %s", e.Attempt, last.Iteration, text)
		} else if !e.Done && !e.Waiting {
			say("attempt %d trains", e.Attempt)
		}
	case core.Saved:
		if e.Error != "" {
			say("checkpoint %s was not saved: %s", e.Name, e.Error)
		} else {
			say("saved %s", e.Name)
		}
	case core.Exited:
		if e.Cause != core.CauseStopped {
			say("attempt %d ended (%s): %s", e.Attempt, e.Cause, e.Error)
		}
	case core.Ordered:
		if e.Order == core.OrderStopTrial {
			say("a user ordered its stop")
		}
	}
}

func decided(a *core.Action, say func(string, ...any)) {
	switch a.Kind {
	case core.Start:
		from := ""
		if a.From != nil {
			from = ", from " + a.From.Name
		}
		say("placed, attempt %d%s; it may train %s", a.Attempt, from, until(a.Credit))
	case core.Go:
		say("it may go on %s", until(a.Credit))
	case core.Stop:
		say("stopped: %s", a.Reason)
	case core.Recover:
		say("it will run again")
	case core.Delete:
		say("deleted %s", strings.Join(a.Names, ", "))
	case core.Complete:
		say("it has ended (%s): %s", a.End, a.Reason)
	}
}

func until(c *core.Credit) string {
	text := c.String()
	if strings.HasSuffix(text, "end") {
		return text
	}
	return "until " + text
}
