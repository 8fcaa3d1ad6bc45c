package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/report"
	"github.com/cascade-run/cascade/internal/screen"
)

// progress shows how a job goes: at the foot of a terminal, by plain lines elsewhere,
// by objects with --json. Plain lines come when a group of tasks ends, and once in
// a while when nothing does.
type progress struct {
	a      *app
	graph  *dag.Graph
	job    comms.JobID
	foot   *display // of the terminal; nil: plain lines, or objects
	silent bool     // no lines either
	now    func() time.Time
	start  time.Time
	quiet  time.Time       // when a line was printed last
	told   map[string]bool // groups that have ended, environments, reasons
	built  map[string]bool // environments that are said to be built: whether also that they are ready
	waits  string          // what the running job was last said to wait for
	late   string          // and which deadlines it was said to miss

	running []comms.TaskRow // that the terminal shows, the oldest first
	hosts   map[string]int  // on which the tasks of each family run
	failed  *comms.TaskRow  // the first that failed, if any
	planned weights         // by which the end is predicted
	plans   time.Time       // when to ask for the plan again
	asks    time.Time       // when to ask for them again
	looks   time.Time       // when to ask for lost agents again
	looked  bool            // for them: what is new from then on was lost meanwhile

	cores   coresAsked
	differs uint64 // recomputed datasets that were reported to differ
}

const (
	everyTerminal = 100 * time.Millisecond
	everyLines    = 250 * time.Millisecond
	everyObject   = time.Second
	quietFor      = 10 * time.Second
)

func (a *app) newProgress(g *dag.Graph, id comms.JobID) *progress {
	now := time.Now
	if a.now != nil {
		now = a.now
	}
	s := &progress{a: a, graph: g, job: id, now: now, start: now(), quiet: now(), told: map[string]bool{}, built: map[string]bool{}, differs: a.differed}
	switch {
	case a.json:
	case a.quiet, a.progress == "none":
		s.silent = true
	case a.progress != "plain" && a.onTerminal(a.raw.err) && a.getenv("TERM") != "dumb":
		s.foot = a.foot
	default:
		fmt.Fprintf(a.err, "job %s (%s): %s\n", g.Name, id, taskCount(g))
	}
	return s
}

func (s *progress) every() time.Duration {
	switch {
	case s.foot != nil:
		return everyTerminal
	case s.a.json:
		return everyObject
	}
	return everyLines
}

func (s *progress) update(p *cascade.Progress) {
	if p.Phase == comms.JobRunning && p.Waits != s.waits && !s.a.json {
		s.waits = p.Waits
		s.say("%s", cmp.Or(p.Waits, "it goes on"))
	}
	if p.Late != s.late && !s.a.json {
		s.late = p.Late
		s.say("late: %s", cmp.Or(p.Late, "no deadline is missed any more"))
	}
	if p.Differs > s.differs && !s.a.json {
		s.say("warning: %s", differs(p))
	}
	s.differs = p.Differs
	if s.a.json {
		_ = s.a.printJSON(progressObject(p, "")) // the command's end tells, and the job goes on
		return
	}
	if s.foot != nil || s.silent {
		return // the next tick shows it
	}
	for i, g := range p.Groups {
		if g.Total > 0 && !s.told[g.Group] && ended(s.graph, p, i) {
			s.told[g.Group] = true
			s.line("%s: %s", g.Group, counts(g))
		}
	}
}

// ended tells whether nothing more comes of a group. One with a task for each
// element of a stream grows as long as the stream's generator does not end.
func ended(graph *dag.Graph, p *cascade.Progress, i int) bool {
	g := p.Groups[i]
	if g.Done+g.Failed+g.Skipped+g.Cancelled < g.Total || (p.Phase == comms.JobRunning && g.Running > 0) {
		return false
	}
	if p.Phase.Final() || i >= len(graph.Groups) || graph.Groups[i].Stream == nil {
		return true
	}
	source := graph.Group(graph.Groups[i].Stream.Generator).Name
	from := slices.IndexFunc(p.Groups, func(g comms.GroupCounts) bool { return g.Group == source })
	return from < 0 || ended(graph, p, from)
}

// tick runs now and then, also when nothing changes: it tells what a job waits
// for while none of its tasks runs, and gives a sign of life.
func (s *progress) tick(ctx context.Context, client *cascade.Client, p *cascade.Progress) {
	if s.a.json || p == nil || s.silent {
		return
	}
	sum := total(p)
	var why []string
	if (sum.Running == 0 || slices.Contains(slices.Collect(maps.Values(s.built)), false)) && !p.Final {
		if why = s.waitsFor(ctx, client, p); sum.Running > 0 {
			why = nil
		}
	}
	if !p.Final {
		s.losses(ctx, client, p)
	}
	if s.foot != nil {
		s.runningTasks(ctx, client, p)
		_ = s.foot.draw(s.live(p, why)) // progress is not the result
		return
	}
	for _, text := range why {
		if !s.told[text] {
			s.told[text] = true
			s.line("%s", text)
		}
	}
	if s.now().Sub(s.quiet) >= cmp.Or(s.a.calm, quietFor) {
		why = append(why, s.away(ctx, client)...)
		s.line("%s: %s", p.Name, strings.Join(append([]string{counts(sum)}, why...), "; "))
	}
}

// losses tells once of each agent that was lost with tasks of the job, and once that it is
// back. It is no error when that cannot be found out.
func (s *progress) losses(ctx context.Context, client *cascade.Client, p *cascade.Progress) {
	if s.a.to == "" || client == nil || s.now().Before(s.looks) {
		return
	}
	s.looks = s.now().Add(lossesEvery)
	if rows, err := losses(ctx, client, p.Job); err == nil {
		s.tellLosses(rows)
	}
}

func (s *progress) tellLosses(rows []comms.LossRow) {
	for i := range rows {
		l := &rows[i]
		key := l.Agent + " " + l.At
		switch {
		case !s.looked && !l.Awaited && !l.Open: // over before
			s.told[key], s.told[key+" back"] = true, true
		case s.told[key] && (l.Back == "" || s.told[key+" back"]):
		default:
			s.told[key], s.told[key+" back"] = true, l.Back != ""
			s.tell(lossText(l))
		}
	}
	s.looked = true
}

// tell prints a line that stays: above the foot of a terminal, or as a line of the progress.
func (s *progress) tell(text string) {
	if s.foot != nil {
		s.say("%s", text)
		return
	}
	s.line("%s", text)
}

// away names the agents of a cluster that have jobs and are not heard of: what they have
// goes on elsewhere later. It is no error when that cannot be found out.
func (s *progress) away(ctx context.Context, client *cascade.Client) []string {
	if s.a.to == "" {
		return nil
	}
	rows, err := cascade.Rows[comms.AgentRow](ctx, client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return nil
	}
	return awayNames(rows, time.Now())
}

func awayNames(rows []comms.AgentRow, now time.Time) (all []string) {
	since := silent(slices.DeleteFunc(rows, func(r comms.AgentRow) bool { return r.Jobs == 0 }), now)
	for _, name := range slices.Sorted(maps.Keys(since)) {
		all = append(all, fmt.Sprintf("agent %s was not heard of for %s", name, report.Seconds(since[name].Seconds())))
	}
	return all
}

// waitsFor tells why nothing of a job runs, as far as that is known. It is no
// error when it cannot be found out: the job's own end tells.
func (s *progress) waitsFor(ctx context.Context, client *cascade.Client, p *cascade.Progress) (why []string) {
	if p.Phase == comms.JobHeld {
		return []string{"held: " + s.a.hint("release", s.job.String()) + " starts it"}
	}
	if p.Waits != "" {
		return []string{"waits: " + p.Waits}
	}
	if len(s.graph.Environments) > 0 {
		rows, err := cascade.Rows[comms.EnvironmentRow](ctx, client, comms.QueryEnvironments, s.job, "")
		if err != nil {
			return nil
		}
		why = s.buildings(rows)
	}
	if len(why) == 0 && total(p).Running == 0 {
		if text := s.taken(ctx, client); text != "" {
			why = append(why, text)
		}
	}
	return why
}

// buildings is building of all that the controller knows. A build that is in no row ended
// with its agent.
func (s *progress) buildings(rows []comms.EnvironmentRow) (all []string) {
	known := map[string]bool{}
	for i := range rows {
		known[buildKey(&rows[i])] = true
		if text := s.building(&rows[i]); text != "" {
			all = append(all, text)
		}
	}
	maps.DeleteFunc(s.built, func(key string, _ bool) bool { return !known[key] })
	return all
}

func buildKey(r *comms.EnvironmentRow) string { return r.Name + " on " + r.Agent }

// building is that an environment is being built, of what, and what that waits for; "" of
// others. When one that was told is ready it prints how long it took.
func (s *progress) building(r *comms.EnvironmentRow) string {
	key := buildKey(r)
	ready, told := s.built[key]
	switch {
	case r.State == "building":
		s.built[key] = false
		text := "building environment " + r.Name
		if k := slices.IndexFunc(s.graph.Environments, func(e dag.Environment) bool { return e.Name == r.Name }); k >= 0 {
			text += madeOf(&s.graph.Environments[k])
		}
		if s.a.to != "" {
			text += " on agent " + r.Agent
		}
		if r.Error != "" {
			text += ", which waits: " + r.Error
		}
		return text
	case told && !ready:
		if s.built[key] = true; r.State == "ready" {
			s.tell(fmt.Sprintf("environment %s is ready after %s; later jobs find it built", r.Name, report.Seconds(r.Seconds)))
		}
	}
	return ""
}

// madeOf is what an environment is built of, for the user who waits for it.
func madeOf(e *dag.Environment) string {
	var of []string
	switch {
	case e.Python != nil && len(e.Python.Pip) > 0:
		var names []string
		for _, r := range e.Python.Pip {
			name, _, _ := strings.Cut(r, "@") // an address may have a password
			names = append(names, strings.TrimSpace(name))
		}
		of = append(of, "Python with "+strings.Join(names, ", "))
	case e.Python != nil:
		of = append(of, "Python")
	case e.Go != "":
		of = append(of, "Go package "+e.Go)
	}
	if e.Container != nil {
		of = append(of, "container "+e.Container.Image)
	}
	for _, p := range e.Plugins {
		of = append(of, p.Name)
	}
	if len(of) == 0 {
		return ""
	}
	return " (" + oneLine(strings.Join(of, "; ")) + ")"
}

func (s *progress) line(format string, args ...any) {
	s.quiet = s.now()
	fmt.Fprintf(s.a.err, "%8s  %s\n", report.Seconds(s.now().Sub(s.start).Seconds()), screen.Line(fmt.Sprintf(format, args...)))
}

// say prints a message beside the progress.
func (s *progress) say(format string, args ...any) { s.a.note(format, args...) }

func (s *progress) end() {
	if s.foot != nil {
		_ = s.foot.end() // what is said next says what is wrong with the terminal
	}
}

func total(p *cascade.Progress) comms.GroupCounts {
	sum := comms.GroupCounts{Group: p.Name}
	for _, g := range p.Groups {
		sum.Total += g.Total
		sum.Ready += g.Ready
		sum.Running += g.Running
		sum.Done += g.Done
		sum.Failed += g.Failed
		sum.Skipped += g.Skipped
		sum.Cancelled += g.Cancelled
		sum.Retries += g.Retries
	}
	return sum
}

func counts(g comms.GroupCounts) string {
	parts := []string{fmt.Sprintf("%d/%d done", g.Done, g.Total)}
	for _, c := range []struct {
		n    uint64
		what string
	}{{g.Running, "running"}, {g.Ready, "ready"}, {g.Failed, "failed"}, {g.Skipped, "skipped"}, {g.Cancelled, "cancelled"}, {g.Retries, "tried again"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// progressObject is the JSON form of a Progress; cut is why nothing of the job runs.
func progressObject(p *cascade.Progress, cut string) any {
	type group struct {
		Group     string `json:"group"`
		Total     uint64 `json:"total"`
		Ready     uint64 `json:"ready"`
		Running   uint64 `json:"running"`
		Done      uint64 `json:"done"`
		Failed    uint64 `json:"failed"`
		Skipped   uint64 `json:"skipped"`
		Cancelled uint64 `json:"cancelled"`
		Retries   uint64 `json:"retries"`
	}
	o := struct {
		Job    string  `json:"job"`
		Name   string  `json:"name"`
		Phase  string  `json:"phase"`
		Final  bool    `json:"final"`
		Groups []group `json:"groups"`
		Waits  string  `json:"waits,omitempty"`
		Late   string  `json:"late,omitempty"`
		CutOff string  `json:"cut_off,omitempty"`
		Error  string  `json:"error,omitempty"`

		Differs   uint64 `json:"differs,omitempty"`
		Differing string `json:"differing,omitempty"`
	}{Differs: p.Differs, Differing: p.Differing, Waits: p.Waits, Late: p.Late, CutOff: cut, Job: p.Job.String(), Name: p.Name, Phase: p.Phase.String(), Final: p.Final}
	for _, g := range p.Groups {
		o.Groups = append(o.Groups, group(g))
	}
	if p.Error != nil {
		o.Error = p.Error.Error()
	}
	return o
}

// differs says that datasets were recomputed and differ.
func differs(p *cascade.Progress) string {
	if p.Differs == 1 {
		return p.Differing
	}
	return fmt.Sprintf("%s; %d in all", p.Differing, p.Differs)
}
