package core

import (
	"fmt"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// amounts is a set of resources as a vector: cpu, memory, gpu, memory on each device,
// then the custom ones in the order of Config.Total. Free devices are in
// Core.devices, because it matters which ones they are.
type amounts []int64

const (
	resCPU = iota
	resMemory
	resGPU
	resGPUMemory
	resCustom
)

// ofDevices tells whether an amount is one of devices.
func ofDevices(i int) bool { return i == resGPU || i == resGPUMemory }

func vector(r comms.Resources) amounts {
	a := make(amounts, resCustom, resCustom+len(r.Custom))
	a[resCPU], a[resMemory], a[resGPU] = r.CPU, r.Memory, r.GPU
	for _, c := range r.Custom {
		a = append(a, c.N)
	}
	return a
}

// need turns a group's resources into a vector. unfit says why no host like this
// one can ever run it; "" when it can.
func (c *Core) need(r dag.Resources) (need amounts, unfit string) {
	need = make(amounts, len(c.total))
	need[resCPU], need[resMemory], need[resGPU] = r.CPU, r.Memory, r.GPU
	need[resGPUMemory] = r.GPUMemory
	if whole := (r.GPU + wholeDevice - 1) / wholeDevice * wholeDevice; r.GPU > wholeDevice {
		need[resGPU] = whole // graphs of older builds may ask for more than one and a part
	}
	switch r.CPU {
	case 0:
		need[resCPU] = min(1000, c.total[resCPU])
	case dag.NoCPU:
		need[resCPU] = 0
	}
	known := 0
	for i, t := range c.cfg.Total.Custom {
		if n, ok := r.Custom[t.Name]; ok {
			need[resCustom+i] = n
			known++
		}
	}
	for i, n := range need {
		if n > c.total[i] && i != resGPUMemory {
			return need, c.unfit(i, n)
		}
	}
	if why := c.unfitDevices(demandOf(need)); why != "" {
		return need, why
	}
	if known < len(r.Custom) {
		return need, "needs " + c.unknownResource(r) + ", which this agent does not have"
	}
	return need, ""
}

// unknownResource names the first custom resource, by name, that the agent lacks.
func (c *Core) unknownResource(r dag.Resources) string {
	first := ""
	for name := range r.Custom {
		has := false
		for _, t := range c.cfg.Total.Custom {
			has = has || t.Name == name
		}
		if !has && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

func (c *Core) unfit(i int, n int64) string {
	have := c.total[i]
	switch i {
	case resCPU:
		return fmt.Sprintf("needs %g cpu, this agent has %g", float64(n)/1000, float64(have)/1000)
	case resMemory:
		return fmt.Sprintf("needs %d bytes of memory, this agent has %d", n, have)
	case resGPU:
		return fmt.Sprintf("needs %g gpu, this agent has %g", float64(n)/1000, float64(have)/1000)
	}
	return fmt.Sprintf("needs %g %s, this agent has %g", float64(n)/1000, c.cfg.Total.Custom[i-resCustom].Name, float64(have)/1000)
}

// amountsOf is need as a message, for Kind.
func (c *Core) resources(need amounts) comms.Resources {
	r := comms.Resources{CPU: need[resCPU], Memory: need[resMemory], GPU: need[resGPU]}
	for i, t := range c.cfg.Total.Custom {
		if n := need[resCustom+i]; n > 0 {
			r.Custom = append(r.Custom, comms.Amount{Name: t.Name, N: n})
		}
	}
	return r
}

// fits tells whether a grant may grow to cover what is needed as well. A grant of devices
// does not grow: whoever has none needs another executor, for which there may be devices
// when those that do nothing with theirs have ended.
func (c *Core) fits(grant, need amounts) bool {
	for i, n := range need {
		if n > grant[i] && !ofDevices(i) && n-grant[i] > c.free[i] {
			return false
		}
	}
	return need[resGPU] <= grant[resGPU] && need[resGPUMemory] <= grant[resGPUMemory] || c.meets(demandOf(need), 1)
}

// cover grows an executor's grant to cover need.
func (c *Core) cover(ex *executor, need amounts) {
	for i, n := range need {
		if d := n - ex.grant[i]; d > 0 && !ofDevices(i) {
			ex.grant[i] += d
			c.free[i] -= d
		}
	}
}

// regrant sets an executor's grant to what the runs in its queue need at most. A
// held-back generator keeps all but its cpu, and an executor its devices.
func (c *Core) regrant(ex *executor) {
	for i := range ex.grant {
		if ofDevices(i) {
			continue
		}
		want := int64(0)
		for _, r := range ex.queue {
			want = max(want, r.group().need[i])
		}
		if i == resCPU && ex.held() {
			want = 0
		}
		c.free[i] += ex.grant[i] - want
		ex.grant[i] = want
	}
}
