package core

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/cascade-run/cascade/comms"
)

// A program that computes on a device reads once which ones it may see, when its process
// begins. So devices belong to executors and not to runs: a pool whose tasks want
// some starts each executor with what one task needs, and that is the executor's
// until it is known dead. An idle executor is ended when another pool's tasks want its
// devices (decision 35).

// wholeDevice is one device, in thousandths.
const wholeDevice = 1000

// portion is a part of one device.
type portion struct{ gpu, memory int64 } // thousandths, bytes

// demand is what one task wants of devices: a share of one, or whole ones.
type demand struct {
	gpu    int64 // thousandths: below 1000 a share, above a multiple of it
	memory int64 // bytes on each device that it gets
}

func (d demand) none() bool { return d.gpu == 0 }

func demandOf(need amounts) demand { return demand{need[resGPU], need[resGPUMemory]} }

// count tells on how many devices it is met, and with what portion of each.
func (d demand) count() (n int, each portion) {
	if d.gpu <= wholeDevice {
		return 1, portion(d)
	}
	return int(d.gpu / wholeDevice), portion{wholeDevice, d.memory}
}

// holding is what one executor has of which devices.
type holding struct {
	at   []int // places in devices
	each portion
}

// devices are the devices of a host, and the free parts of them.
type devices struct {
	all  []comms.Device
	most []int64   // thousandths of each
	free []portion // of each
}

// devicesOf lists the devices of a host: those that it names, or as many as its total of
// thousandths says. Memory that is not known is not counted.
func devicesOf(total *comms.Resources) devices {
	d := devices{all: total.Devices}
	if len(d.all) == 0 {
		for i := range (total.GPU + wholeDevice - 1) / wholeDevice {
			d.all = append(d.all, comms.Device{Name: strconv.FormatInt(i, 10)})
		}
	}
	left := total.GPU
	for _, dev := range d.all {
		d.most = append(d.most, min(left, wholeDevice))
		d.free = append(d.free, portion{min(left, wholeDevice), dev.Memory})
		left -= min(left, wholeDevice)
	}
	return d
}

func (d *devices) clone() devices {
	return devices{d.all, d.most, slices.Clone(d.free)}
}

// find chooses devices that meet a demand, in order: for a share the fullest one that has
// room for it, so that others stay whole, for whole ones those with the least memory. ok
// is false when there are not as many.
func (d *devices) find(want demand) (h holding, ok bool) {
	n, each := want.count()
	var fit []int
	for i, f := range d.free {
		if f.gpu >= each.gpu && (f.memory >= each.memory || d.all[i].Memory == 0) {
			fit = append(fit, i)
		}
	}
	if len(fit) < n {
		return holding{}, false
	}
	slices.SortStableFunc(fit, func(a, b int) int {
		return cmp.Or(cmp.Compare(d.free[a].gpu, d.free[b].gpu), cmp.Compare(d.free[a].memory, d.free[b].memory))
	})
	h = holding{fit[:n:n], each}
	slices.Sort(h.at)
	return h, true
}

// times tells how often a demand can be met, at most n times, and on which devices.
func (d *devices) times(want demand, n int) (times int, at []int) {
	left := d.clone()
	for ; times < n; times++ {
		h, ok := left.find(want)
		if !ok {
			break
		}
		left.take(h)
		at = append(at, h.at...)
	}
	return times, at
}

// fits tells whether a demand can be met n times.
func (d *devices) fits(want demand, n int) bool {
	times, _ := d.times(want, n)
	return times == n
}

func (d *devices) take(h holding) {
	for _, i := range h.at {
		d.free[i].gpu -= h.each.gpu
		d.free[i].memory -= h.each.memory
	}
}

func (d *devices) give(h holding) {
	for _, i := range h.at {
		d.free[i].gpu += h.each.gpu
		d.free[i].memory += h.each.memory
	}
}

// names lists the devices of a holding, as tasks are told them.
func (d *devices) names(h holding) (all []string) {
	for _, i := range h.at {
		all = append(all, d.all[i].Name)
	}
	return all
}

// unfitDevices says why no host like this one can meet a demand; "" when it can.
func (c *Core) unfitDevices(want demand) string {
	if all := devicesOf(&c.cfg.Total); !want.none() && !all.fits(want, 1) {
		return c.unmet(want)
	}
	return ""
}

// unmet says what a demand asks for, and what there is.
func (c *Core) unmet(want demand) string {
	text := fmt.Sprintf("needs %g gpu", float64(want.gpu)/wholeDevice)
	if want.memory > 0 {
		text += fmt.Sprintf(" with %d bytes of memory", want.memory)
		if want.gpu > wholeDevice {
			text += " each"
		}
	}
	return text + ", the devices of this agent are " + c.devices.describe()
}

func (d *devices) describe() string {
	text := ""
	for i, dev := range d.all {
		if i > 0 {
			text += ", "
		}
		text += dev.Name
		if dev.Memory > 0 {
			text += fmt.Sprintf(" with %d bytes", dev.Memory)
		}
	}
	return text
}

// poolOf returns the pool whose executors run the tasks of a class, once its
// environment is there.
func (c *Core) poolOf(cl *class) *pool {
	base := cl.env.pool
	want := demandOf(cl.need)
	if want.none() || base == nil {
		return base
	}
	p := c.pool(poolKey{base.key.env, base.key.dir, want})
	p.base = base
	return p
}

// idleHolder tells whether an executor holds devices and does nothing with them.
func (ex *executor) idleHolder() bool {
	return len(ex.holds.at) > 0 && len(ex.queue) == 0 && !ex.crew && ex.state != exStarting
}

// meets tells whether the devices can meet a demand n times, now or when executors that
// do nothing with theirs have ended.
func (c *Core) meets(want demand, n int) bool {
	if want.none() || c.devices.fits(want, n) {
		return true
	}
	left := c.devices.clone()
	for _, ex := range c.execs {
		if ex.idleHolder() {
			left.give(ex.holds)
		}
	}
	return left.fits(want, n)
}

// reclaim ends idle executors of other pools until a pool's demand can be met n times once
// they are dead, or as often as that leads to: those that have been idle for longest first,
// and no more than needed.
func (c *Core) reclaim(p *pool, n int) {
	left := c.devices.clone()
	var idle []*executor
	for _, ex := range c.execs {
		switch {
		case !ex.idleHolder():
		case ex.state != exUp:
			left.give(ex.holds) // it ends already
		case ex.pool != p:
			idle = append(idle, ex)
		}
	}
	slices.SortStableFunc(idle, func(a, b *executor) int { return a.idle.Compare(b.idle) })
	all := left.clone()
	for _, ex := range idle {
		all.give(ex.holds)
	}
	n, needed := all.times(p.key.devices, n)
	for _, ex := range idle {
		if left.fits(p.key.devices, n) {
			return
		}
		if slices.ContainsFunc(ex.holds.at, func(i int) bool { return slices.Contains(needed, i) }) {
			left.give(ex.holds)
			c.stopExecutor(ex)
		}
	}
}

// equip gives a new executor the devices of its pool.
func (c *Core) equip(ex *executor) {
	want := ex.pool.key.devices
	if want.none() {
		return
	}
	h, ok := c.devices.find(want)
	if !ok {
		panic("agent core: an executor is started without devices for it")
	}
	c.devices.take(h)
	ex.holds = h
	ex.grant[resGPU], ex.grant[resGPUMemory] = want.gpu, want.memory
}

// unequip takes back what a dead executor had.
func (c *Core) unequip(ex *executor) {
	c.devices.give(ex.holds)
	ex.holds = holding{}
}

// equipped tells whether a pool, which is to start n executors, can start one: its devices
// are free. If they are not, it makes idle executors release them; until the next pass,
// which asks again in order, no other pool gets what it is to have then: two pools would
// else take devices from each other for ever.
func (c *Core) equipped(p *pool, n int) bool {
	want := p.key.devices
	if want.none() {
		return true
	}
	if h, ok := c.devices.find(want); ok {
		if c.owed == nil || c.owed == p {
			return true
		}
		left := c.devices.clone()
		left.take(h)
		for _, ex := range c.execs {
			if ex.idleHolder() && ex.state != exUp {
				left.give(ex.holds)
			}
		}
		return left.fits(c.owed.key.devices, 1)
	}
	if c.owed == nil && c.meets(want, 1) {
		c.owed = p
		c.reclaim(p, n)
	}
	return false
}

// equipNow starts the executors at once that a pool with devices misses, but not in the
// place of others, which may be wanted yet: who comes first in turn is to have the devices.
func (c *Core) equipNow(p *pool) {
	if !p.key.devices.none() && c.leaving == nil {
		c.spawnFor(p, func(*pool) bool { return false })
	}
}

// awaitsDevices tells whether a line's tasks still wait for devices: no executor of its pool
// has any that it could use for them.
func (l *line) awaitsDevices() bool {
	return !l.pool.key.devices.none() && !slices.ContainsFunc(l.pool.execs, func(ex *executor) bool {
		return ex.state <= exUp && len(ex.queue) == 0 && !ex.crew
	})
}

// checkDevices compares what executors hold with what is free.
func (c *Core) checkDevices() error {
	want := devicesOf(&c.cfg.Total)
	for _, ex := range c.execs {
		if n, _ := ex.pool.key.devices.count(); !ex.pool.key.devices.none() && len(ex.holds.at) != n {
			return fmt.Errorf("executor %d has %d devices, its tasks need %d", ex.id, len(ex.holds.at), n)
		}
		want.take(ex.holds)
	}
	for i := range want.free {
		if want.free[i] != c.devices.free[i] || want.free[i].gpu < 0 || want.free[i].memory < 0 && want.all[i].Memory > 0 {
			return fmt.Errorf("%v of device %s is free, counted %v", c.devices.free[i], want.all[i].Name, want.free[i])
		}
	}
	return nil
}
