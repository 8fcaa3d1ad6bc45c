package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Config says what a Lab has.
type Config struct {
	Hosts int           // 1 to 200
	Rate  int64         // bits per second of each host's link in each direction; 0 leaves it unshaped
	Delay time.Duration // added to each packet that a host sends
}

// Lab is a set of hosts on one switch.
type Lab struct {
	hosts  []*Host
	wires  *netlink.Handle  // in the namespace of the bridge
	spaces []netns.NsHandle // of the bridge, and of the hosts
	netem  bool             // the kernel delays packets, not lines
}

// ErrNoDelay means that packets cannot be delayed here.
var ErrNoDelay = errors.New("a link cannot have a delay: this machine has neither netem (CONFIG_NET_SCH_NETEM) nor TAP devices (CONFIG_TUN)")

// New makes the hosts of c. The caller ends the Lab by Close.
func New(c Config) (*Lab, error) { return newLab(c, (*Lab).hasNetem) }

// newLab is New with a way to tell whether the kernel delays packets.
func newLab(c Config, netem func(*Lab) (bool, error)) (*Lab, error) {
	if c.Hosts < 1 || c.Hosts > 200 {
		return nil, fmt.Errorf("make a lab of %d hosts: want 1 to 200", c.Hosts)
	}
	l := &Lab{}
	if err := l.build(c, netem); err != nil {
		return nil, errors.Join(fmt.Errorf("make a lab of %d hosts: %w", c.Hosts, err), l.Close())
	}
	return l, nil
}

func (l *Lab) build(c Config, netem func(*Lab) (bool, error)) error {
	if err := removeStale(); err != nil {
		return err
	}
	space, err := l.newSpace()
	if err != nil {
		return err
	}
	if l.wires, err = netlink.NewHandleAt(space); err != nil {
		return fmt.Errorf("configure the switch: %w", err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "switch"
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := l.wires.LinkAdd(bridge); err != nil {
		return fmt.Errorf("add the bridge: %w", err)
	}
	if err := l.wires.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("set the bridge up: %w", err)
	}
	if c.Delay > 0 {
		if l.netem, err = netem(l); err != nil {
			return err
		}
	}
	for i := range c.Hosts {
		h, err := l.newHost(i, bridge, c)
		if h != nil {
			l.hosts = append(l.hosts, h)
		}
		if err != nil {
			return fmt.Errorf("host %d: %w", i, err)
		}
	}
	return nil
}

// newSpace makes a network namespace that the Lab closes.
func (l *Lab) newSpace() (space netns.NsHandle, err error) {
	err = onThread(func() error {
		space, err = netns.New()
		return err
	})
	if err != nil {
		return space, fmt.Errorf("make a network namespace: %w", err)
	}
	l.spaces = append(l.spaces, space)
	return space, nil
}

// onThread runs f on a thread of its own that returns to its namespace afterwards.
// It must return rather than end: children started with a death signal would
// take the end of the thread for that of their parent.
func onThread(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		return fmt.Errorf("find the thread's namespace: %w", err)
	}
	err = f()
	if back := netns.Set(home); back != nil {
		runtime.LockOSThread() // never unlocked, so that no other goroutine runs in the wrong place
		err = errors.Join(err, fmt.Errorf("return to the namespace: %w", back))
	}
	return errors.Join(err, home.Close())
}

func (l *Lab) newHost(i int, bridge netlink.Link, c Config) (*Host, error) {
	space, err := l.newSpace()
	if err != nil {
		return nil, err
	}
	h := &Host{lab: l, space: space, addr: netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)})}
	inside, err := netlink.NewHandleAt(space)
	if err != nil {
		return h, fmt.Errorf("configure the host: %w", err)
	}
	defer inside.Close()
	if err := l.connect(h, inside, fmt.Sprintf("port%d", i), bridge, c.Delay); err != nil {
		return h, fmt.Errorf("add the link: %w", err)
	}
	for _, name := range []string{"lo", "eth0"} {
		link, err := inside.LinkByName(name)
		if err == nil && name == "eth0" {
			err = inside.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: h.addr.AsSlice(), Mask: net.CIDRMask(24, 32)}})
			h.eth = link
		}
		if err == nil {
			err = inside.LinkSetUp(link)
		}
		if err != nil {
			return h, fmt.Errorf("set %s up: %w", name, err)
		}
	}
	if err := l.wires.LinkSetUp(h.port); err != nil {
		return h, fmt.Errorf("set the link up: %w", err)
	}
	if h.line != nil {
		c.Delay = 0 // the line does it
	}
	if err := shape(inside, h.eth, c.Rate, c.Delay); err != nil {
		return h, err
	}
	if err := shape(l.wires, h.port, c.Rate, 0); err != nil {
		return h, err
	}
	h.group, err = newGroup(space)
	return h, err
}

// connect makes both ends of a host's link, eth0 and a port of the switch.
func (l *Lab) connect(h *Host, inside *netlink.Handle, port string, bridge netlink.Link, delay time.Duration) (err error) {
	if delay == 0 || l.netem {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MasterIndex = port, bridge.Attrs().Index
		h.port = &netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(h.space)}
		return l.wires.LinkAdd(h.port)
	}
	if h.line, err = newLine(h.space, l.spaces[0], port, delay); err != nil {
		return err
	}
	if _, err = lengthen(inside, "eth0"); err != nil {
		return err
	}
	if h.port, err = lengthen(l.wires, port); err != nil {
		return err
	}
	return l.wires.LinkSetMaster(h.port, bridge)
}

// hasNetem tells whether the kernel can delay packets, by the loopback device of the switch.
func (l *Lab) hasNetem() (bool, error) {
	lo, err := l.wires.LinkByName("lo")
	if err == nil {
		err = shape(l.wires, lo, 0, time.Microsecond)
	}
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	return err == nil, err
}

// burst is what a shaped link lets through at once: some packets of 64 KiB, which
// is what the kernel hands over, and what 1 Gbit/s sends in about 2 ms.
const burst = 256 << 10

// shape gives what leaves through link a rate and a delay.
func shape(at *netlink.Handle, link netlink.Link, rate int64, delay time.Duration) error {
	parent := uint32(netlink.HANDLE_ROOT)
	if rate > 0 {
		bytes := uint64(rate / 8)
		q := &netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: parent},
			Rate:       bytes,
			Buffer:     netlink.Xmittime(bytes, burst),
			Limit:      8 * burst,
		}
		if err := at.QdiscAdd(q); err != nil {
			return fmt.Errorf("shape the link to %d bit/s: %w", rate, err)
		}
		parent = netlink.MakeHandle(1, 1)
	}
	if delay > 0 {
		q := netlink.NewNetem(
			netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(2, 0), Parent: parent},
			netlink.NetemQdiscAttrs{Latency: uint32(delay.Microseconds()), Limit: 100_000})
		if err := at.QdiscAdd(q); err != nil {
			return fmt.Errorf("delay the link by %s: %w", delay, err)
		}
	}
	return nil
}

// Host returns host i, from 0.
func (l *Lab) Host(i int) *Host { return l.hosts[i] }

// Hosts returns how many hosts there are.
func (l *Lab) Hosts() int { return len(l.hosts) }

// Close kills what runs on the hosts and removes them.
func (l *Lab) Close() error {
	var errs []error
	for _, h := range l.hosts {
		if h.group != nil {
			errs = append(errs, h.group.kill(), h.group.remove())
		}
		if h.line != nil {
			errs = append(errs, h.line.close())
		}
	}
	if l.wires != nil {
		l.wires.Close()
	}
	for _, s := range l.spaces {
		errs = append(errs, s.Close())
	}
	l.hosts, l.wires, l.spaces = nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the lab: %w", err)
	}
	return nil
}
