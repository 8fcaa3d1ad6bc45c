package report

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/screen"
	"github.com/cascade-run/cascade/planner"
)

//go:embed head.html page.html plan.html
var pages embed.FS

// pageSteps is the most steps of the path that the page lists: the longest.
const pageSteps = 200

// load returns a template of this package with the head that all pages have.
func load(name string) (*template.Template, error) {
	funcs := template.FuncMap{"seconds": Seconds, "when": when, "method": Method, "bytes": func(n uint64) string { return units.BytesSize(float64(n)) }}
	t, err := template.New(name).Funcs(funcs).ParseFS(pages, "head.html", name)
	if err != nil {
		return nil, fmt.Errorf("read the template %s: %w", name, err)
	}
	return t, nil
}

// when prints a time in RFC 3339 for people.
func when(s string) string {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return s
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// Method says for people how a plan was found.
func Method(name string) string {
	if name == "list" {
		return "list scheduling"
	}
	return name
}

// Page writes one HTML file about a job, which refers to nothing outside: what ran
// where, planned beside actual, the critical path, and tables.
func (r *Run) Page(w io.Writer, job comms.JobRow, plan []comms.PlanRow) error {
	path, err := r.Path()
	if err != nil {
		return err
	}
	page, err := load("page.html")
	if err != nil {
		return err
	}
	moves, err := r.moves()
	if err != nil {
		return err
	}
	planned := planChart(plan)
	end := max(r.End(), planned.end())
	data := map[string]any{
		"Job": job, "Lost": r.Lost, "Took": r.End(), "Started": len(r.Tasks), "Hosts": r.hosts(),
		"Actual":   template.HTML(r.Chart("as it ran: "+Seconds(r.End()), end).SVG()), //nolint:gosec // the chart escapes all names
		"Families": r.families(), "Classes": r.classes(), "Ways": r.ways(moves), "Path": longest(path), "Steps": len(path),
		"Called": r.Functions(), "Ended": len(r.Called), "More": r.More, "CallPath": r.CallPath(),
	}
	if len(planned.Bars) > 0 {
		planned.Title, planned.End, planned.Classes = "as it was planned: "+Seconds(planned.end()), end, groupNames(r.Graph)
		data["Planned"] = template.HTML(planned.SVG()) //nolint:gosec // the chart escapes all names
	}
	if memory := r.memory(); len(memory) > 0 {
		data["Memory"] = template.HTML((&Chart{Title: "private memory of tasks", Areas: memory, End: end}).SVG()) //nolint:gosec // the chart escapes all names
	}
	if err := page.Execute(screen.NewWriter(w), data); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// planChart shows a plan as it was when the job started.
func planChart(plan []comms.PlanRow) *Chart {
	c := &Chart{}
	for _, p := range plan {
		if p.Host != "" {
			c.Rows = append(c.Rows, p.Host)
		}
	}
	slices.Sort(c.Rows)
	c.Rows = slices.Compact(c.Rows)
	for _, p := range plan {
		row, ok := slices.BinarySearch(c.Rows, p.Host)
		if !ok {
			continue
		}
		family, _, _ := strings.Cut(p.Task, "[")
		c.Bars = append(c.Bars, Bar{Row: row, Start: p.Start, Finish: p.Finish, Class: family,
			Text: fmt.Sprintf("%s: %s to %s; %s", p.Task, Seconds(p.Start), Seconds(p.Finish), p.Reason)})
	}
	return c
}

// longest returns the steps that took or waited longest, in the order of the path.
func longest(path []Step) []Step {
	if len(path) <= pageSteps {
		return path
	}
	by := slices.Clone(path)
	slices.SortFunc(by, func(a, b Step) int { return cmp.Compare(b.Ran+b.Waited, a.Ran+a.Waited) })
	by = by[:pageSteps]
	slices.SortFunc(by, func(a, b Step) int { return cmp.Compare(a.Task.Start, b.Task.Start) })
	return by
}

// family sums up the tasks of one entry of the job file, in seconds and bytes.
type family struct {
	Name, Run                   string
	Tasks, Failed               int
	Total, Mean, Median, Most   float64
	Busy                        float64 // cpu time in percent of the time that its tasks took
	PeakMemory, BytesIn, Output uint64
}

func (r *Run) families() []family {
	took := map[string][]float64{}
	cpu := map[string]float64{}
	sums := map[string]*family{}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		f := sums[t.Group]
		if f == nil {
			run := &r.Graph.Group(dag.TaskIndex(t.Index)).Run
			f = &family{Name: t.Group, Run: run.Function}
			if run.Function == "" {
				f.Run = "command"
			}
			sums[t.Group] = f
		}
		f.Tasks++
		if t.State == "failed" {
			f.Failed++
		}
		f.Total += t.Seconds
		f.Most = max(f.Most, t.Seconds)
		f.PeakMemory = max(f.PeakMemory, t.PeakRSS)
		f.BytesIn += t.BytesIn
		f.Output += t.BytesOut
		cpu[t.Group] += t.CPU
		took[t.Group] = append(took[t.Group], t.Seconds)
	}
	rows := make([]family, 0, len(sums))
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		f := sums[name]
		slices.Sort(took[name])
		f.Mean, f.Median = f.Total/float64(f.Tasks), took[name][(len(took[name])-1)/2]
		f.Busy = 100 * cpu[name] / max(f.Total, 1e-12)
		rows = append(rows, *f)
	}
	slices.SortStableFunc(rows, func(a, b family) int { return cmp.Compare(b.Total, a.Total) })
	return rows
}

// class is what tasks held, over time.
type class struct {
	Name  string
	Hours float64
}

// classes returns for how long tasks held which resources: a task of two cores that
// took an hour counts two hours.
func (r *Run) classes() []class {
	hours := map[string]float64{}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		grp := r.Graph.Group(dag.TaskIndex(t.Index))
		h := t.Seconds / 3600
		hours["core hours"] += h * planner.Cores(grp)
		if grp.Resources.Memory > 0 {
			hours["GiB hours of reserved memory"] += h * float64(grp.Resources.Memory) / (1 << 30)
		}
		if grp.Resources.GPU > 0 {
			hours["gpu hours"] += h * float64(grp.Resources.GPU) / 1000
		}
		for name, n := range grp.Resources.Custom {
			hours[name+" hours"] += h * float64(n) / 1000
		}
	}
	for i := range r.Calls {
		hours["hours of called tasks"] += r.Calls[i].Seconds / 3600
	}
	var rows []class
	for _, name := range slices.Sorted(maps.Keys(hours)) {
		rows = append(rows, class{name, hours[name]})
	}
	return rows
}

// host sums up what ran on one agent.
type host struct {
	Name            string
	Tasks, Calls    int
	Busy            float64 // seconds of both
	BytesIn, Output uint64
	Clock           float64
	Lost            bool // and not back
}

// hosts sums up the tasks of each host. A host that was lost is among them also when all its
// tasks have run elsewhere since.
func (r *Run) hosts() []host {
	rows := make([]host, len(r.Hosts))
	for h, name := range r.Hosts {
		rows[h] = host{Name: name, Clock: r.Clock[h]}
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		h := &rows[t.Host]
		h.Tasks++
		h.Busy += t.Seconds
		h.BytesIn += t.BytesIn
		h.Output += t.BytesOut
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		h := &rows[c.Host]
		h.Calls++
		h.Busy += c.Seconds
		h.BytesIn += c.BytesIn
		h.Output += c.BytesOut
	}
	for _, l := range r.Lost {
		h := slices.IndexFunc(rows, func(h host) bool { return h.Name == l.Agent })
		if h < 0 {
			h, rows = len(rows), append(rows, host{Name: l.Agent})
		}
		rows[h].Lost = l.Back == "" // of several losses the last counts
	}
	return rows
}

// memory is, for each host, the sum of the peaks of private memory of the tasks
// that run: no less than what they had at any moment.
func (r *Run) memory() (all []Area) {
	changes := make([][]Level, len(r.Hosts))
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.PeakRSS > 0 {
			changes[t.Host] = append(changes[t.Host], Level{t.Start, float64(t.PeakRSS)}, Level{t.Finish, -float64(t.PeakRSS)})
		}
	}
	for h, list := range changes {
		if len(list) > 0 {
			all = append(all, Area{Name: r.Hosts[h], Over: levels(list)})
		}
	}
	return all
}
