package main

import (
	"fmt"
	"slices"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/report"
	"github.com/cascade-run/cascade/planner"
)

// planned is a plan as a whole: how good it is, and on what it rests.
type planned struct {
	Tasks        int           `json:"tasks"`
	Unplaced     int           `json:"unplaced_tasks"`
	Makespan     float64       `json:"predicted_seconds"`
	LowerBound   float64       `json:"lower_bound_seconds"`
	CriticalPath float64       `json:"critical_path_seconds"`
	Work         float64       `json:"core_seconds"`
	DeviceWork   float64       `json:"device_seconds,omitempty"`
	Cores        float64       `json:"cores"`
	Devices      float64       `json:"devices,omitempty"`
	Guessed      int           `json:"guessed_durations"`
	Source       string        `json:"durations_from"`
	Late         string        `json:"late,omitempty"`
	Gangs        bool          `json:"gangs_apart,omitempty"` // their members are planned one by one
	NoRoom       string        `json:"no_room,omitempty"`     // which gang the hosts have none for
	Method       string        `json:"method"`
	Moved        *float64      `json:"moved_bytes,omitempty"` // nil: not known
	Hosts        []plannedHost `json:"hosts"`
}

// plannedHost is what a host has of a plan.
type plannedHost struct {
	Name   string         `json:"name"`
	Tasks  int            `json:"tasks"`
	Busy   float64        `json:"busy"`             // part of the time of its cores
	Memory *plannedMemory `json:"memory,omitempty"` // nil: not known
}

// plannedMemory is what a plan keeps in memory on a host, and what it must spill.
type plannedMemory struct {
	Peak       float64 `json:"peak_bytes"`
	Limit      float64 `json:"host_bytes,omitempty"` // 0: unknown
	Spilled    int     `json:"spilled_datasets,omitempty"`
	Bytes      float64 `json:"spilled_bytes,omitempty"`
	ReadBack   int     `json:"read_back_datasets,omitempty"`
	FirstSpill float64 `json:"first_spill_seconds,omitempty"`
}

// summarise says how good a plan is, on what it rests, and what each host has of it.
func summarise(g *dag.Graph, p *planner.Plan, c *planner.Cluster, source string) *planned {
	s := &planned{
		Tasks: len(p.Tasks), Makespan: p.Makespan, LowerBound: p.LowerBound, CriticalPath: p.CriticalPath,
		Work: p.Work, DeviceWork: p.DeviceWork, Guessed: p.Guessed, Source: source, Late: p.LateText(g),
		Method: p.Method, Hosts: hostsOf(g, p, c),
	}
	for i := range c.Hosts {
		s.Cores += float64(c.Hosts[i].CPU) / 1000
		s.Devices += float64(c.Hosts[i].GPU) / 1000
	}
	for _, t := range p.Tasks {
		if t.Host < 0 {
			s.Unplaced++
		}
	}
	if p.Guessed < len(p.Tasks) && slices.ContainsFunc(g.Groups, func(grp dag.Group) bool { return len(grp.With) > 0 }) {
		s.Source += ", of runs with any parameters (with:)"
	}
	if g.HasGangs() {
		s.Gangs, s.NoRoom = true, planner.Apart(g, c.Hosts)
	}
	if p.Contended && len(c.Hosts) > 1 {
		s.Moved = &p.Moved
	}
	return s
}

// hostsOf says what each host has of a plan.
func hostsOf(g *dag.Graph, p *planner.Plan, c *planner.Cluster) []plannedHost {
	hosts := make([]plannedHost, len(c.Hosts))
	for i, t := range p.Tasks {
		if t.Host >= 0 {
			hosts[t.Host].Tasks++
			hosts[t.Host].Busy += (t.Finish - t.Start) * planner.Cores(g.Group(dag.TaskIndex(i)))
		}
	}
	for i := range hosts {
		h := &hosts[i]
		h.Name = c.Hosts[i].Name
		h.Busy /= max(p.Makespan, 1e-9) * float64(c.Hosts[i].CPU) / 1000
		if len(p.Memory) > 0 {
			h.Memory = memoryOf(&p.Memory[i])
		}
	}
	return hosts
}

func memoryOf(m *planner.HostMemory) *plannedMemory {
	of := &plannedMemory{Peak: m.Peak, Limit: m.Limit, Spilled: len(m.Spills)}
	for i, s := range m.Spills {
		if i == 0 {
			of.FirstSpill = s.At
		}
		if of.Bytes += s.Bytes; s.Back >= 0 {
			of.ReadBack++
		}
	}
	return of
}

// tellPlanned prints a summary for a person.
func (a *app) tellPlanned(s *planned) {
	over, gap := countOf(s.Cores, "core"), 0.0
	if s.DeviceWork > 0 {
		over += fmt.Sprintf(" and %s over %s", report.Seconds(s.DeviceWork), countOf(s.Devices, "device"))
	}
	if s.LowerBound > 0 {
		gap = max(0, (s.Makespan/s.LowerBound-1)*100) // they are sums in another order
	}
	fmt.Fprintf(a.out, "\npredicted %s, at best %s (critical path %s, work %s over %s), gap %.1f%%\n",
		report.Seconds(s.Makespan), report.Seconds(s.LowerBound), report.Seconds(s.CriticalPath), report.Seconds(s.Work), over, gap)
	if s.Unplaced > 0 {
		fmt.Fprintf(a.out, "it cannot run on these hosts: none is fit for %d of %s, which are not in that\n", s.Unplaced, plural(s.Tasks, "task"))
	}
	fmt.Fprintf(a.out, "durations from %s, %d of %s guessed\n", s.Source, s.Guessed, plural(s.Tasks, "task"))
	if s.Late != "" {
		fmt.Fprintf(a.out, "late: %s\n", s.Late)
	}
	if s.Gangs {
		fmt.Fprintln(a.out, "gangs: their members are planned one by one; they start together, so that the job may take longer")
	}
	if s.NoRoom != "" {
		fmt.Fprintf(a.out, "it cannot run on these hosts: %s\n", s.NoRoom)
	}
	a.tellHosts(s)
}

// tellHosts says which method found a plan, and what each host has of it.
func (a *app) tellHosts(s *planned) {
	moved := ""
	if s.Moved != nil {
		moved = "; " + units.BytesSize(*s.Moved) + " go to another host"
	}
	fmt.Fprintf(a.out, "method: %s%s\n", report.Method(s.Method), moved)
	for i := range s.Hosts {
		h := &s.Hosts[i]
		fmt.Fprintf(a.out, "  %s: %s, %.0f%% busy%s\n", h.Name, plural(h.Tasks, "task"), h.Busy*100, h.Memory)
	}
}

// String says it after what else a host has; nil is nothing.
func (m *plannedMemory) String() string {
	if m == nil {
		return ""
	}
	text := ", " + units.BytesSize(m.Peak) + " at its peak"
	if m.Limit > 0 {
		text += " of " + units.BytesSize(m.Limit)
	}
	if m.Spilled > 0 {
		text += fmt.Sprintf(", spills %s (%s) from %s on and reads %d of them back",
			plural(m.Spilled, "dataset"), units.BytesSize(m.Bytes), report.Seconds(m.FirstSpill), m.ReadBack)
	}
	return text
}

func countOf(n float64, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%g %ss", n, of)
}
