package planner

import "github.com/cascade-run/cascade/dag"

// deviceNeed is what a task needs of devices: a number of whole ones, or a share of one
// in thousandths, and of each so many bytes.
type deviceNeed struct {
	whole         int
	share, memory int64
}

func deviceNeedOf(r *dag.Resources) deviceNeed {
	n := deviceNeed{memory: r.GPUMemory}
	n.whole, n.share = r.Devices()
	return n
}

func (n deviceNeed) none() bool { return n.whole == 0 && n.share == 0 }

// bay is the devices of a host while a schedule is made. A task takes whole free devices,
// or a share of one; free shares are never added up over several.
type bay struct {
	slots []slot
}

// slot is one device.
type slot struct {
	device Device
	share  int64   // free thousandths
	memory int64   // free bytes, when they are known
	has    []int32 // nodes that have some of it
}

// newBays returns the devices of each host; nil when no task needs any. A host that
// does not name its devices has none here: there the sum alone counts.
func newBays(n *nodes, c *Cluster) []bay {
	if !n.devices() {
		return nil
	}
	bays := make([]bay, len(c.Hosts))
	for h := range c.Hosts {
		for _, d := range c.Hosts[h].Devices {
			bays[h].slots = append(bays[h].slots, slot{device: d})
		}
		bays[h].clear()
	}
	return bays
}

// clear gives all back.
func (b *bay) clear() {
	for i := range b.slots {
		s := &b.slots[i]
		s.share, s.memory, s.has = 1000, s.device.Memory, s.has[:0]
	}
}

// fits tells whether a task may start now.
func (b *bay) fits(n deviceNeed) bool {
	if len(b.slots) == 0 || n.none() {
		return true
	}
	if n.whole == 0 {
		return b.best(n) >= 0
	}
	found := 0
	for i := range b.slots {
		if b.slots[i].fits(n) {
			if found++; found == n.whole {
				return true
			}
		}
	}
	return false
}

// fits tells whether the device is one for a task: a whole one must be free.
func (s *slot) fits(n deviceNeed) bool {
	share := n.share
	if n.whole > 0 {
		share = 1000
	}
	return s.share >= share && (s.device.Memory == 0 || s.memory >= n.memory)
}

// best returns the device that a task should take of those that fit: the fullest, so that
// others stay whole, and of these the one with least memory, ties by index; -1: none.
func (b *bay) best(n deviceNeed) int {
	best := -1
	for i := range b.slots {
		s := &b.slots[i]
		if !s.fits(n) {
			continue
		}
		if best < 0 || s.share < b.slots[best].share || s.share == b.slots[best].share && s.smaller(&b.slots[best]) {
			best = i
		}
	}
	return best
}

// smaller tells whether less memory is free, unknown being most.
func (s *slot) smaller(t *slot) bool {
	if s.device.Memory == 0 || t.device.Memory == 0 {
		return s.device.Memory != 0
	}
	return s.memory < t.memory
}

// take occupies devices that fit for a node.
func (b *bay) take(i int32, n deviceNeed) {
	if len(b.slots) == 0 || n.none() {
		return
	}
	for range max(n.whole, 1) {
		s := &b.slots[b.best(n)]
		s.has = append(s.has, i)
		s.memory -= n.memory
		if s.share -= n.share; n.whole > 0 {
			s.share = 0
		}
	}
}

// give releases what a node has.
func (b *bay) give(i int32, n deviceNeed) {
	if n.none() {
		return
	}
	for k := range b.slots {
		s := &b.slots[k]
		for at, who := range s.has {
			if who != i {
				continue
			}
			last := len(s.has) - 1
			s.has[at] = s.has[last]
			s.has = s.has[:last]
			s.memory += n.memory
			if s.share += n.share; n.whole > 0 {
				s.share = 1000
			}
			break
		}
	}
}
