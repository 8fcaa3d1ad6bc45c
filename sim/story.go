package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
)

// Line is one happening of a story.
type Line struct {
	At   time.Duration
	Who  string
	Jobs []comms.JobID // that it concerns; none: all
	Text string
}

func (l Line) String() string { return fmt.Sprintf("%12.6f  %-12s %s", l.At.Seconds(), l.Who, l.Text) }

// Concerns keeps the lines of a story that concern a job; the zero job keeps all.
func Concerns(story []Line, job comms.JobID) []Line {
	var out []Line
	for _, l := range story {
		if job.IsZero() || len(l.Jobs) == 0 || slices.Contains(l.Jobs, job) {
			out = append(out, l)
		}
	}
	return out
}

// tell adds to the story.
func (w *world) tell(who string, jobs []comms.JobID, format string, args ...any) {
	if !w.keep {
		return
	}
	w.story = append(w.story, Line{w.now, who, jobs, fmt.Sprintf(format, args...)})
}

func (w *world) tellMessage(who, way string, m comms.Message) {
	if w.heard != nil {
		w.heard(who, way, m)
	}
	if !w.keep {
		return
	}
	text, jobs := describe(m)
	w.story = append(w.story, Line{w.now, who, jobs, way + ": " + text})
}

var eventNames = [...]string{"", "ready", "started", "published", "finished", "retry", "failed", "skipped", "cancelled", "stream end", "lost",
	"drained", "returned", "throttled", "spilled", "environment", "building", "finished in a row", "", "adopted", "called", "torn"}

// describe tells of a message what matters, and of which jobs it is.
func describe(m comms.Message) (string, []comms.JobID) {
	var jobs []comms.JobID
	name := strings.TrimPrefix(fmt.Sprintf("%T", m), "*comms.")
	switch m := m.(type) {
	case *comms.Events:
		return describeEvents(m)
	case *comms.Assign:
		fuse, err := comms.ReadPaths(m.Fuse)
		if err != nil {
			return err.Error(), []comms.JobID{m.Job}
		}
		return fmt.Sprintf("Assign %s epoch %d run %v attempts %v, %d datasets %s, ends %v, fuse %v, hold %v, take %s", jobName(m.Job), m.Epoch, m.Run, m.Attempts,
			len(m.Datasets), refs(m.Datasets), m.Ends, fuse, m.Hold, refs(m.Fetch)), []comms.JobID{m.Job}
	case *comms.Steer:
		return fmt.Sprintf("Steer %s %d %s", jobName(m.Job), m.Action, m.Reason), []comms.JobID{m.Job}
	case *comms.Control:
		return fmt.Sprintf("Control %s %d %v", jobName(m.Job), m.Action, m.Tasks), []comms.JobID{m.Job}
	case *comms.Retain:
		return fmt.Sprintf("Retain %s %v", jobName(m.Job), m.Keep), []comms.JobID{m.Job}
	case *comms.Submit:
		return fmt.Sprintf("Submit %s req %d", jobName(m.Job), m.Req), []comms.JobID{m.Job}
	case *comms.Accepted:
		return fmt.Sprintf("Accepted %s again %v", jobName(m.Job), m.Again), []comms.JobID{m.Job}
	case *comms.Watch:
		return fmt.Sprintf("Watch %s req %d", jobName(m.Job), m.Req), []comms.JobID{m.Job}
	case *comms.Progress:
		return fmt.Sprintf("Progress %s req %d %s result %v final %v %v", jobName(m.Job), m.Req, m.Phase, m.Result, m.Final, m.Error), []comms.JobID{m.Job}
	case *comms.Snapshot:
		var b strings.Builder
		for _, j := range m.Jobs {
			jobs = append(jobs, j.Job)
			fmt.Fprintf(&b, " %s epoch %d finished %v running %v data %s;", jobName(j.Job), j.Epoch, j.Finished, j.Running, refs(j.Datasets))
		}
		return "Snapshot" + b.String(), jobs
	case *comms.Dispatch:
		var b strings.Builder
		for i := range m.Runs {
			runs, _ := m.Runs[i].All() // the executor complains of what cannot be read
			for k := range runs {
				fmt.Fprintf(&b, " run %d of task %d attempt %d;", runs[k].ID, runs[k].Task, runs[k].Attempt)
			}
		}
		return "Dispatch" + b.String(), nil
	case *comms.Report:
		var b strings.Builder
		for i := range m.Items {
			it := &m.Items[i]
			kind := [...]string{"", "started", "published", "finished", "failed", "lease return", "held", "resumed", "succeeded in a row from"}[it.Kind]
			fmt.Fprintf(&b, " %s run %d %s", kind, it.Run, refs(it.Outputs))
			if it.Error != nil {
				fmt.Fprintf(&b, " (%s: %s)", it.Error.Kind, it.Error.Message)
			}
			if it.Lease != nil {
				fmt.Fprintf(&b, " %d at %d", it.Lease.Segment, it.Lease.Offset)
			}
			b.WriteString(";")
		}
		return "Report" + b.String(), nil
	case *comms.Kind:
		return fmt.Sprintf("Kind %d %s of %s, close %v", m.ID, m.Group, jobName(m.Job), m.Close), []comms.JobID{m.Job}
	case *comms.Located:
		return fmt.Sprintf("Located %d datasets", len(m.Data)), nil
	case *comms.Where:
		return fmt.Sprintf("Where %d: %d calls of %+v, here %v, load %+v, without %v", m.Ask, m.Calls, m.Needs, m.Here, *m.Load, m.Without), nil
	case *comms.Grant:
		var b strings.Builder
		for i := range m.Tasks {
			t := &m.Tasks[i]
			fmt.Fprintf(&b, " %d is %s:", t.Grant, t.Name)
			for k := range t.Inputs {
				fmt.Fprintf(&b, " %s of %s attempt %d", refs([]comms.Desc{t.Inputs[k].Data}), jobName(t.Inputs[k].Of.Job), t.Inputs[k].Data.Attempt)
			}
		}
		return fmt.Sprintf("Grant of %s:%s", jobName(m.Root.Job), b.String()), []comms.JobID{m.Root.Job}
	case *comms.GrantReport:
		var b strings.Builder
		for i := range m.Items {
			it := &m.Items[i]
			fmt.Fprintf(&b, " %d over %v back %q data %s", it.Grant, it.Over, it.Back, refs(it.Outputs))
			if it.Event != nil {
				fmt.Fprintf(&b, " %s %s", eventNames[it.Event.Kind], it.Event.CallText())
			}
		}
		return "GrantReport" + b.String(), nil
	case *comms.GrantEnd:
		return fmt.Sprintf("GrantEnd %v", m.Grants), nil
	case *comms.Hello:
		return name, nil
	}
	return fmt.Sprintf("%s %+v", name, m), nil
}

func describeEvents(m *comms.Events) (string, []comms.JobID) {
	var b strings.Builder
	var jobs []comms.JobID
	n := m.First
	fmt.Fprintf(&b, "Events")
	for _, je := range m.Jobs {
		jobs = append(jobs, je.Job)
		fmt.Fprintf(&b, " %s:", jobName(je.Job))
		for i := range je.Events {
			e := &je.Events[i]
			fmt.Fprintf(&b, " #%d", n)
			n++
			if e.Kind == comms.EventLost {
				fmt.Fprintf(&b, " lost %v;", e.Cause.Ref)
				continue
			}
			fmt.Fprintf(&b, " %s task %d attempt %d %s", eventNames[e.Kind], e.Task, e.Attempt, refs(e.Outputs))
			if e.Error != nil {
				fmt.Fprintf(&b, " (%s: %s)", e.Error.Kind, e.Error.Message)
			}
			b.WriteString(";")
		}
	}
	return b.String(), jobs
}

func refs(all []comms.Desc) string {
	var b strings.Builder
	for i := range all {
		r := all[i].Ref
		fmt.Fprintf(&b, "%d.%d[%d]", r.Task, r.Output, r.Element)
		b.WriteString([...]string{"!", "i ", "s ", "d ", "l ", "a "}[all[i].Place.Kind])
	}
	return "[" + b.String() + "]"
}

func jobName(j comms.JobID) string { return fmt.Sprintf("job%d", j[15]) }
