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
	awaits    bool
}

const driverFunction = "scale_drive"

// share is how many of n calls driver i of so many makes.
func share(n, drivers, i int) int { return n*(i+1)/drivers - n*i/drivers }

// drives begins with the driver at the head of the queue.
func (x *executor) drives() {
	cfg, r := x.a.cfg, x.queue[0]
	x.runs = 1
	x.drive = &driver{run: r, began: x.a.w.now, calls: share(cfg.Tasks, cfg.Drivers, int(r.Task))}
	x.goesOn()
}

// goesOn has the driver make its next call, or wait for one, or end. The cost of a
// call is shared by its caller and its executor.
func (x *executor) goesOn() {
	d := x.drive
	switch {
	case d.made < d.calls && d.made-d.got < x.a.cfg.Window:
		cost := x.a.cfg.Costs.Executor.Task
		x.used += cost
		x.on.use(cost, func() {
			x.tell(&comms.Call{Run: d.run.ID, Number: uint64(d.made), Function: function, Output: "out"}, 0)
			d.made++
			x.goesOn()
		})
	case d.got < d.made:
		d.awaits = true
		x.tell(&comms.Await{Run: d.run.ID, Number: uint64(d.got)}, 0)
	default:
		x.drive, x.runs = nil, 0
		x.queue = x.queue[1:]
		x.end(&d.run, comms.Usage{Start: epoch.Add(d.began).UnixNano(), Duration: int64(x.a.w.now - d.began)})
		x.flush()
		x.goOn()
	}
}

// returned takes the answer for which the driver waits.
func (x *executor) returned(m *comms.Returned) {
	if d := x.drive; d != nil && d.awaits && m.Number == uint64(d.got) {
		d.awaits = false
		d.got++
		x.goesOn()
	}
}
