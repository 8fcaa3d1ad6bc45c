package planner

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

func gangOf(t *testing.T, size int, resources string) *dag.Graph {
	t.Helper()
	return parse(t, fmt.Sprintf("job: g\ntasks:\n  a: {gang: %d, command: \"true\", resources: {%s}}\n", size, resources))
}

func TestGangsOnHosts(t *testing.T) {
	four := func(n, alone int) (all []Host) {
		for i := range n {
			all = append(all, Host{Name: fmt.Sprintf("h%d", i), CPU: 4000, Memory: 8 << 30, Custom: map[string]int64{"card": 1000}, Alone: i < alone})
		}
		return all
	}
	for _, tt := range []struct {
		name                   string
		size, hosts, older     int // older of the hosts run no gang that others have members of
		resources              string
		alone, spread, waiting string // what Unfit says of one host and of several, and Homeless
	}{
		{"one host has room", 2, 1, 1, "cpu: 2", "", "", ""},
		{"two hosts have room together", 3, 2, 0, "cpu: 2", "task a: its gang needs 3 places of cpu 2 at once on one host; the largest has 2", "", ""},
		{"more hosts may come", 5, 2, 0, "cpu: 2", "task a: its gang needs 5 places of cpu 2 at once on one host; the largest has 2", "",
			"task a: its gang needs 5 places of cpu 2 at once; the 2 hosts have 4"},
		{"no host has room for a member", 2, 3, 0, "cpu: 5", "task a: no host has enough: it needs cpu 5 (the largest host has 4)",
			"task a: no host has enough: it needs cpu 5 (the largest host has 4)", "task a: no host has enough: it needs cpu 5 (the largest host has 4)"},
		{"memory bounds it", 3, 2, 0, "cpu: 1, memory: 5GiB", "task a: its gang needs 3 places of cpu 1, memory 5 GiB at once on one host; the largest has 1", "",
			"task a: its gang needs 3 places of cpu 1, memory 5 GiB at once; the 2 hosts have 2"},
		{"so does what is counted", 2, 2, 0, "card: 1", "task a: its gang needs 2 places of cpu 1, card 1 at once on one host; the largest has 1", "", ""},
		{"older agents are passed by", 3, 4, 2, "cpu: 2", "task a: its gang needs 3 places of cpu 2 at once on one host; the largest has 2", "", ""},
		{"those that are left do not suffice", 3, 3, 2, "cpu: 2", "task a: its gang needs 3 places of cpu 2 at once on one host; the largest has 2", "",
			"task a: its gang needs 3 places of cpu 2 at once; the 3 hosts have 2; those with agents of an older version share none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, hosts := gangOf(t, tt.size, tt.resources), four(tt.hosts, tt.older)
			for what, got := range map[string][2]string{
				"one host":   {Unfit(g, hosts, false), tt.alone},
				"several":    {Unfit(g, hosts, true), tt.spread},
				"these ones": {Homeless(g, hosts), tt.waiting},
			} {
				if got[0] != got[1] {
					t.Errorf("of %s it says %q, want %q", what, got[0], got[1])
				}
			}
		})
	}
}

// Hosts are found for a gang if and only if they have room for it, and its plan uses
// none that has room for no member.
func TestGangsHaveRoom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size, need := rapid.IntRange(1, 6).Draw(rt, "size"), rapid.IntRange(1, 4).Draw(rt, "cpu")
		g := gangOf(t, size, fmt.Sprintf("cpu: %d", need))
		var hosts []Host
		room := 0
		for i := range rapid.IntRange(1, 4).Draw(rt, "hosts") {
			h := Host{Name: fmt.Sprintf("h%d", i), CPU: rapid.Int64Range(1, 8).Draw(rt, "cores") * 1000, Alone: rapid.Bool().Draw(rt, "alone")}
			n := min(size, int(h.CPU)/1000/need)
			if h.Alone && n < size {
				n = 0
			}
			if got := h.Room(g, 0); got != n {
				rt.Fatalf("a host of %d has room for %d members, want %d", h.CPU, got, n)
			}
			room += n
			hosts = append(hosts, h)
		}
		if waits := Homeless(g, hosts); (waits == "") != (room >= size) {
			rt.Fatalf("hosts with room for %d of %d: %q", room, size, waits)
		}
		p, err := Spread(g, profiles.Snapshot{}, Cluster{Hosts: hosts, Bandwidth: 1e9})
		if err != nil {
			rt.Fatal(err)
		}
		for i, h := range p.Homes {
			if h >= 0 && hosts[h].Room(g, dag.TaskIndex(i)) == 0 {
				rt.Fatalf("member %d is planned for a host that has no room", i)
			}
		}
	})
}
