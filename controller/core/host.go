package core

import (
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/planner"
)

// HostOf returns what a plan goes by, as far as the row of an agent tells it.
func HostOf(r *records.Agent) planner.Host {
	h := planner.Host{Name: r.Name, CPU: r.Total.CPU, Memory: r.Total.Memory, GPU: r.Total.GPU, Platform: planner.PlatformOf(r.Platform)}
	for _, d := range r.Total.Devices {
		h.Devices = append(h.Devices, planner.Device{Memory: d.Memory})
	}
	for _, x := range r.Total.Custom {
		if h.Custom == nil {
			h.Custom = map[string]int64{}
		}
		h.Custom[x.Name] = x.N
	}
	return h
}
