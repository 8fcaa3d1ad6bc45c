package planner

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// drawDevices gives some tasks of a graph devices, and hosts some.
func drawDevices(t *rapid.T, g *dag.Graph) (c Cluster, s profiles.Snapshot) {
	f := profiles.File{}
	for i := range g.Groups {
		r := &g.Groups[i].Resources
		r.CPU, r.Memory, r.Custom = 1000, 0, nil
		if r.GPU = rapid.SampledFrom([]int64{0, 100, 400, 500, 600, 1000, 2000}).Draw(t, "gpu"); r.GPU > 0 {
			r.GPUMemory = rapid.SampledFrom([]int64{0, 0, 3, 5, 9}).Draw(t, "gpu_memory")
		}
		sig := SignatureOf(g, i)
		f.Profiles = append(f.Profiles, profiles.Entry{Job: sig.Job, Task: sig.Group, Function: sig.Function, Runs: 1,
			Seconds: float64(rapid.IntRange(0, 5).Draw(t, "seconds")), Bytes: float64(rapid.IntRange(0, 200).Draw(t, "bytes"))})
	}
	c = Cluster{Bandwidth: 100, Latency: 0.1}
	for h := range rapid.IntRange(1, 3).Draw(t, "hosts") {
		c.Hosts = append(c.Hosts, Host{Name: fmt.Sprint(h), CPU: 6000})
		for _, memory := range rapid.SliceOfN(rapid.SampledFrom([]int64{0, 4, 8, 16}), 0, 3).Draw(t, "devices") {
			c.Hosts[h].Devices = append(c.Hosts[h].Devices, Device{Memory: memory})
			c.Hosts[h].GPU += 1000
		}
	}
	return c, f.Snapshot()
}

// In no plan a device has more than it has at any time, nobody shares a whole one, each
// task is placed or explained, and no plan is better than the bound.
func TestDevicesInPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := layered(t)
		c, s := drawDevices(t, g)
		first, err := Make(g, s, c)
		if err != nil {
			t.Fatal(err)
		}
		best, err := Best(g, s, c, Effort{Evaluations: rapid.IntRange(1, 30).Draw(t, "evaluations")})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*Plan{first, best} {
			for i := range p.Tasks {
				fits := slices.ContainsFunc(c.Hosts, func(h Host) bool { return h.fits(&g.Groups[i]) })
				if placed := p.Tasks[i].Host >= 0; placed && !fits || !placed && fits && p.Tasks[i].why != whyBlocked {
					t.Fatalf("%s: task %d that fits (%t) is on host %d: %s", p.Method, i, fits, p.Tasks[i].Host, p.Reason(g, dag.TaskIndex(i)))
				}
			}
			if p.Makespan < p.LowerBound*(1-rounding)-instant && !slices.ContainsFunc(p.Tasks, func(t Placement) bool { return t.Host < 0 }) {
				t.Fatalf("%s: it takes %g, and cannot end before %g", p.Method, p.Makespan, p.LowerBound)
			}
			for h := range c.Hosts {
				assign(t, g, p, h, c.Hosts[h].Devices)
			}
		}
	})
}

// assign finds devices of a host for all tasks that a plan has there. It looks for them
// by itself, at most so many steps, and knows nothing of how the planner takes them.
func assign(t *rapid.T, g *dag.Graph, p *Plan, h int, devices []Device) {
	var tasks []int
	for i := range p.Tasks {
		if p.Tasks[i].Host == h && g.Groups[i].Resources.GPU > 0 && p.Tasks[i].Finish > p.Tasks[i].Start {
			tasks = append(tasks, i)
		}
	}
	slices.SortFunc(tasks, func(a, b int) int { return cmp.Compare(p.Tasks[a].Start, p.Tasks[b].Start) })
	on, steps := map[int][]int{}, 0 // of a task its devices
	beside := func(k, d int) (share, memory int64) {
		for _, o := range tasks[:k] {
			if p.Tasks[o].Finish > p.Tasks[tasks[k]].Start+instant && slices.Contains(on[o], d) {
				share, memory = share+min(g.Groups[o].Resources.GPU, 1000), memory+g.Groups[o].Resources.GPUMemory
			}
		}
		return share, memory
	}
	var from func(k int) bool
	from = func(k int) bool {
		if steps++; steps > 100_000 {
			return false
		}
		if k == len(tasks) {
			return true
		}
		r := &g.Groups[tasks[k]].Resources
		var can []int
		for d := range devices {
			if share, memory := beside(k, d); share+min(r.GPU, 1000) <= 1000 && (devices[d].Memory == 0 || memory+r.GPUMemory <= devices[d].Memory) {
				can = append(can, d)
			}
		}
		for set := range subsets(len(can), int(max(r.GPU/1000, 1))) {
			on[tasks[k]] = nil
			for _, x := range set {
				on[tasks[k]] = append(on[tasks[k]], can[x])
			}
			if from(k + 1) {
				return true
			}
		}
		return false
	}
	if !from(0) {
		for _, i := range tasks {
			t.Logf("task %d from %g to %g: %+v", i, p.Tasks[i].Start, p.Tasks[i].Finish, g.Groups[i].Resources)
		}
		t.Fatalf("%s: there are no devices among %v for what host %d is to run", p.Method, devices, h)
	}
}

// subsets are those of n numbers that have k.
func subsets(n, k int) func(func([]int) bool) {
	return func(yield func([]int) bool) {
		for bits := range 1 << n {
			var set []int
			for x := range n {
				if bits>>x&1 == 1 {
					set = append(set, x)
				}
			}
			if len(set) == k && !yield(set) {
				return
			}
		}
	}
}

// Shares go to the fullest device that has room, so that others stay whole.
func TestBay(t *testing.T) {
	b := bay{slots: []slot{{device: Device{Memory: 8}}, {device: Device{Memory: 4}}, {device: Device{}}}}
	b.clear()
	half := deviceNeed{share: 500, memory: 2}
	for i, want := range []int{1, 1, 0, 0, 2, 2} {
		if !b.fits(half) {
			t.Fatalf("half %d does not fit", i)
		}
		b.take(int32(i), half)
		if !slices.Contains(b.slots[want].has, int32(i)) {
			t.Errorf("half %d is not on device %d: %+v", i, want, b.slots)
		}
	}
	if b.fits(deviceNeed{share: 1}) {
		t.Error("devices that are taken have room")
	}
	for _, i := range []int32{0, 1, 4} {
		b.give(i, half)
	}
	for _, tt := range []struct {
		need deviceNeed
		fits bool
	}{
		{deviceNeed{whole: 1}, true},
		{deviceNeed{whole: 2}, false},
		{deviceNeed{whole: 1, memory: 4}, true},
		{deviceNeed{whole: 1, memory: 5}, false},
		{deviceNeed{share: 500, memory: 100}, true}, // where the memory is unknown
		{deviceNeed{share: 501, memory: 5}, false},
	} {
		if got := b.fits(tt.need); got != tt.fits {
			t.Errorf("%+v fits: %t", tt.need, got)
		}
	}
	for _, i := range []int32{2, 3, 5} {
		b.give(i, half)
	}
	again := bay{slots: []slot{{device: Device{Memory: 8}}, {device: Device{Memory: 4}}, {device: Device{}}}}
	again.clear()
	for i := range b.slots {
		if b.slots[i].has = nil; !reflect.DeepEqual(b.slots[i].share, again.slots[i].share) || b.slots[i].memory != again.slots[i].memory {
			t.Errorf("after all have ended device %d is %+v", i, b.slots[i])
		}
	}
}

// While tasks wait for a device, its host is not given to work that needs none and has
// another: that would go first by rank.
func TestDevicesAreNotWasted(t *testing.T) {
	g := parse(t, `
job: w
environments: {e: {go: ./e}}
tasks:
  prepare: {for: {i: "0..1"}, run: "e:Fprepare", out: [x]}
  merge: {run: "e:Fmerge", in: {x: "prepare[*].x"}}
  train: {for: {i: "0..3"}, run: "e:Ftrain", resources: {gpu: 1}}
`)
	s := seen("w", map[string][2]float64{"prepare": {4, 1}, "merge": {4, 1}, "train": {3, 1}})
	c := hosts(1, 1)
	c.Hosts[0].GPU, c.Hosts[0].Devices = 1000, []Device{{}}
	for name, plan := range map[string]func() (*Plan, error){
		"first": func() (*Plan, error) { return Make(g, s, c) },
		"best":  func() (*Plan, error) { return Best(g, s, c, Effort{Evaluations: 50}) },
	} {
		p, err := plan()
		if err != nil {
			t.Fatal(err)
		}
		for i, task := range p.Tasks {
			if needs := g.Groups[g.GroupIndex(dag.TaskIndex(i))].Resources.GPU > 0; needs && task.Host != 0 || !needs && task.Host != 1 {
				t.Errorf("%s: %s is on host %d: %s", name, g.TaskName(dag.TaskIndex(i)), task.Host, p.Reason(g, dag.TaskIndex(i)))
			}
		}
		if p.LowerBound != 12 {
			t.Errorf("%s: it cannot end before %g, want 12", name, p.LowerBound)
		}
		if p.Makespan > 12.1 {
			t.Errorf("%s: it takes %g, and the tasks with the device alone 12", name, p.Makespan)
		}
	}
	p, err := Make(g, s, c)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Reason(g, 4), "ready 3 s earlier, waits for a free place with a device behind tasks of higher rank"; got != want {
		t.Errorf("the second to train %s, want %s", got, want)
	}
}
