//go:build linux

package agent

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cascade-run/cascade/agent/core"
)

// The range from which members of gangs get their ports when none is configured:
// below those that Linux gives to outgoing connections.
const (
	firstGangPort = 27000
	lastGangPort  = 28999
)

// PortRange is ports from First to Last, both included.
type PortRange struct{ First, Last uint16 }

// ParsePortRange reads FIRST-LAST, or one port.
func ParsePortRange(s string) (r PortRange, err error) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	for _, side := range []struct {
		text string
		to   *uint16
	}{{first, &r.First}, {last, &r.Last}} {
		n, err := strconv.ParseUint(side.text, 10, 16)
		if err != nil || n == 0 {
			return PortRange{}, fmt.Errorf("ports %q: want FIRST-LAST, each from 1 to 65535", s)
		}
		*side.to = uint16(n)
	}
	if r.Last < r.First {
		return PortRange{}, fmt.Errorf("ports %q: the last is below the first", s)
	}
	return r, nil
}

// ports leases ports of this host to members of gangs, each to one at a time.
type ports struct {
	mu     sync.Mutex
	from   PortRange
	next   int // offset of the port to be looked at first: one that was just released may still be in use
	leased map[uint16]struct{}
}

// newPorts begins somewhere in the range: several agents of a host may have the same.
func newPorts(from PortRange) *ports {
	return &ports{from: from, next: os.Getpid() * 64, leased: map[uint16]struct{}{}}
}

// lease returns n ports that are neither leased nor listened on.
func (p *ports) lease(n int) ([]uint16, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := int(p.from.Last) - int(p.from.First) + 1
	var out []uint16
	for range size {
		if len(out) == n {
			break
		}
		port := p.from.First + uint16(p.next%size)
		p.next++
		if _, taken := p.leased[port]; taken {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(int(port))))
		if err != nil {
			continue // another program listens there
		}
		if err := l.Close(); err != nil {
			continue
		}
		out = append(out, port)
	}
	if len(out) < n {
		return nil, fmt.Errorf("%d of %d ports are free from %d to %d", len(out), n, p.from.First, p.from.Last)
	}
	for _, port := range out {
		p.leased[port] = struct{}{}
	}
	return out, nil
}

// back takes leased ports back.
func (p *ports) back(all []uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range all {
		delete(p.leased, port)
	}
}

// leasePorts looks for ports beside the loop: it asks the kernel for each.
func (l *loop) leasePorts(act core.LeasePorts) {
	a := l.agent
	a.work.Go(func() {
		ev := core.PortsLeased{ID: act.ID}
		var err error
		if ev.Ports, err = a.ports.lease(act.N); err != nil {
			ev.Err = err.Error()
		}
		a.in.Push(item{ev: ev})
	})
}

// gangHost is where members of gangs on other hosts reach this one: the host of
// the first address over the network, "" when there is none.
func gangHost(addresses []string) string {
	for _, addr := range addresses {
		target, isTCP := strings.CutPrefix(addr, "tcp://")
		if host, _, err := net.SplitHostPort(target); isTCP && err == nil && !slices.Contains([]string{"", "0.0.0.0", "::"}, host) {
			return host
		}
	}
	return ""
}
