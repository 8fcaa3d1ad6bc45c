package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/internal/hostid"
)

// errGone says that an agent's process has ended: its connection was closed, and nothing
// listens where it did.
var errGone = errors.New("its process has ended")

// How soon it is looked again whether anything listens where an agent did. A process that dies
// closes its sockets one after the other, and a network that was cut may tell more later.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = 2 * time.Second
	lookLimit = 2 * time.Second // for one answer
)

// lossCause says of a link that has ended how the agent was lost.
func lossCause(err error) core.LossCause {
	switch {
	case errors.Is(err, errGone):
		return core.LossClosed
	case errors.Is(err, comms.ErrSuperseded):
		return core.LossRestarted
	}
	return core.LossSilent
}

// lookAfter ends the link of an agent at once when its process has ended. The kernel of its
// host closes the connections of a process that dies, and refuses new ones to it: silence, as of
// a host that was cut off or frozen, says nothing of that kind.
func (c *Controller) lookAfter(l *comms.Link, why error) {
	c.mu.Lock()
	doors := c.doors[l]
	c.mu.Unlock()
	if len(doors) == 0 || errors.Is(why, comms.ErrSilent) {
		return
	}
	c.work.Go(func() {
		for pause := firstLook; c.isBroken(l); pause = min(2*pause, lastLook) {
			if door, ok := refuses(doors); ok && c.isBroken(l) {
				l.Abort(fmt.Errorf("%w: nothing listens at %s", errGone, door))
				return
			}
			again := time.NewTimer(pause)
			select {
			case <-again.C:
			case <-c.quit:
				again.Stop()
				return
			}
		}
	})
}

func (c *Controller) isBroken(l *comms.Link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, broken := c.broken[l]
	return broken
}

// doorsOf lists where an agent listens, as far as this host can tell whether something does: the
// path of a socket means the same only to processes that see the same files.
func doorsOf(m *comms.Register) (doors []comms.Endpoint) {
	here := hostid.Resource()
	near := here != "" && slices.ContainsFunc(m.Total.Custom, func(a comms.Amount) bool { return a.Name == here })
	for _, address := range m.Addresses {
		endpoints, err := comms.ParseAddress(address)
		if err != nil {
			continue // clients that are told it will say so
		}
		for _, e := range endpoints {
			if e.Scheme == "tcp" || e.Scheme == "ipc" && near {
				doors = append(doors, e)
			}
		}
	}
	return doors
}

// refuses tells whether all doors that answer at all refuse connections, and names one.
func refuses(doors []comms.Endpoint) (door comms.Endpoint, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	for _, e := range doors {
		network := "tcp"
		if e.Scheme == "ipc" {
			network = "unix"
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, e.Target)
		if err == nil {
			_ = conn.Close() // something listens: that is all that was asked
			return e, false
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			door, ok = e, true
		}
	}
	return door, ok
}
