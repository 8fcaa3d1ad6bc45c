package controller

import (
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/planner"
)

// A plan that is old is made anew for one job; those that come meanwhile go by the
// old one, unless it is very old. The bytes of a graph are one memory.
func TestPlansAnew(t *testing.T) {
	g := parse(t, job1)
	var gs graphs
	hosts := planner.Cluster{Hosts: []planner.Host{{Name: "a", CPU: 1000}}}
	others := planner.Cluster{Hosts: []planner.Host{{Name: "b", CPU: 1000}}}
	began := time.Now()
	keep := func(at time.Duration) {
		gs.keep("h", &core.Prepared{Graph: g, Bytes: g.Encode(), Plan: &planner.Plan{}}, hosts, began.Add(at))
	}
	var first []byte
	ask := func(at time.Duration, on planner.Cluster, want bool) {
		t.Helper()
		ev, ok := gs.prepared(&core.Prepare{Submit: &comms.Submit{GraphHash: "h"}, Cluster: on}, began.Add(at), nil)
		if ok != want {
			t.Errorf("after %v: answered at once: %v, want %v", at, ok, want)
		}
		if first == nil {
			first = ev.Bytes
		}
		if ok && &ev.Bytes[0] != &first[0] {
			t.Errorf("after %v: the bytes are others", at)
		}
	}
	keep(0)
	ask(0, hosts, true)
	ask(planAge, hosts, true)
	ask(planAge, others, false)
	ask(planAge+1, hosts, false) // sent to plan
	ask(planAge+2, hosts, true)
	ask(2*planAge+3, hosts, false) // that plan did not come
	keep(2*planAge + 4)
	ask(2*planAge+5, hosts, true)
	ask(2*planAge+4+mostAge+1, hosts, false)
	ask(2*planAge+4+mostAge+2, hosts, false)
}

// A build voids the plans of graphs with that environment, and no others.
func TestBuildsOfOthers(t *testing.T) {
	plain := parse(t, "job: d\ntasks:\n  a: {run: F, out: [x]}\n")
	own := parse(t, "job: d\nenvironments: {e: {go: ./e}}\ntasks:\n  a: {run: 'e:F', out: [x]}\n")
	e := planner.EnvironmentID(&own.Environments[0])
	on := func(seconds map[uint64]float64, built ...uint64) planner.Cluster {
		return planner.Cluster{Hosts: []planner.Host{{Name: "a", CPU: 1000, Built: built}, {Name: "b", CPU: 1000}}, Builds: seconds}
	}
	before := on(map[uint64]float64{e: 5}, e)
	for _, c := range []struct {
		name       string
		after      planner.Cluster
		plain, own bool // the plan stays
	}{
		{"nothing", on(map[uint64]float64{e: 5}, e), true, true},
		{"another environment", on(map[uint64]float64{e: 5, e + 1: 9}, e, e+1), true, true},
		{"it took longer", on(map[uint64]float64{e: 6}, e), true, false},
		{"its time is forgotten", on(nil, e), true, false},
		{"it is gone", on(map[uint64]float64{e: 5}), true, false},
	} {
		if got := sameCluster(environmentsOf(plain), &before, &c.after); got != c.plain {
			t.Errorf("%s: the plan without environments stays: %v, want %v", c.name, got, c.plain)
		}
		if got := sameCluster(environmentsOf(own), &before, &c.after); got != c.own {
			t.Errorf("%s: the plan with it stays: %v, want %v", c.name, got, c.own)
		}
	}
}
