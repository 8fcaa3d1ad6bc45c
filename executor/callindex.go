package executor

import "github.com/cascade-run/cascade/comms"

// callIndex finds the calls of a strand by their numbers. A strand gives numbers without gaps:
// the calls are a list. Those that stay while many others come and go move to a map, so that
// the list is as long as what is outstanding and not as all that was ever called.
type callIndex struct {
	first uint64 // number of list[0]
	list  []*callState
	head  int // entries of list before it are gone
	live  int // entries of list that are not
	old   map[uint64]*callState
}

const (
	indexKeep  = 1 << 10 // an empty list keeps room for so many
	indexLeast = 64      // a shorter list is not thinned out
)

// add takes the next call of the strand.
func (x *callIndex) add(s *callState) {
	if len(x.list) == 0 {
		x.first = s.ref.Number
	}
	if x.head > len(x.list)/2 && len(x.list) == cap(x.list) {
		n := copy(x.list, x.list[x.head:])
		clear(x.list[n:])
		x.first, x.list, x.head = x.first+uint64(x.head), x.list[:n], 0
	}
	x.list = append(x.list, s)
	x.live++
}

// find returns a call; nil when it is gone or was never made.
func (x *callIndex) find(number uint64) *callState {
	if i, listed := x.place(number); listed {
		return x.list[i]
	}
	return x.old[number]
}

// place is where in the list a number is.
func (x *callIndex) place(number uint64) (i uint64, listed bool) {
	i = number - x.first
	return i, number >= x.first+uint64(x.head) && i < uint64(len(x.list))
}

// remove forgets a call that find returns.
func (x *callIndex) remove(number uint64) {
	i, listed := x.place(number)
	if !listed {
		delete(x.old, number)
		return
	}
	x.list[i] = nil
	if x.live--; x.live == 0 {
		if x.list, x.head = x.list[:0], 0; cap(x.list) > indexKeep {
			x.list = nil
		}
		return
	}
	for x.list[x.head] == nil {
		x.head++
	}
	if n := len(x.list) - x.head; n >= indexLeast && x.live < n/8 {
		x.thin()
	}
}

// thin moves the older half of a list that is mostly empty to the map.
func (x *callIndex) thin() {
	half := x.head + (len(x.list)-x.head)/2
	for i, s := range x.list[x.head:half] {
		if s != nil {
			if x.old == nil {
				x.old = map[uint64]*callState{}
			}
			x.old[x.first+uint64(x.head+i)] = s
			x.live--
		}
	}
	clear(x.list[x.head:half])
	if x.head = half; x.live == 0 {
		x.list, x.head = x.list[:0], 0
		return
	}
	for x.list[x.head] == nil {
		x.head++
	}
}

// index returns the calls of a strand; nil when there is no such strand. mu is held.
func (c *calls) index(strand uint64) *callIndex {
	if strand == 0 {
		return &c.base.calls
	}
	if s := c.strands[strand]; s != nil {
		return &s.calls
	}
	return nil
}

// find returns a call; nil when it was dropped. mu is held.
func (c *calls) find(ref comms.CallRef) *callState {
	if x := c.index(ref.Strand); x != nil {
		return x.find(ref.Number)
	}
	return nil
}
