package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Which devices a run gets. An amount of up to a thousand thousandths is a part of one
// device, or all of it; more is whole devices. So that parts are left whole as long as
// may be, the device is taken that has least left of those that have enough.
//
// A function opens devices in the executor's process, and libraries do that once: an
// executor that had devices for a function keeps to them (executor.bound), and ends when
// others are free and it is in the way. A command is a process of its own.

// deviceShare is what n thousandths take of each device.
func deviceShare(n int64) int64 { return min(n, 1000) }

// deviceAmounts splits the devices of a host: whole ones, and what remains.
func deviceAmounts(total int64) (each []int64) {
	for ; total > 0; total -= 1000 {
		each = append(each, min(total, 1000))
	}
	return each
}

// deviceNames fills up the names under which tasks see devices.
func deviceNames(names []string, n int) []string {
	names = slices.Clone(names)
	for i := len(names); i < n; i++ {
		names = append(names, strconv.Itoa(i))
	}
	return names
}

// takeDevices takes n thousandths out of what is free on devices, and tells of which;
// nil when they do not have it.
func takeDevices(free []int64, n int64) (taken []int) {
	if n <= 1000 {
		best := -1
		for i, f := range free {
			if f >= n && (best < 0 || f < free[best]) {
				best = i
			}
		}
		if best < 0 {
			return nil
		}
		free[best] -= n
		return []int{best}
	}
	for i, f := range free {
		if f >= 1000 && int64(len(taken))*1000 < n {
			taken = append(taken, i)
		}
	}
	if int64(len(taken))*1000 != n {
		return nil
	}
	for _, i := range taken {
		free[i] -= 1000
	}
	return taken
}

// noDevices says why n thousandths for each of so many tasks at once can never be had
// of the devices that are here; "" when they can.
func (c *Core) noDevices(n int64, tasks int) string {
	free := deviceAmounts(c.total[resGPU])
	for range tasks {
		if n > 0 && takeDevices(free, n) == nil {
			return fmt.Sprintf("needs %g gpu, which the devices of this agent (%g) cannot give: a task has a part of one device, or whole ones", float64(n)/1000, float64(c.total[resGPU])/1000)
		}
	}
	return ""
}

// devicesFor returns which devices an executor would have with n thousandths, and
// whether it can have them now; ex is nil for one that has nothing.
func (c *Core) devicesFor(ex *executor, n int64) ([]int, bool) {
	if n == 0 {
		return nil, true
	}
	if ex == nil || ex.devices == nil {
		at := takeDevices(slices.Clone(c.devices), n)
		return at, at != nil
	}
	if int64(len(ex.devices)) != (n+999)/1000 {
		return nil, false
	}
	more := deviceShare(n) - deviceShare(ex.grant[resGPU])
	for _, i := range ex.devices {
		if c.devices[i] < more {
			return nil, false
		}
	}
	return ex.devices, true
}

// grantDevices changes what an executor has of devices from had to n thousandths.
func (c *Core) grantDevices(ex *executor, had, n int64) {
	if n > 0 && ex.devices == nil {
		ex.devices, _ = c.devicesFor(nil, n)
	}
	for _, i := range ex.devices {
		c.devices[i] -= deviceShare(n) - deviceShare(had)
	}
	if n == 0 && !ex.bound {
		ex.devices = nil
	}
}

// elsewhere tells whether an executor keeps to devices that it cannot have now, while
// others are free.
func (c *Core) elsewhere(ex *executor, need amounts) bool {
	if _, can := c.devicesFor(ex, need[resGPU]); can {
		return false
	}
	_, others := c.devicesFor(nil, need[resGPU])
	return others
}

// retire ends idle executors of a pool that are in the way of tasks for which there
// are devices: n of them at most, less those that start already.
func (c *Core) retire(p *pool, need amounts, n int) {
	if need[resGPU] == 0 {
		return
	}
	for _, ex := range p.execs {
		if ex.state == exStarting && !ex.crew {
			n--
		}
	}
	for _, ex := range p.execs {
		if n > 0 && ex.state == exUp && len(ex.queue) == 0 && !ex.crew && c.elsewhere(ex, need) {
			c.stopExecutor(ex)
			n--
		}
	}
}

// holdDevices takes the devices of a bundle's members, all or none, and tells whether
// it has them.
func (c *Core) holdDevices(b *bundle) bool {
	need := b.gang.gs.need[resGPU]
	if need == 0 || b.devices != nil {
		return true
	}
	free := slices.Clone(c.devices)
	var taken [][]int
	for range b.members {
		at := takeDevices(free, need)
		if at == nil {
			return false
		}
		taken = append(taken, at)
	}
	c.devices, b.devices = free, taken
	return true
}

// returnDevices gives back what holdDevices took.
func (c *Core) returnDevices(b *bundle) {
	for _, at := range b.devices {
		for _, i := range at {
			c.devices[i] += deviceShare(b.gang.gs.need[resGPU])
		}
	}
	b.devices = nil
}

// deviceEnv is what a run with devices finds in its environment.
func (c *Core) deviceEnv(at []int) string {
	names := make([]string, len(at))
	for k, i := range at {
		names[k] = c.cfg.Devices[i]
	}
	return c.cfg.DeviceVariable + "=" + strings.Join(names, ",")
}

// checkDevices compares what is free on each device with what executors and the bundle have.
func (c *Core) checkDevices() error {
	free := deviceAmounts(c.total[resGPU])
	for _, ex := range c.execs {
		n := ex.grant[resGPU]
		if n > 0 && int64(len(ex.devices)) != (n+999)/1000 || n == 0 && ex.devices != nil && !ex.bound {
			return fmt.Errorf("executor %d has %d thousandths of %d devices", ex.id, n, len(ex.devices))
		}
		for _, i := range ex.devices {
			free[i] -= deviceShare(n)
		}
	}
	if b := c.bundle; b != nil {
		for _, at := range b.devices {
			for _, i := range at {
				free[i] -= deviceShare(b.gang.gs.need[resGPU])
			}
		}
	}
	if !slices.Equal(free, c.devices) || len(free) > 0 && slices.Min(free) < 0 {
		return fmt.Errorf("%v is free of the devices, counted %v", free, c.devices)
	}
	return nil
}
