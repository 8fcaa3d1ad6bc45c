package controller

import (
	"maps"
	"slices"
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// Agents and tasks are counted by how they stand.
func TestCensus(t *testing.T) {
	net := comms.NewInproc()
	r := startController(t, t.TempDir(), net)
	c := dialClient(t, net)
	t.Cleanup(c.close)
	for _, name := range []string{"a1", "a2"} {
		t.Cleanup(dialAgent(t, net, &fakeAgent{name: name}).close)
		for ready := false; !ready; {
			ready = slices.ContainsFunc(rows[comms.AgentRow](c, comms.Query{Kind: comms.QueryAgents}, 10), func(a comms.AgentRow) bool { return a.Name == name && a.State == "ready" })
		}
	}
	held := parse(t, job1)
	c.say(&comms.Submit{Req: 1, Job: testJob(1), Graph: held.Encode(), Hold: true})
	expect(c, "accepted", func(a *comms.Accepted) bool { return a.Req == 1 })
	got := map[string]float64{}
	for _, m := range r.Measures() {
		if m.Name == "cascade_controller_agents" || m.Name == "cascade_controller_tasks" {
			got[m.Name[len("cascade_controller_"):]+" "+m.Label[1]] = m.Read()
		}
	}
	want := map[string]float64{"agents ready": 2, "agents connecting": 0, "agents leaving": 0, "agents left": 0, "agents away": 0,
		"tasks waiting": float64(held.NumTasks()), "tasks ready": 0, "tasks running": 0}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A rerun that a client requests is counted, by its reason, when it is durable.
func TestRestartsAreCounted(t *testing.T) {
	net := comms.NewInproc()
	r := startController(t, t.TempDir(), net)
	t.Cleanup(dialAgent(t, net, &fakeAgent{name: "a1"}).close)
	c := dialClient(t, net)
	t.Cleanup(c.close)
	submit(c, 1, parse(t, job1).Encode())
	final(c)
	c.say(&comms.Control{Req: 2, Job: testJob(1), Action: comms.SteerRerun, Tasks: []string{"b"}})
	expect(c, "answer", func(r *comms.Reply) bool { return r.Req == 2 })
	c.say(&comms.Watch{Req: 3, Job: testJob(1), Every: -1})
	final(c)
	want := map[string]float64{"cascade_controller_tasks_restarted_total requested": 1, "cascade_controller_tasks_restarted_total lost": 0,
		"cascade_controller_tasks_reassigned_total ": 0}
	for _, m := range r.Measures() {
		key := m.Name + " " + m.Label[1]
		if n, ok := want[key]; ok && m.Read() != n {
			t.Errorf("%s is %v, want %v", key, m.Read(), n)
		}
		delete(want, key)
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
}
