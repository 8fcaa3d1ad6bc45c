package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// describe prints an action on one line, or more for events.
func describe(a Action) string {
	switch a := a.(type) {
	case ToController:
		return "controller <- " + describeMessage(a.Msg)
	case ToExecutor:
		return fmt.Sprintf("executor %d <- %s", a.Executor, describeMessage(a.Msg))
	case ToClient:
		return fmt.Sprintf("client %d <- %s %q", a.Client, describeMessage(a.Msg), a.Body)
	case ServeChunk:
		return fmt.Sprintf("serve client %d request %d: %s at %d, %d bytes", a.Client, a.Msg.Req, a.Path, a.At, a.N)
	case Spawn:
		text := fmt.Sprintf("spawn executor %d env=%q dir=%q", a.Executor, a.Env, a.Dir)
		if a.Devices != nil {
			text += fmt.Sprintf(" devices=%v", a.Devices)
		}
		return text
	case Kill:
		return fmt.Sprintf("kill executor %d: %s", a.Executor, a.Why)
	case BuildEnv:
		what := ""
		if a.Commands {
			what = " for commands"
		}
		return fmt.Sprintf("build environment %s of job %d%s", a.Env.Name, a.Job[0], what)
	case Memory:
		return fmt.Sprintf("memory %s%+v", strings.TrimPrefix(fmt.Sprintf("%T", a.Effect), "ledger."), a.Effect)
	case SetTimer:
		return "timer " + a.At.UTC().Format("15:04:05.000000")
	case ToPeer:
		return fmt.Sprintf("agent %s <- %s", a.Agent, describeMessage(a.Msg))
	case AppendLog:
		by := ""
		if a.Called != "" {
			by = " by " + a.Called
		}
		return fmt.Sprintf("log of %s%s of job %d, attempt %d: %q", a.Task, by, a.Job[0], a.Attempt, a.Text)
	case DropJob:
		return fmt.Sprintf("drop job %d", a.Job[0])
	}
	return fmt.Sprintf("%T%+v", a, a)
}

func describeEnd(e *comms.CallEnd) string {
	s := fmt.Sprint(e.Ref.Number)
	if e.Ref.Strand != 0 {
		s = fmt.Sprintf("%d.%d", e.Ref.Strand, e.Ref.Number)
	}
	switch {
	case e.Read:
		s += " is read:"
	case e.Element:
		s += " made"
	default:
		s += " ended:"
	}
	for _, d := range e.Outputs {
		s += " " + describeDesc(d)
	}
	for _, n := range e.Counts {
		s += fmt.Sprintf(" %d elements", n.Count)
	}
	if e.Error != nil {
		s += fmt.Sprintf(" error %v", e.Error)
	}
	return s + ";"
}

func describeMessage(m comms.Message) string {
	switch m := m.(type) {
	case *comms.Submit:
		return fmt.Sprintf("submit job %d, watched %v", m.Job[0], m.Watch)
	case *comms.Control:
		return fmt.Sprintf("control job %d: %v %q", m.Job[0], m.Action, m.Reason)
	case *comms.Stop:
		return fmt.Sprintf("stop{Now:%v}", m.Now)
	case *comms.LoadReport:
		s := fmt.Sprintf("backlog: free %d, busy %.3fs", m.Free, m.Busy)
		for _, j := range m.Jobs {
			s += fmt.Sprintf(", job %d: %d tasks of %.3fs", j.Job[0], j.Tasks, j.Seconds)
		}
		return s
	case *comms.Where:
		s := fmt.Sprintf("where %d: %d calls of cpu %d, gpu %d, %d bytes each, here %v", m.Ask, m.Calls, m.Needs.CPU, m.Needs.GPU, m.Bytes, m.Here)
		if m.Calls == 0 {
			s = "loaded"
		}
		s += fmt.Sprintf("; %d wait, %d run", m.Load.Waiting, m.Load.Running)
		if len(m.Without) > 0 {
			s += fmt.Sprintf("; without %v", m.Without)
		}
		return s
	case *comms.Grant:
		text := fmt.Sprintf("grant %s of job %d, priority %d, depth %d", m.Group, m.Root.Job[0], m.Priority, m.Depth)
		if m.Tenant != "" {
			text += fmt.Sprintf(", tenant %q", m.Tenant)
		}
		text += ":"
		if g, err := dag.Decode(m.Environment); err == nil {
			text = strings.Replace(text, ":", fmt.Sprintf(", in %q of", m.Kind.Environment), 1)
			for i := range g.Environments {
				text += " " + g.Environments[i].Name
			}
			text += ":"
		}
		for i := range m.Tasks {
			t := &m.Tasks[i]
			text += fmt.Sprintf(" %d %s with %d bytes", t.Grant, t.Name, len(t.With))
			for _, in := range t.Inputs {
				text += " in " + describeDesc(in.Data)
				if in.Data.Place.Kind == comms.PlaceAgent {
					text += fmt.Sprintf(" as %v of %s", in.Of.DatasetRef, in.Of.Job.String()[:8])
				}
			}
			text += ";"
		}
		return text
	case *comms.GrantReport:
		text := "report"
		for i := range m.Items {
			it := &m.Items[i]
			text += fmt.Sprintf(" grant %d:", it.Grant)
			switch {
			case it.Back != "":
				text += " returned: " + it.Back
			case it.Over:
				text += " over"
			case it.Event == nil && len(it.Text) == 0:
				text += " has begun"
			}
			if it.Event != nil {
				text += " " + describeEvent(*it.Event)
			}
			for _, d := range it.Outputs {
				text += " " + describeDesc(d)
			}
			if len(it.Text) > 0 {
				text += fmt.Sprintf(" writes %q", it.Text)
			}
			text += ";"
		}
		return text
	case *comms.GrantRecall:
		return fmt.Sprintf("recall grants %v", m.Grants)
	case *comms.GrantEnd:
		return fmt.Sprintf("end grants %v", m.Grants)
	case *comms.GangStatus:
		s := fmt.Sprintf("muster of job %d epoch %d task %d: %s", m.Job[0], m.Epoch, m.Task, [...]string{"", "not ready", "ready", "held", "started"}[m.State])
		if m.State == comms.GangReserved {
			s += fmt.Sprintf(" turn %d %v", m.Turn, m.Members)
		}
		return s
	case *comms.StealReply:
		return fmt.Sprintf("spared of job %d epoch %d: %v", m.Job[0], m.Epoch, m.Tasks)
	case *comms.Events:
		var b strings.Builder
		fmt.Fprintf(&b, "events from %d", m.First)
		for _, j := range m.Jobs {
			for _, e := range j.Events {
				fmt.Fprintf(&b, "\n    job %d: %s", j.Job[0], describeEvent(e))
			}
		}
		for _, f := range m.Flows {
			fmt.Fprintf(&b, "\n    from %s: %d bytes in %v", f.From, f.Bytes, time.Duration(f.Nanos))
		}
		return b.String()
	case *comms.Dispatch:
		var b strings.Builder
		b.WriteString("dispatch")
		var runs []comms.Run
		for i := range m.Runs {
			all, err := m.Runs[i].All()
			if err != nil {
				return err.Error()
			}
			runs = append(runs, all...)
		}
		for i, r := range runs {
			fmt.Fprintf(&b, "\n    run %d: kind %d task %d attempt %d", r.ID, r.Kind, r.Task, r.Attempt)
			if r.Name != "" {
				b.WriteString(" " + r.Name)
			}
			if len(r.With) > 0 {
				b.WriteString(" with parameters")
			}
			if i > 0 && runs[i-1].ID == r.ID-1 && !slices.ContainsFunc(m.Runs, func(o comms.Run) bool { return o.ID == r.ID }) {
				b.WriteString(" behind it")
			}
			for _, in := range r.Inputs {
				b.WriteString(" in")
				for _, d := range in.Data {
					b.WriteString(" " + describeDesc(d))
				}
			}
			if len(r.Live)+len(r.Private) > 0 {
				fmt.Fprintf(&b, " live %v private %v", r.Live, r.Private)
			}
			if r.Skip != nil {
				fmt.Fprintf(&b, " skip %v", r.Skip)
			}
		}
		return b.String()
	case *comms.Kind:
		if m.Close {
			return fmt.Sprintf("close kind %d", m.ID)
		}
		s := fmt.Sprintf("kind %d: group %s of job %d, cpu %d", m.ID, m.Group, m.Job[0], m.Resources.CPU)
		if m.Group == "" {
			s = fmt.Sprintf("kind %d: groups of job %d, cpu %d", m.ID, m.Job[0], m.Resources.CPU)
		}
		if m.Resources.Memory > 0 {
			s += fmt.Sprintf(", memory %d MiB", m.Resources.Memory>>20)
		}
		return s
	case *comms.Welcome:
		return fmt.Sprintf("welcome{Executor:%d Agent:%s ControlPage:%s InlineMax:%d Scratch:%s ShmDir:%s}", m.Executor, m.Agent, m.ControlPage, m.InlineMax, m.Scratch, m.ShmDir)
	case *comms.CallEnds:
		s := fmt.Sprintf("calls of run %d:", m.Run)
		for i := range m.Ends {
			s += " " + describeEnd(&m.Ends[i])
		}
		return s
	case *comms.CallGo:
		if m.Error != nil {
			return fmt.Sprintf("wait %d of run %d: %v", m.Wait, m.Run, m.Error)
		}
		return fmt.Sprintf("wait %d of run %d is over", m.Wait, m.Run)
	case *comms.ActorFreed:
		return fmt.Sprintf("run %d: no handle is left of actors %v", m.Run, m.Actors)
	case *comms.DrainStatus:
		text := fmt.Sprintf("in hand, leaving %v, gone %v:", m.Leaving, m.Gone)
		for i := range m.Jobs {
			text += fmt.Sprintf(" job %d %v", m.Jobs[i].Job[0], m.Jobs[i].Held)
		}
		return text
	case *comms.Snapshot:
		s := "snapshot"
		for _, j := range m.Jobs {
			s += fmt.Sprintf(" job %d epoch %d: %d datasets, finished %v, running %v", j.Job[0], j.Epoch, len(j.Datasets), j.Finished, j.Running)
		}
		if m.Done {
			s += " done"
		}
		return s
	case *comms.Register:
		return fmt.Sprintf("register %s incarnation %d, last event %d", m.Agent, m.Incarnation, m.LastEvent)
	case *comms.Reply:
		return fmt.Sprintf("reply %d: code %d, %s", m.Req, m.Code, m.Message)
	case *comms.Chunk:
		text := fmt.Sprintf("chunk %d at %d of %d", m.Req, m.Offset, m.Total)
		if p := m.Desc.Place; p.Where != "" {
			text += fmt.Sprintf(", which lies in %s at %d", p.Where, p.Offset)
		}
		return text
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", m), "*comms.")) + fmt.Sprintf(" %+v", m)[2:]
}

func describeDesc(d comms.Desc) string {
	place := [...]string{"nowhere", "inline", "segment", "disk", "live", "agent"}[d.Place.Kind]
	switch d.Place.Kind {
	case comms.PlaceSegment:
		place += fmt.Sprintf(" %d+%d", d.Place.Segment, d.Place.Offset)
	case comms.PlaceLive:
		place += fmt.Sprintf(" run %d", d.Place.Run)
	case comms.PlaceInline:
		if n := len(d.Place.Bytes); n > 2 && n < 10 { // "ok" is what all return that say no more
			place += fmt.Sprintf(" %q", d.Place.Bytes)
		}
	}
	return fmt.Sprintf("%d.%d[%d] (%s)", d.Ref.Task, d.Ref.Output, d.Ref.Element, place)
}

func describeEvent(e comms.Event) string {
	kinds := [...]string{"", "ready", "started", "published", "finished", "retry", "failed", "skipped", "cancelled", "stream end", "lost", "drained", "taken back", "held back", "spilled", "environment", "building", "finished in a row", "", "taken over", "called", "torn"}
	causes := [...]string{"", "submit", "dataset", "task", "executor", "user", "memory", "time", "run"}
	s := fmt.Sprintf("%s task %d attempt %d", kinds[e.Kind], e.Task, e.Attempt)
	if e.Kind == comms.EventDrained {
		s = "drained"
	}
	if e.Executor != 0 {
		s += fmt.Sprintf(" on executor %d", e.Executor)
	}
	if e.Cause.Kind != comms.CauseNone {
		s += ", cause " + causes[e.Cause.Kind]
		if e.Cause.Kind == comms.CauseDataset || e.Cause.Kind == comms.CauseTask {
			s += fmt.Sprintf(" %d.%d[%d]", e.Cause.Ref.Task, e.Cause.Ref.Output, e.Cause.Ref.Element)
		}
		if e.Cause.Kind == comms.CauseExecutor {
			s += fmt.Sprintf(" %d", e.Cause.Number)
		}
	}
	if text := cmp.Or(e.CallText(), e.Cause.Text); text != "" {
		s += " (" + text + ")"
	}
	if e.Called != nil {
		edges, err := comms.ReadEdges(e.Called.Reads)
		for _, r := range edges {
			s += fmt.Sprintf(", input %d is ", r.Port)
			if r.From == comms.FromInput {
				s += fmt.Sprintf("input %d[%d] of its parent", r.Output, r.Element)
			} else {
				s += fmt.Sprintf("%d.%d.%d[%d]", r.Ref.Strand, r.Ref.Number, r.Output, r.Element)
			}
		}
		if err != nil {
			s += err.Error()
		}
		s += describeRecord(e.Called)
	}
	if e.Count > 0 {
		s += fmt.Sprintf(", count %d", e.Count)
	}
	for _, d := range e.Outputs {
		s += ", output " + describeDesc(d)
		if d.Attempt != 0 && d.Attempt != e.Attempt {
			s += fmt.Sprintf(" of attempt %d", d.Attempt)
		}
	}
	if e.Error != nil && e.Usage != nil {
		s += fmt.Sprintf(", took %v", time.Duration(e.Usage.Duration))
	}
	if e.Kind == comms.EventSteps {
		e.Each(func(one *comms.Event) bool { s += "\n        " + describeEvent(*one); return true })
	}
	if e.Error != nil {
		s += fmt.Sprintf(": %s: %s", e.Error.Kind, e.Error.Message)
	}
	return s
}

// describeRecord tells what is recorded of a called task.
func describeRecord(t *comms.Called) (s string) {
	if t.Met > 0 {
		s = fmt.Sprintf(", met %d", t.Met)
	}
	if len(t.Record) == 0 {
		return s
	}
	r, err := comms.ReadRecord(t.Record)
	switch {
	case err != nil:
		return s + ": " + err.Error()
	case r.Gap != comms.RecordWhole:
		return s + fmt.Sprintf(", end %d, not recorded: %s", t.Order, r.Gap)
	}
	data := func(d *comms.RecordData) string {
		if d.Recorded() {
			return fmt.Sprintf("%q", d.Place.Bytes)
		}
		return fmt.Sprintf("%d bytes", d.Size)
	}
	var words []string
	for i := range r.Args {
		switch a := &r.Args[i]; {
		case a.Put:
			words = append(words, "put "+data(&a.Data))
		case !a.Read:
			words = append(words, data(&a.Data))
		default:
			words = append(words, "read")
		}
	}
	s += fmt.Sprintf(", end %d with %v", t.Order, words)
	for i := range r.Results {
		s += " made " + data(&r.Results[i])
	}
	return s
}
