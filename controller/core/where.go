package core

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/comms"
)

// Calls of running tasks stay with the agent of their caller, unless it asks where
// they should run. The answer is what is known at the moment, and nothing of it is
// kept but in the estimate of how long an agent's queue is: agents agree on the rest
// among themselves, and a controller that starts anew has lost nothing.

// maxPlaced is the most calls that one answer places.
const maxPlaced = 1024

// where answers an agent that asks where calls should run.
func (c *Core) where(a *agent, m *comms.Where) {
	a.work.tell(m.Load)
	if m.Calls == 0 {
		return
	}
	answer := &comms.There{Ask: m.Ask}
	if hosts := c.hostsFor(a, m); len(hosts) > 0 {
		n := min(m.Calls, maxPlaced)
		for i, k := range spread(n, m, a, hosts) {
			if h := hosts[i]; k > 0 {
				h.work.given += k
				a.work.told.Waiting -= min(a.work.told.Waiting, k)
				answer.Hosts = append(answer.Hosts, comms.Host{Agent: h.row.Name, Incarnation: h.row.Incarnation, Addresses: h.row.Addresses, Calls: k, Slots: h.slots(&m.Needs)})
				if h.row.Name < a.row.Name { // it dials
					c.send(h.link, &comms.Meet{Host: comms.Host{Agent: a.row.Name, Incarnation: a.row.Incarnation, Addresses: a.row.Addresses}})
				}
			}
		}
	} else if !m.Here && !c.hostMayCome(m) {
		up := slices.DeleteFunc(c.sortedAgents(), func(b *agent) bool { return b.link == nil })
		if answer.Why = fmt.Sprintf("none of the %d agents that are up has it", len(up)); len(up) == 1 {
			answer.Why = "no other agent is up"
		}
	}
	c.send(a.link, answer)
}

// hostsFor lists the agents beside the asker that can run a call, by name.
func (c *Core) hostsFor(asker *agent, m *comms.Where) []*agent {
	return slices.DeleteFunc(c.sortedAgents(), func(b *agent) bool {
		return b == asker || c.cfg.Passive || !b.stays() || !b.takes || slices.Contains(m.Without, b.row.Name) || !b.suits(m)
	})
}

// hostMayCome tells whether an agent is expected, or avoided for now, that could run a call.
func (c *Core) hostMayCome(m *comms.Where) bool {
	for _, b := range c.agents {
		if b.suits(m) && (b.link != nil && b.takes || b.link == nil && !b.away.IsZero()) {
			return true
		}
	}
	return c.cfg.Passive
}

// suits tells whether an agent has what a call needs, and is of a platform for which
// it has a binary.
func (a *agent) suits(m *comms.Where) bool {
	total, need := &a.row.Total, &m.Needs
	if len(m.Platforms) > 0 && !slices.Contains(m.Platforms, a.row.Platform) {
		return false
	}
	if need.CPU > total.CPU || need.Memory > total.Memory || need.GPU > total.GPU {
		return false
	}
	for _, n := range need.Custom {
		if !slices.ContainsFunc(total.Custom, func(t comms.Amount) bool { return t.Name == n.Name && t.N >= n.N }) {
			return false
		}
	}
	return true
}

// slots is how many calls that need as much run at once on an agent which suits them.
func (a *agent) slots(need *comms.Resources) uint64 {
	total := &a.row.Total
	n := total.CPU / cmp.Or(need.CPU, 1000)
	if need.Memory > 0 {
		n = min(n, total.Memory/need.Memory)
	}
	if need.GPU > 0 {
		n = min(n, total.GPU/need.GPU)
	}
	for _, of := range need.Custom {
		for _, t := range total.Custom {
			if t.Name == of.Name && of.N > 0 {
				n = min(n, t.N/of.N)
			}
		}
	}
	return uint64(max(n, 1))
}

// spread says how many of n calls each of the hosts should get: each goes where it
// would wait least by then, and of equal places to the asker first, if it can run
// them, then to the first.
func spread(n uint64, m *comms.Where, asker *agent, hosts []*agent) []uint64 {
	loads := make([]workload, 0, len(hosts)+1)
	remote := make([]uint64, 0, len(hosts)+1)
	for _, h := range hosts {
		there := h.work
		if there.told.Seconds == 0 { // it has run nothing yet: such calls take there what they do here
			there.told.Seconds = asker.work.told.Seconds
		}
		loads, remote = append(loads, there), append(remote, m.Bytes)
	}
	if m.Here {
		home := asker.work
		home.told.Waiting -= min(home.told.Waiting, m.Calls) // these
		loads, remote = slices.Insert(loads, 0, home), slices.Insert(remote, 0, 0)
	}
	counts := make([]uint64, len(loads))
	for range n {
		i, _ := least(loads, remote)
		counts[i]++
		loads[i].given++
	}
	return counts[len(loads)-len(hosts):]
}
