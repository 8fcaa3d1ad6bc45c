package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/report"
	"github.com/cascade-run/cascade/internal/wfformat"
	"github.com/cascade-run/cascade/planner"
)

// simulateFlags say on which cluster a recording is simulated.
type simulateFlags struct {
	do bool
	at planFor
}

// simulated is what a recording would take on a cluster.
type simulated struct {
	On         string  `json:"on"`
	Seconds    float64 `json:"predicted_seconds"`
	LowerBound float64 `json:"lower_bound_seconds"`
	Busy       float64 `json:"busy"` // part of the time of all cores
	Moved      float64 `json:"moved_bytes"`
}

// replayed is a recording, what it would take where it ran, and elsewhere.
type replayed struct {
	Job      string     `json:"job"`
	Tasks    int        `json:"tasks"`
	Recorded float64    `json:"recorded_seconds,omitempty"`
	On       string     `json:"on,omitempty"`
	Busy     float64    `json:"busy,omitempty"`
	There    *simulated `json:"there,omitempty"`
	Other    *simulated `json:"other,omitempty"`
}

// simulate replays a recording by the planner's simulation: of a job here, or of a file.
func (a *app) simulate(ctx context.Context, name string, f *simulateFlags) error {
	b, file, err := a.recordingOf(ctx, name)
	if err != nil {
		return err
	}
	im, err := wfformat.Read(file, b, wfformat.Defaults())
	if err != nil {
		return badInput{err}
	}
	for _, note := range im.Notes {
		fmt.Fprintf(a.err, "note: %s\n", note)
	}
	there := f.at
	there.hosts = machines(im)
	if there.hosts == "" && f.at.hosts == "" {
		return badInputf("replay: %s does not say how many cores its hosts had: say with --hosts where to simulate it", file)
	}
	r := replayed{Job: im.Graph.Name, Tasks: im.Tasks, Recorded: im.Makespan}
	if there.hosts != "" {
		plan, c, err := planOn(im, &there)
		if err != nil {
			return err
		}
		r.On, r.There = there.hosts, summary(im.Graph, plan, c, there.hosts)
		if r.Recorded > 0 { // the same work in another time
			r.Busy = r.There.Busy * r.There.Seconds / r.Recorded
		}
	}
	a.tellRecorded(&r)
	if f.at.hosts == "" {
		return a.endSimulation(&r)
	}
	plan, c, err := planOn(im, &f.at)
	if err != nil {
		return err
	}
	if r.Other = summary(im.Graph, plan, c, f.at.hosts); !a.json {
		a.tellSimulated(&r, r.Other)
		a.tellHosts(summarise(im.Graph, plan, c, file))
	}
	return a.endSimulation(&r)
}

func (a *app) endSimulation(r *replayed) error {
	if a.json {
		return a.printJSON(r)
	}
	return nil
}

// recordingOf reads a recording, or makes it of what a job did.
func (a *app) recordingOf(ctx context.Context, name string) (b []byte, file string, err error) {
	if _, err := os.Stat(name); err == nil || fileName(name) || name == "-" {
		if b, file, err = a.readRecording(name); err != nil {
			return nil, "", badInput{err}
		}
		return b, file, nil
	}
	err = a.withJob(ctx, name, func(client *cascade.Client, j *cascade.Job) error {
		b, err = a.record(ctx, client, j)
		return err
	})
	return b, name, err
}

// record writes down what a job did.
func (a *app) record(ctx context.Context, client *cascade.Client, j *cascade.Job) ([]byte, error) {
	g, _, err := client.Graph(ctx, j.ID())
	if err != nil {
		return nil, err
	}
	tasks, err := cascade.Rows[comms.TaskRow](ctx, client, comms.QueryTasks, j.ID(), "")
	if err != nil {
		return nil, err
	}
	kept, err := cascade.Rows[comms.DatasetRow](ctx, client, comms.QueryDatasets, j.ID(), "")
	if err != nil {
		return nil, err
	}
	agents, err := cascade.Rows[comms.AgentRow](ctx, client, comms.QueryAgents, comms.JobID{}, "")
	if err != nil {
		return nil, err
	}
	calls, err := a.someCalls(ctx, client, j)
	if err != nil {
		return nil, err
	}
	r, left, err := wfformat.Record(g, tasks, calls, kept, agents)
	if err != nil {
		return nil, badInputf("record the job: %w", err)
	}
	if left > 0 {
		fmt.Fprintf(a.err, "note: %s did not end well and %s not in the recording\n", plural(left, "task"), isOrAre(left))
	}
	r.System = cascade.Version()
	var out bytes.Buffer
	if err := wfformat.Write(&out, r); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// machines writes the recorded hosts as --hosts has them; "" when they are not known.
func machines(im *wfformat.Import) string {
	var all []string
	for i := 0; i < len(im.Machines); {
		n := 1
		for i+n < len(im.Machines) && im.Machines[i+n].Cores == im.Machines[i].Cores {
			n++
		}
		all = append(all, fmt.Sprintf("%dx%gc", n, im.Machines[i].Cores))
		i += n
	}
	return strings.Join(all, ",")
}

func planOn(im *wfformat.Import, at *planFor) (*planner.Plan, *planner.Cluster, error) {
	c, err := at.cluster()
	if err != nil {
		return nil, nil, err
	}
	p, err := planner.Best(im.Graph, im.Profile.Snapshot(), c, at.effort(im.Graph.NumTasks()))
	if err != nil {
		return nil, nil, badInput{err}
	}
	for i := range p.Tasks {
		if p.Tasks[i].Host < 0 {
			t := dag.TaskIndex(i)
			return nil, nil, badInputf("replay: %s cannot run on %s: %s", im.Graph.TaskName(t), at.hosts, p.Reason(im.Graph, t))
		}
	}
	return p, &c, nil
}

func summary(g *dag.Graph, p *planner.Plan, c *planner.Cluster, on string) *simulated {
	s := &simulated{On: on, Seconds: p.Makespan, LowerBound: p.LowerBound, Moved: p.Moved}
	work, cores := 0.0, 0.0
	for i := range p.Tasks {
		work += (p.Tasks[i].Finish - p.Tasks[i].Start) * planner.Cores(g.Group(dag.TaskIndex(i)))
	}
	for i := range c.Hosts {
		cores += float64(c.Hosts[i].CPU) / 1000
	}
	if s.Seconds > 0 {
		s.Busy = work / (s.Seconds * cores)
	}
	return s
}

// tellRecorded says what was recorded, and how well the simulation meets it.
func (a *app) tellRecorded(r *replayed) {
	if a.json {
		return
	}
	on := ""
	if r.There != nil {
		on = fmt.Sprintf(" on %s, %.0f%% busy", r.On, r.Busy*100)
	}
	if r.Recorded > 0 {
		fmt.Fprintf(a.out, "recorded   %s: %s%s\n", report.Seconds(r.Recorded), plural(r.Tasks, "task"), on)
	}
	if r.There != nil {
		a.tellSimulated(r, r.There)
	}
}

func (a *app) tellSimulated(r *replayed, s *simulated) {
	share := ""
	if r.Recorded > 0 && s.Seconds > 0 {
		share = fmt.Sprintf(", %.2f of the recorded time", s.Seconds/r.Recorded)
	}
	fmt.Fprintf(a.out, "predicted  %s on %s%s; at best %s, %.0f%% busy\n", report.Seconds(s.Seconds), s.On, share, report.Seconds(s.LowerBound), s.Busy*100)
}
