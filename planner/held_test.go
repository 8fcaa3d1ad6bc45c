package planner

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/profiles"
)

// Tasks of which most needed more memory than their job says begin with what they had
// then, where a host has as much; they run on such a host, and no more of them at once
// than it has memory for.
func TestHeldMemory(t *testing.T) {
	const gib = 1 << 30
	g := parse(t, `
job: j
tasks:
  plain: {run: F, for: {i: "0..3"}, out: [x], resources: {memory: 1GiB}}
  bounded: {run: F, out: [x], resources: {memory: 1GiB, memory_max: 2GiB}}
  unsaid: {run: F, out: [x]}
  enough: {run: F, out: [x], resources: {memory: 4GiB}}
  members: {run: F, gang: 2, out: [x], resources: {memory: 1GiB}}
  source: {run: F, generates: {x: "*"}, resources: {memory: 1GiB}}
  follows: {run: F, for: {k: "source.x[*]"}, in: {x: "source.x[${k}]"}, out: [y], resources: {memory: 1GiB}}
`)
	b := profiles.NewBook()
	for i := range g.Groups {
		b.Record(SignatureOf(g, i), profiles.Sample{Seconds: 1})
		b.Hold(SignatureOf(g, i), 3*gib)
	}
	known := b.Snapshot()
	host := func(name string, memory int64) Host { return Host{Name: name, CPU: 8000, Memory: memory} }
	for _, c := range []struct {
		hosts          []Host
		plain, bounded int64
		members        int64  // each of two
		on             string // where plain runs
		span           float64
	}{
		{[]Host{host("a", 8*gib)}, 3 * gib, 2 * gib, 3 * gib, "a", 0},
		{[]Host{host("a", 0)}, 3 * gib, 2 * gib, 3 * gib, "a", 0},
		{[]Host{host("a", 4*gib)}, 3 * gib, 2 * gib, 2 * gib, "a", 4},
		{[]Host{host("a", 4*gib), host("b", 5*gib/2)}, 3 * gib, 2 * gib, 5 * gib / 2, "a", 4},
		{[]Host{host("a", 4*gib), host("b", 1*gib)}, 3 * gib, 2 * gib, 2 * gib, "a", 4},
		{[]Host{host("a", 5*gib/2), host("b", 5*gib/2)}, 0, 0, 5 * gib / 2, "", 0}, // enough has no host: it is placed nowhere
	} {
		p, err := Best(g, known, Cluster{Hosts: c.hosts}, Effort{Evaluations: 20})
		if err != nil {
			t.Fatal(err)
		}
		if c.plain == 0 {
			c.plain, c.bounded = 5*gib/2, 2*gib
		}
		if want := []int64{c.plain, c.bounded, 0, 0, c.members, 0, 0}; !reflect.DeepEqual(p.Held, want) {
			t.Errorf("%v: %v, want %v", c.hosts, p.Held, want)
		}
		for i := range dag.TaskIndex(4) {
			if c.on != "" && p.Hosts[p.Tasks[i].Host] != c.on {
				t.Errorf("%v: %s is on %s", c.hosts, g.TaskName(i), p.Hosts[p.Tasks[i].Host])
			}
			if why := p.Reason(g, i); !strings.Contains(why, "of memory: most needed more than the 1 GiB that its job says") {
				t.Errorf("%v: %s", c.hosts, why)
			}
		}
		for m := range dag.TaskIndex(2) { // they run where the gang has room
			if at := p.Tasks[6+m].Host; c.on != "" && c.hosts[at].Memory > 0 && c.hosts[at].Memory < c.members {
				t.Errorf("%v: member %d is on %s", c.hosts, m, p.Hosts[at])
			}
		}
		if p.Makespan < c.span {
			t.Errorf("%v: four tasks of 3 GiB end after %g s on a host of 4", c.hosts, p.Makespan)
		}
	}
	p, err := Make(g, profiles.Snapshot{}, Cluster{Hosts: []Host{host("a", 8*gib)}})
	if err != nil || p.Held != nil {
		t.Errorf("of unknown tasks: %v, %v", p.Held, err)
	}
}
