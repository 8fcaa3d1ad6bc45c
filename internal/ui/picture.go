package ui

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/report"
)

// Limits of a picture.
const (
	wholeTasks  = 20_000 // a job of more is shown by its counts, what failed and what runs
	someTasks   = 1000   // that run, or failed, of such a job
	shownSlow   = 20
	shownSteps  = 60
	shownNext   = 6
	shownCauses = 50
	shownError  = 4000 // characters
)

// sight is what is known of a job at a moment.
type sight struct {
	now      time.Time
	progress *comms.Progress
	graph    *dag.Graph
	rows     []comms.TaskRow // all, or those that run and failed
	whole    bool            // all
	plan     []comms.PlanRow
	losses   []comms.LossRow
	hosts    []comms.AgentRow
	alone    bool
}

// picture is the state of the topic picture:ID: what is made of the tasks of a job. Durations are seconds.
type picture struct {
	At        string          `json:"at"` // when it was made
	Tasks     uint64          `json:"tasks"`
	Read      int             `json:"read"` // of these tasks
	Whole     bool            `json:"whole"`
	Session   bool            `json:"session,omitempty"`
	Verdict   verdict         `json:"verdict"`
	End       *ends           `json:"end,omitempty"`
	Deadlines []deadline      `json:"deadlines"`
	Families  []familyFacts   `json:"families"`
	Path      *pathFacts      `json:"path,omitempty"`
	Next      []nextStep      `json:"next"`
	Slow      []slowTask      `json:"slow"` // that run longest against their family
	Causes    []cause         `json:"causes"`
	Losses    []comms.LossRow `json:"losses"`
	Graph     *report.Boxes   `json:"graph,omitempty"`
}

// ends is an estimate as times.
type ends struct {
	estimate
	At     string `json:"at"`
	LowAt  string `json:"low_at"`
	HighAt string `json:"high_at"`
}

// familyFacts are what the tasks of a family took.
type familyFacts struct {
	Name    string  `json:"name"`
	Colour  string  `json:"colour"`
	Ended   int     `json:"ended"`
	Median  float64 `json:"median"`
	P90     float64 `json:"p90"`
	Most    float64 `json:"most"`
	Planned float64 `json:"planned"` // mean of the plan; 0: there is none
	Memory  uint64  `json:"memory"`  // the most of one task, in bytes
	Out     uint64  `json:"out"`     // bytes of all
}

// pathFacts are what the end of a job waited for, or waits for.
type pathFacts struct {
	Ran    float64 `json:"ran"`
	Waited float64 `json:"waited"`
	Steps  int     `json:"steps"` // of which the last are listed
	List   []step  `json:"list"`
}

type step struct {
	Task   string  `json:"task"`
	State  string  `json:"state"`
	Host   string  `json:"host"`
	Waited float64 `json:"waited"`
	Ran    float64 `json:"ran"`
	Usual  float64 `json:"usual"`
}

// nextStep is a task on the longest way to the end.
type nextStep struct {
	Task  string  `json:"task"`
	State string  `json:"state"`
	Host  string  `json:"host,omitempty"`
	Takes float64 `json:"takes"` // as planned
}

// slowTask is a task that runs.
type slowTask struct {
	Task    string  `json:"task"`
	Family  string  `json:"family"`
	Host    string  `json:"host"`
	Attempt uint32  `json:"attempt"`
	Started string  `json:"started"`
	Seconds float64 `json:"seconds"`
	Usual   float64 `json:"usual"` // median of its family, else as planned; 0: not known
	Silent  bool    `json:"silent,omitempty"`
}

// cause is an error with the tasks that ended by it.
type cause struct {
	Family  string `json:"family"`
	Message string `json:"message"`
	Count   int    `json:"count"`
	First   string `json:"first"` // when the first of them began
	Last    string `json:"last"`
	Task    string `json:"task"` // an example
	Host    string `json:"host"`
	Attempt uint32 `json:"attempt"`
	Tail    string `json:"tail,omitempty"` // of its log
}

// paintPicture makes a picture. run is nil when times do not tell what ran.
func paintPicture(s *sight) (p *picture, run *report.Run) {
	p = &picture{At: s.now.UTC().Format(time.RFC3339Nano), Read: len(s.rows), Whole: s.whole, Session: s.graph.IsSession(),
		Deadlines: []deadline{}, Next: []nextStep{}, Slow: []slowTask{}, Causes: causesOf(s.rows), Losses: []comms.LossRow{}}
	for i := range s.progress.Groups {
		p.Tasks += s.progress.Groups[i].Total
	}
	for i := range s.losses {
		if s.losses[i].Awaited || s.losses[i].Open {
			p.Losses = append(p.Losses, s.losses[i])
		}
	}
	p.Families = familiesOf(s)
	if e := s.progress.Error; e != nil && len(p.Causes) == 0 { // none of its tasks was read
		family, _, _ := strings.Cut(e.Task, "[")
		p.Causes = append(p.Causes, cause{Family: family, Message: clip(e.Message), Count: 1, Task: e.Task, Host: e.Agent})
	}
	usual := map[string]float64{}
	for _, f := range p.Families {
		if usual[f.Name] = f.Median; f.Ended == 0 {
			usual[f.Name] = f.Planned
		}
	}
	p.Slow = slowest(s, usual)
	if s.whole && !p.Session {
		if r, err := report.NewRun(s.graph, s.rows, nil); err == nil && len(r.Tasks) > 0 {
			run = r
			p.Path = pathOf(r, usual)
		}
		if !s.progress.Phase.Final() {
			p.Next = nextOf(s)
			if e := predict(s.rows, s.plan, 1); e != nil {
				at := func(left float64) string { return s.now.Add(time.Duration(left * 1e9)).UTC().Format(time.RFC3339) }
				p.End = &ends{*e, at(e.Expected), at(e.Low), at(e.High)}
			}
			p.Deadlines = deadlinesOf(s, p.End)
		}
	}
	p.Verdict = judge(s, p)
	return p, run
}

// familiesOf sums up families, in the order of the graph.
func familiesOf(s *sight) []familyFacts {
	took := map[string][]float64{}
	facts := make([]familyFacts, len(s.graph.Groups))
	at := map[string]*familyFacts{}
	for i := range facts {
		facts[i] = familyFacts{Name: s.graph.Groups[i].Name, Colour: report.ColourOf(i)}
		at[facts[i].Name] = &facts[i]
	}
	for i := range s.rows {
		r := &s.rows[i]
		f := at[r.Group]
		if f == nil {
			continue
		}
		f.Memory, f.Out = max(f.Memory, r.PeakRSS), f.Out+r.BytesOut
		if r.State == "done" {
			took[r.Group] = append(took[r.Group], r.Seconds)
		}
	}
	planned := map[string][2]float64{}
	for i := range s.plan {
		family, _, _ := strings.Cut(s.plan[i].Task, "[")
		sum := planned[family]
		planned[family] = [2]float64{sum[0] + s.plan[i].Finish - s.plan[i].Start, sum[1] + 1}
	}
	for i := range facts {
		f := &facts[i]
		if sum := planned[f.Name]; sum[1] > 0 {
			f.Planned = sum[0] / sum[1]
		}
		t := took[f.Name]
		slices.Sort(t)
		if f.Ended = len(t); f.Ended > 0 {
			f.Median, f.P90, f.Most = t[(len(t)-1)/2], t[(len(t)-1)*9/10], t[len(t)-1]
		}
	}
	return facts
}

// pathOf is the path that the last end waited for.
func pathOf(r *report.Run, usual map[string]float64) *pathFacts {
	steps, err := r.Path()
	if err != nil || len(steps) == 0 {
		return nil
	}
	p := &pathFacts{Steps: len(steps), List: []step{}}
	for _, s := range steps {
		p.Ran, p.Waited = p.Ran+s.Ran, p.Waited+max(0, s.Waited)
		p.List = append(p.List, step{s.Task.Name, s.Task.State, s.Task.Agent, max(0, s.Waited), s.Ran, usual[s.Task.Group]})
	}
	if more := len(p.List) - shownSteps; more > 0 {
		p.List = p.List[more:]
	}
	return p
}

// slowest are the tasks that run longest against what their family usually takes.
func slowest(s *sight, usual map[string]float64) []slowTask {
	silent := map[string]bool{}
	for i := range s.hosts {
		silent[s.hosts[i].Name] = s.hosts[i].State == "away"
	}
	all := []slowTask{}
	for i := range s.rows {
		if r := &s.rows[i]; r.State == "running" {
			all = append(all, slowTask{r.Name, r.Group, r.Agent, r.Attempt, r.Started, r.Seconds, usual[r.Group], silent[r.Agent]})
		}
	}
	ratio := func(t *slowTask) float64 { return t.Seconds / max(t.Usual, 1) }
	slices.SortStableFunc(all, func(a, b slowTask) int {
		return cmp.Or(cmp.Compare(ratio(&b), ratio(&a)), cmp.Compare(a.Task, b.Task))
	})
	return all[:min(len(all), shownSlow)]
}

var digits = regexp.MustCompile(`0x[0-9a-fA-F]+|[0-9]+`)

// causesOf puts errors of tasks together, the most frequent first.
func causesOf(rows []comms.TaskRow) []cause {
	var all causes
	for i := range rows {
		if r := &rows[i]; r.State == "failed" {
			all.add(&cause{Family: r.Group, Message: r.Error, First: r.Started, Task: r.Name, Host: r.Agent, Attempt: r.Attempt, Tail: r.LogTail})
		}
	}
	return all.top()
}

// causes puts errors together that differ by numbers alone.
type causes struct {
	at  map[causeKey]int
	all []cause
}

type causeKey struct{ family, message string }

// add counts an error: its message, log and time of First are those of one task.
func (s *causes) add(c *cause) {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	k := causeKey{c.Family, digits.ReplaceAllString(clip(line), "#")}
	n, ok := s.at[k]
	if !ok && len(s.all) >= mostCauses { // it has no place of its own
		k = causeKey{message: "other errors"}
		n, ok = s.at[k]
	}
	if !ok {
		if s.at == nil {
			s.at = map[causeKey]int{}
		}
		one := *c
		one.Message, one.Tail, one.Last = clip(c.Message), lastLines(c.Tail, 20), c.First
		if k.family != c.Family {
			one.Family, one.Message = "", k.message
		}
		n, s.at[k] = len(s.all), len(s.all)
		s.all = append(s.all, one)
	}
	have := &s.all[n]
	have.Count++
	have.First, have.Last = min(have.First, c.First), max(have.Last, c.First)
}

// top returns the most frequent ones, the most frequent first.
func (s *causes) top() []cause {
	all := append([]cause{}, s.all...)
	slices.SortStableFunc(all, func(a, b cause) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.First, b.First)) })
	return all[:min(len(all), shownCauses)]
}

// clip is the begin of a long text.
func clip(text string) string {
	if r := []rune(text); len(r) > shownError {
		return fmt.Sprintf("%s… and %d characters more", string(r[:shownError]), len(r)-shownError)
	}
	return text
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return clip(strings.Join(lines[max(0, len(lines)-n):], "\n"))
}

// nextOf follows the longest way to the end from the task that has most of it before it.
func nextOf(s *sight) []nextStep {
	rank := make(map[string]*comms.PlanRow, len(s.plan))
	for i := range s.plan {
		rank[s.plan[i].Task] = &s.plan[i]
	}
	left := func(r *comms.TaskRow) float64 {
		p := rank[r.Name]
		if p == nil {
			return 0
		}
		if r.State == "running" { // also one that takes longer than planned
			return max(p.Rank-r.Seconds, p.Rank-(p.Finish-p.Start))
		}
		return p.Rank
	}
	open := map[dag.TaskIndex]*comms.TaskRow{}
	var at *comms.TaskRow
	for i := range s.rows {
		r := &s.rows[i]
		if !unended(r.State) {
			continue
		}
		open[dag.TaskIndex(r.Index)] = r
		if begun := r.State == "running" || r.State == "ready"; begun && (at == nil || left(r) > left(at)) {
			at = r
		}
	}
	readers := map[dag.TaskIndex][]*comms.TaskRow{}
	for i, r := range open {
		inputs, err := s.graph.Inputs(i)
		if err != nil {
			continue
		}
		for _, in := range inputs {
			for _, src := range in.Sources {
				if open[src.Task] != nil {
					readers[src.Task] = append(readers[src.Task], r)
				}
			}
		}
	}
	steps := []nextStep{}
	for at != nil && len(steps) < shownNext {
		n := nextStep{Task: at.Name, State: at.State, Host: at.Agent}
		if p := rank[at.Name]; p != nil {
			n.Takes = p.Finish - p.Start
		}
		steps = append(steps, n)
		var next *comms.TaskRow
		for _, r := range readers[dag.TaskIndex(at.Index)] {
			if next == nil || left(r) > left(next) || left(r) == left(next) && r.Index < next.Index {
				next = r
			}
		}
		at = next
	}
	return steps
}

// deadlinesOf are those of families that have yet to end, the most urgent first.
func deadlinesOf(s *sight, e *ends) []deadline {
	all := []deadline{}
	if s.progress.Started == 0 {
		return all
	}
	behind, open := map[string]float64{}, map[string]bool{}
	rank := map[string]*comms.PlanRow{}
	for i := range s.plan {
		rank[s.plan[i].Task] = &s.plan[i]
	}
	for i := range s.rows {
		r := &s.rows[i]
		if !unended(r.State) {
			continue
		}
		after := 0.0
		if p := rank[r.Name]; p != nil {
			after = max(0, p.Rank-(p.Finish-p.Start))
		}
		if before, ok := behind[r.Group]; !ok || after < before {
			behind[r.Group] = after
		}
		open[r.Group] = true
	}
	for i := range s.graph.Groups {
		g := &s.graph.Groups[i]
		if g.Deadline == 0 || !open[g.Name] {
			continue
		}
		var of *estimate
		if e != nil {
			of = &e.estimate
		}
		all = append(all, due(g.Name, time.Unix(0, s.progress.Started), s.now, g.Deadline, behind[g.Name], of))
	}
	slices.SortStableFunc(all, func(a, b deadline) int { return cmp.Or(cmp.Compare(b.Over, a.Over), cmp.Compare(a.At, b.At)) })
	return all
}
