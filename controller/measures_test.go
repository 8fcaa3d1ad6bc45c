package controller

import (
	"testing"

	"github.com/cascade-run/cascade/comms"
)

// What a client has run again is counted when that is durable.
func TestTasksAgainAreCounted(t *testing.T) {
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
	want := map[string]float64{"cascade_controller_tasks_again_total": 1, "cascade_controller_tasks_moved_total": 0}
	for _, m := range r.Measures() {
		if n, ok := want[m.Name]; ok && m.Read() != n {
			t.Errorf("%s is %v, want %v", m.Name, m.Read(), n)
		}
		delete(want, m.Name)
	}
	if len(want) > 0 {
		t.Errorf("not shown: %v", want)
	}
}
