package planner

import (
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// Host is a place that runs tasks. Amounts are those of dag.Resources:
// thousandths of cores and devices, bytes of memory. Memory 0 means unknown: no limit.
type Host struct {
	Name     string
	CPU      int64
	Memory   int64    // for tasks, and for datasets too in a Whole cluster
	Store    int64    // bytes for datasets alone; 0 unknown: contended plans do not count them
	GPU      int64    // the sum of Devices, or all that is known of them
	Devices  []Device // none where the agent is of an older version, which counts the sum alone
	Custom   map[string]int64
	Built    []uint64 // environments that it has, by EnvironmentID
	Alone    bool     // it runs no gang of which another host has members: its agent is of an older version
	Platform string   // for which binaries run there; "" means that this does not matter, UntoldPlatform that it is not known
}

// Cluster is the hosts, and what lies between any two of them of which the profiles
// know nothing: see learn.
type Cluster struct {
	Hosts     []Host
	Bandwidth float64            // bytes a second; 0 means what was measured between other hosts, else DefaultBandwidth
	Latency   float64            // seconds for each transfer; 0 means what was measured between other hosts, else none
	Builds    map[uint64]float64 // seconds that environments took to build, by EnvironmentID; others: DefaultBuild
	Whole     bool               // Memory of hosts is for datasets too, and not for tasks alone, and Store says nothing; contended plans keep within it

	learnt   bool       // what follows is filled, and Bandwidth is not 0
	basis    Basis      // of Bandwidth
	measured []measured // sorted
	ways     *ways      // nil: nothing is known of any pair, or the plan is made
}

// DefaultBandwidth is assumed between hosts of which nothing is known: 10 Gbit/s.
const DefaultBandwidth = 1.25e9

// Plan is what Plan returns. Times are seconds from the start of the job.
type Plan struct {
	Hosts        []string
	Ranks        []float64         // of each static task: seconds from its start to the end of the job, at best
	Seconds      []float64         // predicted duration of a task of each group; 0 when it is a guess
	Tasks        []Placement       // of each static task; none without a schedule
	Homes        []int32           // of each static task: the host on which it is to run, -1 none; nil: all on one. See Spread
	Turns        []float64         // of each static task of a contended plan: of tasks that wait for a place on a host the highest goes first
	Fuse         [][]dag.TaskIndex // linear paths, those that save most bytes first
	Makespan     float64
	Contended    bool         // Makespan was simulated with bandwidth that transfers share; else each has all of it
	Method       string       // which found it; see Improve. "list" is the schedule of Make
	Moved        float64      // bytes that go to another host, of a contended plan
	Memory       []HostMemory // of each host, of a contended plan for a Whole cluster, or one that had to count what is in stores
	Transfers    []Transfer   // of a contended plan for a Whole cluster, in the order in which what they move is made
	CriticalPath float64
	Work         float64           // core seconds
	DeviceWork   float64           // device seconds
	LowerBound   float64           // no schedule ends earlier: critical path, work over cores, or device seconds over devices
	Late         []Late            // tasks that end after their deadline
	Held         []int64           // bytes of memory with which tasks of each group begin, as most needed more than the graph says; 0: what it says; nil: all do
	Guessed      int               // tasks whose duration is a default
	beyond       bool              // stores were not counted, as a task needs more than any has
	on           Cluster           // with what is known of its network
	of           *Cluster          // out of whose hosts that of on was chosen; nil: on
	sizes        [][]float64       // predicted bytes of each output of a task of each group
	known        profiles.Snapshot // on which it rests
}

// Transfer is one output that goes to another host. Times are seconds from the start
// of the job; From and To are indices into Hosts.
type Transfer struct {
	Task          dag.TaskIndex // whose output it is
	From, To      int
	Bytes         float64
	Start, Finish float64
}

// Placement is one task's part of a plan.
type Placement struct {
	Host   int // index into Hosts; -1: not placed
	Start  float64
	Finish float64
	why    why
	other  dag.TaskIndex // why == whyAfter, whyBlocked: the task it waits for
	wait   float64       // seconds between the inputs being there and the start
	bytes  float64       // to move
	built  bool          // it starts when its environment is there
}

type why uint8

const (
	whyFirst   why = iota // starts at once
	whyAfter              // starts when its last input is there
	whyQueued             // waits for a free place behind tasks of higher rank
	whyTooBig             // fits no host
	whyBlocked            // needs a task that cannot be placed
	whyNoHosts
	whyMemory // with its inputs and outputs it needs more memory than any host has
)

// Reason says why a task is where and when it is.
func (p *Plan) Reason(g *dag.Graph, i dag.TaskIndex) string {
	text := p.reason(g, i)
	if held := p.HeldText(g, i); held != "" {
		text += ", " + held
	}
	return text
}

// HeldText says with how much memory a task begins, and why, when that is more than its
// graph says; "" when it is not.
func (p *Plan) HeldText(g *dag.Graph, i dag.TaskIndex) string {
	if p.Tasks[i].Host < 0 || p.Held == nil || p.Held[g.GroupIndex(i)] == 0 {
		return ""
	}
	return fmt.Sprintf("begins with %s of memory: most needed more than the %s that its job says",
		memoryText(p.Held[g.GroupIndex(i)]), memoryText(g.Group(i).Resources.Memory))
}

func (p *Plan) reason(g *dag.Graph, i dag.TaskIndex) string {
	t := &p.Tasks[i]
	moved := p.movedText(g, i)
	if t.built {
		moved += ", its environment is built there until then"
	}
	switch t.why {
	case whyFirst:
		if t.built {
			return "needs no task" + moved
		}
		return "needs no task, starts at once"
	case whyAfter:
		if takesElement(g, i, t.other) {
			return fmt.Sprintf("starts as soon as its inputs from %s are there, counted here from the end of %s%s", g.TaskName(t.other), g.TaskName(t.other), moved)
		}
		return fmt.Sprintf("starts when %s has ended%s", g.TaskName(t.other), moved)
	case whyQueued:
		return fmt.Sprintf("ready %.3g s earlier, waits for a free place%s behind tasks of higher rank%s", t.wait, devicesText(&g.Group(i).Resources), moved)
	case whyTooBig:
		if text := lacking(g, g.Group(i), &g.Group(i).Resources, p.on.Hosts); text != "" {
			return text
		}
		return "no host has enough for it and for the tasks that follow its elements"
	case whyBlocked:
		return fmt.Sprintf("needs %s, which cannot be placed", g.TaskName(t.other))
	case whyMemory:
		return fmt.Sprintf("it needs %s of memory with its inputs and outputs, more than any host that could run it has", memoryText(int64(t.bytes)))
	case whyNoHosts:
	}
	return "there is no host"
}

// takesElement tells whether all that a task takes of a generator are elements: then it
// starts while that runs. The plan, which knows only when tasks end, counts it from the end.
func takesElement(g *dag.Graph, i, generator dag.TaskIndex) bool {
	if st := g.Group(i).Stream; st != nil && st.Generator == generator {
		return true
	}
	if !slices.ContainsFunc(g.Group(generator).Outputs, func(o dag.OutputDecl) bool { return o.Generate != dag.GenerateNone }) {
		return false
	}
	inputs, err := g.Inputs(i)
	if err != nil {
		return false
	}
	some := false
	for _, in := range inputs {
		for _, s := range in.Sources {
			if s.Task == generator && s.Kind != dag.SourceElement {
				return false
			}
			some = some || s.Task == generator
		}
	}
	return some
}

func cpuOf(r *dag.Resources) int64 { return r.Cores() }

// Cores returns the cores that a task of a group occupies.
func Cores(g *dag.Group) float64 { return float64(cpuOf(&g.Resources)) / 1000 }

// SignatureOf returns the profile signature of a group's tasks.
func SignatureOf(g *dag.Graph, group int) profiles.Signature {
	grp := &g.Groups[group]
	return profiles.Signature{Job: g.Name, Group: grp.Name, Function: grp.Run.Function}
}

// VersionOf tells versions of the code of a group's tasks apart, as far as a job
// says what that is: command, function, and environment. Equal numbers, equal code;
// what a program of that name does may change unseen.
func VersionOf(g *dag.Graph, group int) uint64 {
	grp := &g.Groups[group]
	h := fnv.New64a()
	fmt.Fprintf(h, "%+v", grp.Run)
	if e := g.EnvironmentOf(grp); e != nil {
		own := *e
		own.Source = "" // where its folder lies does not matter
		describe(h, own)
	}
	return max(h.Sum64(), 1)
}

// Make plans a graph: upward ranks as in HEFT (Topcuoglu, Hariri and Wu,
// Performance-effective and low-complexity task scheduling for heterogeneous
// computing, TPDS 2002), then one list schedule in which a task that is ready
// takes the free host on which it ends first. O((n+e) log n + e*hosts) time,
// O(n+e) memory.
//
// A streamed group, whose size is not known before, counts as one element.
func Make(g *dag.Graph, p profiles.Snapshot, c Cluster) (*Plan, error) {
	plan, _, err := list(g, p, &c)
	return plan, err
}

func list(g *dag.Graph, p profiles.Snapshot, c *Cluster) (*Plan, *nodes, error) {
	plan, n, err := order(g, p, c)
	if err != nil {
		return nil, nil, err
	}
	plan.Method = first
	plan.Tasks = make([]Placement, g.NumTasks())
	for i := range plan.Tasks {
		if !n.cost(i).known {
			plan.Guessed++
		}
	}
	n.schedule(c, plan)
	plan.findLate(g, plan.Tasks)
	return plan, n, nil
}

// Order is Make without the schedule: ranks, costs and paths, which are all that
// agents go by. It takes O(n+e) time.
//
// When tasks have deadlines it schedules all the same, to find those that end late.
func Order(g *dag.Graph, p profiles.Snapshot, c Cluster) (*Plan, error) {
	plan, n, err := order(g, p, &c)
	if err == nil && hasDeadlines(g) {
		all := Plan{Tasks: make([]Placement, n.tasks)}
		n.schedule(&c, &all)
		plan.findLate(g, all.Tasks)
	}
	return plan, err
}

func order(g *dag.Graph, p profiles.Snapshot, c *Cluster) (*Plan, *nodes, error) {
	for i := range c.Hosts {
		if c.Hosts[i].CPU <= 0 {
			return nil, nil, fmt.Errorf("plan: host %q has cpu %d", c.Hosts[i].Name, c.Hosts[i].CPU)
		}
	}
	c.learn(p)
	n, err := newNodes(g, p, c)
	if err != nil {
		return nil, nil, err
	}
	plan := &Plan{Ranks: n.rank[:g.NumTasks()], Seconds: make([]float64, len(g.Groups)), on: *c.kept(), known: p, Held: n.held}
	for i := range c.Hosts {
		plan.Hosts = append(plan.Hosts, c.Hosts[i].Name)
	}
	for i, d := range n.groups {
		if d.known {
			plan.Seconds[i] = d.seconds
		}
		plan.sizes = append(plan.sizes, d.bytes)
	}
	plan.Fuse = n.fuse()
	return plan, n, nil
}
