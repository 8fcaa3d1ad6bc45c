package chaos

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
)

// The decision may have been made when the status is asked for.
var restarts = regexp.MustCompile(`\(connection closed\); its 2 tasks restart(ed)? at once`)

// An agent that is killed is lost at once, without a grace: one who waits for the job is told so
// once, and status says it as long as the lost tasks have not ended again.
func TestKilledAgentIsTold(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller("--grace", "1h")
	h.Agent()
	victim := h.SecondAgent()
	c := h.ReadyClient(2)
	gate, open := held(h)
	h.Write("job.yaml", `job: told
params: {gate: ""}
tasks:
  m: {for: {i: "0..3"}, command: ": < ${params.gate}; echo ${i} > ${out.y}", out: [y]}
`)
	wait := h.Command("submit", "job.yaml", "--wait", "--to", h.Address(), "--param", gate)
	wait.Await("4 tasks")
	jobs, err := cascade.Rows[comms.JobRow](t.Context(), c, comms.QueryJobs, comms.JobID{}, "")
	if err != nil || len(jobs) != 1 {
		t.Fatalf("jobs %v, %v", jobs, err)
	}
	id, err := comms.ParseJobID(jobs[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Job(id).Watch(t.Context(), 0, func(p *cascade.Progress) bool { return p.Groups[0].Running < 4 }) // of two cores each agent has
	if err != nil {
		t.Fatal(err)
	}
	victim.Kill()
	wait.Await("agent a2 lost at ")
	status := h.Command("status", "last", "--to", h.Address())
	if status.Wait() != 0 || !strings.Contains(status.Output(), "agent a2 lost at ") || !restarts.MatchString(status.Output()) {
		t.Errorf("status:\n%s", status.Output())
	}
	open()
	if code := wait.Wait(); code != 0 || strings.Count(wait.Output(), "agent a2 lost at ") != 1 {
		t.Errorf("ended with %d:\n%s", code, wait.Output())
	}
	after := h.Command("status", "last", "--to", h.Address())
	if after.Wait() != 0 || strings.Contains(after.Output(), "lost") {
		t.Errorf("status after the end:\n%s", after.Output())
	}
}
