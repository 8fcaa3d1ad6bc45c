package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cascade-run/cascade/dag"
)

// Device is one of the devices of a host. Tasks get it whole or in shares.
type Device struct {
	Memory int64 // bytes; 0 when unknown: then what tasks need of it is not counted
}

// devices returns on how many devices of the empty host a task that needs so much
// memory of each may be.
func (h *Host) devices(memory int64) (n int64) {
	for _, d := range h.Devices {
		if d.Memory == 0 || memory <= d.Memory {
			n++
		}
	}
	return n
}

// deviceRoom returns how many tasks that need such devices the empty host can run at
// once, as far as it is for its devices. A host that does not name them counts their sum
// alone: its agent is of an older version, which knows nothing of their memory.
func (h *Host) deviceRoom(r *dag.Resources) (n int64) {
	whole, share := r.Devices()
	switch {
	case r.GPU == 0:
		return math.MaxInt64
	case len(h.Devices) == 0 && r.GPUMemory > 0:
		return 0
	case len(h.Devices) == 0:
		return h.GPU / r.GPU
	case whole > 0:
		return h.devices(r.GPUMemory) / int64(whole)
	}
	for _, d := range h.Devices {
		each := 1000 / share
		if d.Memory > 0 && r.GPUMemory > 0 {
			each = min(each, d.Memory/r.GPUMemory)
		}
		n += each
	}
	return n
}

// lackingDevices says what hosts lack of the memory that a task needs on each of its
// devices: which comes nearest, and with how much the task would fit there; "" when it
// is not for that.
func lackingDevices(r *dag.Resources, hosts []Host) string {
	if r.GPUMemory == 0 || slices.ContainsFunc(hosts, func(h Host) bool { return h.deviceRoom(r) > 0 }) {
		return ""
	}
	whole, _ := r.Devices()
	whole = max(whole, 1)
	what := "gpu_memory " + memoryText(r.GPUMemory)
	if whole > 1 {
		what += fmt.Sprintf(" on each of %d devices", whole)
	}
	var nearest *Host
	most := int64(0)
	for i := range hosts {
		h := &hosts[i]
		if len(h.Devices) < whole {
			continue
		}
		least := slices.SortedFunc(slices.Values(h.Devices), func(a, b Device) int { return cmp.Compare(b.Memory, a.Memory) })[whole-1].Memory
		if nearest == nil || least > most {
			nearest, most = h, least
		}
	}
	if nearest == nil {
		return what + " (hosts with so many do not say what memory theirs have: their agents are of an older version)"
	}
	return fmt.Sprintf("%s (host %s comes nearest with %s: up to that it would fit there)", what, nearest.Name, memoryText(most))
}

// devices tells whether a task needs any.
func (n *nodes) devices() bool {
	return slices.ContainsFunc(n.groups, func(c groupCost) bool { return !c.need.devices.none() })
}

// early tells for each shape whether its tasks go first: those that need a device, where
// some hosts have one and others none. Other tasks may go to hosts without devices; by
// rank alone they would fill the hosts with devices while the first wait.
func (n *nodes) early(c *Cluster, shapes int) []bool {
	with := 0
	for i := range c.Hosts {
		if c.Hosts[i].GPU > 0 {
			with++
		}
	}
	if with == 0 || with == len(c.Hosts) || !n.devices() {
		return nil
	}
	early := make([]bool, shapes)
	for i := range n.groups {
		early[n.groups[i].shape] = !n.groups[i].need.devices.none()
	}
	return early
}

// devicesText says which devices a place for a task has; "" when it needs none.
func devicesText(r *dag.Resources) string {
	whole, share := r.Devices()
	var text string
	switch {
	case whole > 1:
		text = fmt.Sprintf(" with %d devices", whole)
	case whole == 1:
		text = " with a device"
	case share > 0:
		text = " with " + thousandths(share) + " of a device"
	default:
		return ""
	}
	if r.GPUMemory > 0 {
		text += " of " + memoryText(r.GPUMemory)
	}
	return text
}
