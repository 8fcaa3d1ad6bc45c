package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/internal/samehost"
)

// errGone says that an agent's process has ended: its connection was closed, and where it was
// reached before a new one is refused now.
var errGone = errors.New("its process has ended")

// How soon it is looked again whether anything listens where an agent did. A process that dies
// closes its sockets one after the other, and a network that was cut may tell more later.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = 2 * time.Second
	lookLimit = 2 * time.Second // for one answer
)

// doorway is where an agent listens.
type doorway struct {
	proven  []comms.Endpoint // those that have answered this host
	looking bool             // a goroutine looks whether anything listens there
}

// learn finds out which of the doors that an agent names this host reaches: one that never
// answered may be behind a NAT or a firewall that refuses, and its refusal says nothing later.
func (c *Controller) learn(l *comms.Link, m *comms.Register) {
	doors, near := doorsOf(m)
	c.work.Go(func() {
		proven := answering(doors, near)
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, known := c.ids[l]; !known {
			return
		}
		if d := c.doors[l]; d != nil {
			d.proven = proven
			return
		}
		c.doors[l] = &doorway{proven: proven}
	})
}

// lookAfter ends the link of an agent at once when its process has ended. The kernel of its
// host closes the connections of a process that dies, and refuses new ones to it: silence, as of
// a host that was cut off or frozen, says nothing of that kind. A link has one that looks.
func (c *Controller) lookAfter(l *comms.Link, why error) {
	if errors.Is(why, comms.ErrSilent) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.doors[l]
	if d == nil || len(d.proven) == 0 || d.looking {
		return
	}
	d.looking = true
	c.work.Go(func() {
		for pause := firstLook; ; pause = min(2*pause, lastLook) {
			doors := c.toLook(l, d)
			if doors == nil {
				return
			}
			if door, ok := refuses(doors); ok && l.AbortBroken(fmt.Errorf("%w: nothing listens at %s", errGone, door)) {
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

// toLook returns the doors of a link that is still broken; with nil its looker ends.
func (c *Controller) toLook(l *comms.Link, d *doorway) []comms.Endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, broken := c.broken[l]; broken && len(d.proven) > 0 {
		return d.proven
	}
	d.looking = false
	return nil
}

// doorsOf lists where an agent listens, as far as this host may reach it, and tells whether
// the agent is near, in the same root folder and network: the path of a socket means the same
// only to processes that see the same files.
func doorsOf(m *comms.Register) (doors []comms.Endpoint, near bool) {
	here := samehost.Resource()
	near = here != "" && slices.ContainsFunc(m.Total.Custom, func(a comms.Amount) bool { return a.Name == here })
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
	return doors, near
}

// knock tries all doors at once. found is called for each, one after the other: at is the
// address that answered, nil when none did.
func knock(doors []comms.Endpoint, found func(e comms.Endpoint, at net.Addr, err error)) {
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, e := range doors {
		all.Go(func() {
			network := "tcp"
			if e.Scheme == "ipc" {
				network = "unix"
			}
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, e.Target)
			var at net.Addr
			if err == nil {
				at = conn.RemoteAddr()
				_ = conn.Close() // something listens: that is all that was asked
			}
			mu.Lock()
			defer mu.Unlock()
			found(e, at, err)
		})
	}
	all.Wait()
}

// answering returns the doors at which something listens. A loopback address is of this host:
// what answers there is the agent only when that is near.
func answering(doors []comms.Endpoint, near bool) (proven []comms.Endpoint) {
	knock(doors, func(e comms.Endpoint, at net.Addr, err error) {
		if tcp, ok := at.(*net.TCPAddr); err == nil && (near || !ok || !tcp.IP.IsLoopback()) {
			proven = append(proven, e)
		}
	})
	return proven
}

// refuses tells whether all doors that answer at all refuse connections, and names one.
func refuses(doors []comms.Endpoint) (door comms.Endpoint, ok bool) {
	listens := false
	knock(doors, func(e comms.Endpoint, _ net.Addr, err error) {
		switch {
		case err == nil:
			listens = true
		case errors.Is(err, syscall.ECONNREFUSED):
			door, ok = e, true
		}
	})
	return door, ok && !listens
}
