package sim

import (
	"math/rand/v2"
	"strconv"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// drawDevices gives each agent devices, which some tasks ask for in whole or in part. It
// draws from numbers of its own, as drawHunger does.
func (f *fates) drawDevices(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 37))
	f.devices, f.usesDevices = pick(r, 1, 2, 2, 3), pick(r, 300, 700)
}

// device lets the tasks of some groups need devices. A gang gets shares as small as that
// there is room for all of its members on one agent.
func (m *maker) device(g *dag.Group) {
	if m.f.devices == 0 {
		return
	}
	gpu, uses := pick(m.devices, int64(300), 500, 1000, 1000, 2000), m.devices.IntN(1000) < m.f.usesDevices
	if !uses {
		return
	}
	if gpu = min(gpu, int64(m.f.devices)*1000); g.Gang != dag.GangNone {
		gpu = 1000 / int64(g.Axes[0].Len())
	}
	g.Resources.GPU = gpu
	if memory := pick(m.devices, 0, 0, int64(deviceMemory/4), deviceMemory/2); g.Gang == dag.GangNone {
		g.Resources.GPUMemory = memory
	}
}

// deviceMemory is what each device has.
const deviceMemory = 16 << 30

// devices is those of each agent.
func (w *world) devices() (all []comms.Device) {
	for i := range w.fate.devices {
		all = append(all, comms.Device{Name: strconv.Itoa(i), Memory: deviceMemory})
	}
	return all
}

// devices finds with each process of an agent that runs or has run tasks the devices that
// they ask for, and with all processes that live together no device over its capacity.
func (o *oracle) devices(a *agent) {
	used, memory := map[string]int64{}, map[string]int64{}
	for _, x := range a.living() {
		if x.cur == nil && x.share == 0 {
			continue
		}
		if x.cur != nil {
			gpu := x.kinds[x.cur.Kind].Resources.GPU
			n, each := 1, gpu
			switch {
			case gpu == 0:
				n = 0
			case gpu > 1000:
				n, each = int(gpu/1000), 1000
			}
			if len(x.devices) != n || x.share != 0 && x.share != each {
				o.w.fail(comms.JobID{}, "%s, which has %d thousandths of each of the devices %v, runs a task that needs %d", x.name, x.share, x.devices, gpu)
			}
			x.share = each
			if f := o.facts[x.kinds[x.cur.Kind].Job]; f != nil && x.kinds[x.cur.Kind].Function != callee {
				x.memory = f.g.Group(x.cur.Task).Resources.GPUMemory
			}
		}
		for _, name := range x.devices {
			if used[name] += x.share; used[name] > 1000 {
				o.w.fail(comms.JobID{}, "processes of %s have %d thousandths of device %s", a.name, used[name], name)
			}
			if memory[name] += x.memory; memory[name] > deviceMemory {
				o.w.fail(comms.JobID{}, "processes of %s were promised %d bytes of device %s", a.name, memory[name], name)
			}
		}
	}
}
