package core

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/records"
)

func (w *world) linkName(id LinkID) string {
	for name, l := range w.links {
		if l == id {
			return name
		}
	}
	return fmt.Sprintf("link%d", id)
}

func (w *world) print(a Action) {
	p := func(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }
	switch a := a.(type) {
	case Send:
		p("-> %s %s", w.linkName(a.Link), w.message(a.Msg))
	case CloseLink:
		p("close %s: %s", w.linkName(a.Link), a.Why)
	case Prepare:
		p("prepare %s decode=%v past=%v hosts=%d", jobName(a.Job), a.Submit != nil, a.Past, len(a.Cluster.Hosts))
	case Improve:
		p("improve %s hosts=%d urgent=%v", jobName(a.Job), len(a.Cluster.Hosts), a.Urgent)
	case Warn:
		p("warn %s: %s", jobName(a.Job), a.Text)
	case Differs:
		p("differs %s: %s", jobName(a.Job), a.Text)
	case Create:
		p("create %s %s epoch=%d agent=%q", jobName(a.Row.ID), a.Row.Phase, a.Row.Epoch, a.Row.Agent)
	case Store:
		p("store %s", describe(&a.Commit))
	case StoreAgent:
	case GaveUp:
		p("gave up %s", a.Agent)
	case Delete:
		p("delete %s", jobName(a.Job))
	case Ask:
		p("ask %T", a.Msg)
		for _, r := range a.Agents {
			text := fmt.Sprintf("%s %s seen %s", r.Name, r.State, w.sinceStart(r.Seen))
			for _, d := range r.Devices {
				text += fmt.Sprintf(" device %s of %d bytes", d.Name, d.Memory)
			}
			p("%s", text)
		}
		for _, id := range slices.SortedFunc(maps.Keys(a.Waits), func(x, y comms.JobID) int { return slices.Compare(x[:], y[:]) }) {
			p("%s waits: %s", jobName(id), a.Waits[id])
		}
		if len(a.Cluster.Hosts) > 0 {
			p("planned for %s", strings.Join(names(&a.Cluster), ", "))
		}
	case Wake:
		p("wake at %s", a.At.Sub(time.Unix(1000, 0)))
	}
}

// sinceStart reads a time of a row.
func (w *world) sinceStart(text string) string {
	if text == "" {
		return "never"
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		w.t.Fatal(err)
	}
	return at.Sub(time.Unix(1000, 0)).String()
}

func describe(c *records.Commit) string {
	s := jobName(c.Job)
	if r := c.Row; r != nil {
		s += fmt.Sprintf(" row(%s epoch=%d done=%d/%d)", r.Phase, r.Epoch, r.Totals.Done, r.Totals.Tasks)
		if r.Error != nil {
			s += fmt.Sprintf(" error(%s)", r.Error.Message)
		}
	}
	if b := c.Batch; b != nil {
		s += fmt.Sprintf(" batch(%d: %d events", b.Number, len(b.Events))
		if len(b.Reset) > 0 {
			s += fmt.Sprintf(", reset %s: %s", rangesText(b.Reset), b.Cause())
		}
		if len(b.Moved) > 0 {
			s += fmt.Sprintf(", moved %s: %s", rangesText(b.Moved), b.Cause())
			for _, a := range b.Unbegun {
				s += fmt.Sprintf("; unbegun %s to %q", rangesText(a.Run), a.Agent)
			}
		}
		if len(b.Cancelled) > 0 {
			s += fmt.Sprintf(", cancelled %s: %s", rangesText(b.Cancelled), b.Why)
		}
		for _, r := range b.Reasons {
			s += fmt.Sprintf(", %s run: %s", rangesText(r.Tasks), r.Text)
		}
		for _, f := range b.Given {
			s += fmt.Sprintf(", %s has %s", f.Agent, rangesText(f.Run))
		}
		s += ")"
	}
	if len(c.Tasks) > 0 {
		s += fmt.Sprintf(" tasks(%d)", len(c.Tasks))
	}
	if len(c.Datasets)+len(c.Drop) > 0 {
		s += fmt.Sprintf(" datasets(+%d -%d)", len(c.Datasets), len(c.Drop))
	}
	if c.Agent != "" {
		s += fmt.Sprintf(" seen(%s up to %d)", c.Agent, c.Seen.UpTo)
	}
	return s
}

func rangesText(rs []comms.Range) string {
	var parts []string
	for _, r := range rs {
		parts = append(parts, fmt.Sprintf("%d-%d", r.First, r.Last))
	}
	return strings.Join(parts, ",")
}

func (w *world) message(m comms.Message) string {
	switch m := m.(type) {
	case *comms.Reply:
		return fmt.Sprintf("Reply %d code=%d %s", m.Req, m.Code, m.Message)
	case *comms.Accepted:
		return fmt.Sprintf("Accepted %d %s again=%v", m.Req, jobName(m.Job), m.Again)
	case *comms.Progress:
		s := fmt.Sprintf("Progress %d %s %s", m.Req, jobName(m.Job), m.Phase)
		if m.Result {
			s += " RESULT"
		}
		if m.Final {
			s += " FINAL"
		}
		if m.Waits != "" {
			s += fmt.Sprintf(" waits: %s", m.Waits)
		}
		if m.Late != "" {
			s += fmt.Sprintf(" late: %s", m.Late)
		}
		for _, g := range m.Groups {
			s += fmt.Sprintf(" %s=%d/%d", g.Group, g.Done, g.Total)
		}
		if m.Error != nil {
			s += " error=" + m.Error.Message
		}
		if m.Ran > 0 {
			s += fmt.Sprintf(" took=%s", m.Took())
		}
		if len(m.Events) > 0 {
			s += fmt.Sprintf(" events=%d", len(m.Events))
		}
		for _, d := range m.Values {
			s += " " + d.Name + d.Agent
		}
		return s
	case *comms.Assign:
		s := fmt.Sprintf("Assign %s epoch=%d", jobName(m.Job), m.Epoch)
		if m.Run != nil {
			s += fmt.Sprintf(" run=%s attempts=%v", rangesText(m.Run), attemptsText(m.Attempts))
		}
		for _, p := range m.Peers {
			s += fmt.Sprintf(" %s=%s", p.Agent, rangesText(p.Run))
		}
		for _, d := range m.Datasets {
			s += fmt.Sprintf(" data=%d.%d[%d]", d.Ref.Task, d.Ref.Output, d.Ref.Element)
			if d.Place.Kind == comms.PlaceAgent {
				s += "@" + d.Place.Where
			}
		}
		for _, d := range m.Fetch {
			s += fmt.Sprintf(" take=%d.%d[%d]@%s", d.Ref.Task, d.Ref.Output, d.Ref.Element, d.Place.Where)
		}
		for _, x := range m.Adopt {
			s += fmt.Sprintf(" adopt=%d.%d[%d] of %s %d.%d[%d]", x.Data.Ref.Task, x.Data.Ref.Output, x.Data.Ref.Element,
				jobName(x.From.Job), x.From.Task, x.From.Output, x.From.Element)
		}
		for _, n := range m.Tried {
			s += fmt.Sprintf(" tried=%d: %d failed, %d crashed", n.Task, n.Fails, n.Crashes)
		}
		for _, r := range m.Enlarged {
			s += fmt.Sprintf(" enlarged=%d: %d MiB, grown %d times", r.Task, r.Memory>>20, r.Times)
		}
		if m.Larger > 0 {
			s += fmt.Sprintf(" larger=%dMiB", m.Larger>>20)
		}
		if len(m.Memory) > 0 {
			s += " memory="
			for i, n := range m.Memory {
				if i > 0 {
					s += ","
				}
				s += fmt.Sprintf("%dMiB", n>>20)
			}
		}
		for _, e := range m.Ends {
			s += fmt.Sprintf(" end=%d.%d:%d", e.Task, e.Output, e.Count)
			if e.Failed {
				s += "(failed)"
			}
		}
		for _, e := range m.Ended {
			s += fmt.Sprintf(" %s=%d-%d", [...]string{"", "done", "failed", "skipped", "cancelled"}[e.How], e.First, e.Last)
		}
		if m.Hold {
			s += " hold"
		}
		return s
	case *comms.Steer:
		if m.Action == comms.SteerRank {
			ranks, err := comms.ReadRanks(m.Ranks)
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintf("Steer %s rank epoch=%d %v %s", jobName(m.Job), m.Epoch, ranks, m.Reason)
		}
		return fmt.Sprintf("Steer %s %s %s", jobName(m.Job), [...]string{"", "cancel", "hold", "release", "forget"}[m.Action], m.Reason)
	case *comms.Committed:
		return fmt.Sprintf("Committed %d", m.UpTo)
	case *comms.Retain:
		return fmt.Sprintf("Retain %s %d datasets", jobName(m.Job), len(m.Keep))
	case *comms.There:
		s := fmt.Sprintf("There %d", m.Ask)
		for _, h := range m.Hosts {
			s += fmt.Sprintf(" %s=%d/%d", h.Agent, h.Calls, h.Slots)
		}
		if m.Why != "" {
			s += ": " + m.Why
		}
		return s
	case *comms.Meet:
		return "Meet " + m.Host.Agent
	case *comms.GangCommand:
		s := fmt.Sprintf("GangCommand %s epoch=%d task=%d %s turn=%d", jobName(m.Job), m.Epoch, m.Task, [...]string{"", "reserve", "start", "abort"}[m.Step], m.Turn)
		if len(m.Members) > 0 {
			s += " " + strings.Join(m.Members, ",")
		}
		return s
	case *comms.StealRequest:
		return fmt.Sprintf("StealRequest %s epoch=%d share=%.2f least=%v", jobName(m.Job), m.Epoch, m.Share, m.Least)
	case *comms.Located:
		var names []string
		for _, d := range m.Data {
			names = append(names, d.Name+"@"+d.Agent)
		}
		return fmt.Sprintf("Located %d %s", m.Req, strings.Join(names, " "))
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", m), "*comms.")
}

// attemptsText writes attempts that were given out anew as GRANT.TRY, others as TRY.
func attemptsText(all []uint32) (out []string) {
	for _, a := range all {
		s := strconv.Itoa(int(comms.Try(a)))
		if granted := a >> 16; granted > 0 {
			s = fmt.Sprintf("%d.%s", granted, s)
		}
		out = append(out, s)
	}
	return out
}

func attemptOf(s string) uint32 {
	grant, try, both := strings.Cut(s, ".")
	if !both {
		return uint32(number(s))
	}
	return uint32(number(grant))<<16 | uint32(number(try))
}
