package model

import (
	"time"

	"github.com/cascade-run/cascade/comms"
)

// driver is a run whose function calls others as tasks of their own, and awaits them
// in the order in which it has called them.
type driver struct {
	run       comms.Run
	began     time.Duration
	calls     int
	made, got int
	ended     map[uint64]bool // of those from got on
	waits     uint64
}

const driverFunction = "scale_drive"

// share is how many of n calls driver i of so many makes.
func share(n, drivers, i int) int { return n*(i+1)/drivers - n*i/drivers }

// drives begins with the driver at the head of the queue.
func (x *executor) drives() {
	cfg, r := x.a.cfg, x.queue[0]
	x.runs = 1
	x.drive = &driver{run: r, began: x.a.w.now, calls: share(cfg.Tasks, cfg.Drivers, int(r.Task)), ended: map[uint64]bool{}}
	x.goesOn()
}

// goesOn has the driver make the calls for which there is room, in one message as the library
// does, or wait for the oldest, or end. The cost of a call is shared by its caller and its executor.
func (x *executor) goesOn() {
	d := x.drive
	for d.ended[uint64(d.got)] {
		delete(d.ended, uint64(d.got))
		d.got++
	}
	switch n := min(d.calls-d.made, x.a.cfg.Window-(d.made-d.got)); {
	case n > 0:
		cost := x.a.cfg.Costs.Executor.Task * time.Duration(n)
		x.used += cost
		x.on.use(cost, func() {
			m := &comms.Calls{Run: d.run.ID}
			if d.made == 0 {
				m.Kinds = []comms.CallKind{{ID: 1, Function: function, Outputs: []comms.KindOut{{Name: "out"}}}}
			}
			for range n {
				m.Items = append(m.Items, comms.CallItem{Ref: comms.CallRef{Number: uint64(d.made)}, Kind: 1})
				d.made++
			}
			x.tell(m, 0)
			x.goesOn()
		})
	case d.got < d.made:
		d.waits++
		x.tell(&comms.CallWait{Run: d.run.ID, Wait: d.waits, Refs: []comms.CallRef{{Number: uint64(d.got)}}, N: 1}, 0)
	default:
		x.drive, x.runs = nil, 0
		x.queue = x.queue[1:]
		x.end(&d.run, comms.Usage{Start: epoch.Add(d.began).UnixNano(), Duration: int64(x.a.w.now - d.began)})
		x.flush()
		x.goOn()
	}
}

// callsEnded takes the ends of the driver's calls.
func (x *executor) callsEnded(m *comms.CallEnds) {
	if d := x.drive; d != nil && d.run.ID == m.Run {
		for i := range m.Ends {
			d.ended[m.Ends[i].Ref.Number] = true
		}
	}
}
