package controller

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
)

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
