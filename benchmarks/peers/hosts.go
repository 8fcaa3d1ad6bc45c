package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/internal/testing/netlab"
)

// hosts are those of this machine on which one system runs: network namespaces on one
// switch, without a bound but that of the cores. The runner is on the first of them.
type hosts struct {
	lab *netlab.Lab
}

// openHosts makes n hosts. It needs root. None are no error: the system runs on the machine itself.
func openHosts(n int) (h hosts, err error) {
	if n == 0 {
		return h, nil
	}
	if h.lab, err = netlab.New(netlab.Config{Hosts: n}); err != nil {
		return h, fmt.Errorf("hosts of one machine, which need root: %w", err)
	}
	return h, nil
}

// addresses lists those of the hosts.
func (h hosts) addresses() (all []string) {
	for i := range h.count() {
		all = append(all, h.lab.Host(i).Addr().String())
	}
	return all
}

func (h hosts) count() int {
	if h.lab == nil {
		return 0
	}
	return h.lab.Hosts()
}

// variable tells a runner ADDRESS=NAMESPACE of each host, with commas between.
func (h hosts) variable() string {
	all := h.addresses()
	for i := range all {
		all[i] += "=" + h.lab.Host(i).Space()
	}
	return "PEERS_HOSTS=" + strings.Join(all, ",")
}

// enter is the command that starts another on the first host.
func (h hosts) enter(words []string) []string {
	if h.lab == nil {
		return words
	}
	return slices.Concat([]string{"nsenter", "--net=" + h.lab.Host(0).Space(), "--"}, words)
}

// close removes the hosts. Processes there belong to the runner, and have ended with it.
func (h hosts) close() error {
	if h.lab == nil {
		return nil
	}
	if err := h.lab.Close(); err != nil {
		return fmt.Errorf("remove the hosts: %w", err)
	}
	return nil
}
