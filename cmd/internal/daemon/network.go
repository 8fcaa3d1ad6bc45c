package daemon

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade/comms"
)

// Network is what the command line says of where others reach a daemon.
type Network struct {
	Listen    string // in full
	Interface string // name of an interface, or an address of this host
	Ports     string // one, or a range
}

// Flags adds the flags.
func (n *Network) Flags(c *cobra.Command, listen, iface, ports string) {
	s := c.Flags()
	s.StringVar(&n.Listen, "listen", "", listen)
	s.StringVar(&n.Interface, "interface", "", iface)
	s.StringVar(&n.Ports, "ports", "", ports)
}

// Address returns where to listen, "" when nothing says it. towards is a peer,
// HOST:PORT, from whose side the daemon is reached when no interface is named;
// empty when there is none. ports is the default.
func (n *Network) Address(towards, ports string) (string, error) {
	switch {
	case n.Listen != "" && n.Interface+n.Ports != "":
		return "", fmt.Errorf("--listen says all: leave --interface and --ports")
	case n.Listen != "":
		return n.Listen, nil
	case n.Interface+n.Ports+towards == "":
		return "", nil
	}
	host, err := n.host(towards)
	if err != nil {
		return "", err
	}
	if n.Ports != "" {
		ports = n.Ports
	}
	return "tcp://" + net.JoinHostPort(host, ports), nil
}

// Reachable refuses addresses to listen on that would say nothing to those who are
// told them.
func Reachable(listen string) error {
	if listen == "" {
		return nil
	}
	endpoints, err := comms.ParseAddress(listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	for _, e := range endpoints {
		host, _, err := net.SplitHostPort(e.Target)
		if ip := net.ParseIP(host); e.Scheme == "tcp" && err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
			return fmt.Errorf("--listen %s: others are told this address and could not reach it: say one of this host's, or --interface NAME", e)
		}
	}
	return nil
}

func (n *Network) host(towards string) (string, error) {
	switch {
	case n.Interface == "" && towards == "":
		return "", fmt.Errorf("--ports without --interface: say where to listen")
	case n.Interface == "":
		return route(towards)
	case net.ParseIP(n.Interface) != nil:
		return n.Interface, nil
	}
	i, err := net.InterfaceByName(n.Interface)
	if err != nil {
		return "", fmt.Errorf("--interface %q: %w; there are %s", n.Interface, err, interfaces())
	}
	addrs, err := i.Addrs()
	if err != nil {
		return "", fmt.Errorf("--interface %q: %w", n.Interface, err)
	}
	for _, a := range addrs { // the kernel lists IPv4 first
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
			return ip.IP.String(), nil
		}
	}
	return "", fmt.Errorf("--interface %q has no address", n.Interface)
}

// route returns the address of this host from which packets to a peer leave.
func route(towards string) (string, error) {
	c, err := net.Dial("udp", towards) // sends nothing
	if err != nil {
		return "", fmt.Errorf("find this host's address towards %s (or say it with --interface): %w", towards, err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP.String(), nil
}

func interfaces() string {
	all, err := net.Interfaces()
	if err != nil {
		return "none that can be listed"
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return strings.Join(names, ", ")
}
