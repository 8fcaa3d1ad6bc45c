package wfformat

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
)

// Called tasks become tasks of a recording: a caller is cut where none of its calls is under way, and
// what was called when another had ended waits for that.
func TestRecordCalls(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: j
tasks:
  first: {command: "true", out: [x], stdout: x}
  fan: {run: Fan, in: {x: first}, out: [y]}
  after: {run: f, in: {y: fan}, out: [z]}
outputs: [after]
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stamp := func(s float64) string {
		return time.Unix(1_800_000_000, int64(s*1e9)).UTC().Format(time.RFC3339Nano)
	}
	task := func(name string, start, seconds float64) comms.TaskRow {
		i, _ := g.Lookup(name)
		return comms.TaskRow{Name: name, Index: uint32(i), Group: name, State: "done", Agent: "h", Started: stamp(start), Seconds: seconds, BytesOut: 100}
	}
	call := func(parent string, n uint64, function string, made, start, end float64, reads ...comms.CallReads) comms.CallRow {
		return comms.CallRow{Name: fmt.Sprintf("%s/%d", parent, n), Task: "fan", Parent: parent, Number: n, Function: function, State: "done", Agent: "h",
			Called: stamp(made), Started: stamp(start), Ended: stamp(end), Seconds: end - start, BytesOut: 10, Reads: reads}
	}
	of := func(n uint64) comms.CallReads { return comms.CallReads{Number: n} }
	calls := []comms.CallRow{
		call("fan", 0, "a", 2, 2, 3),                                                                   // while it runs fan makes 1
		call("fan/1", 0, "b", 3.5, 3.5, 4),                                                             // of a called task
		call("fan", 2, "c", 3.5, 3.5, 4.5, of(0)),                                                      // when 0 had ended, and reads it
		call("fan/1", 1, "b", 4.5, 4.5, 5, comms.CallReads{OfParent: true}),                            // reads what fan/1 reads
		call("fan", 1, "caller", 2, 3, 5.5, of(0)),                                                     // has a part before, between and behind its calls
		call("fan", 3, "d", 7, 7, 8),                                                                   // when none was under way
		{Name: "fan/4", Parent: "fan", Number: 4, State: "failed", Started: stamp(8), Ended: stamp(9)}, // is left out
	}
	r, left, err := Record(g, []comms.TaskRow{task("first", 0, 1), task("fan", 1, 8), task("after", 9, 1)}, calls, nil, []comms.AgentRow{{Name: "h", CPU: 4}})
	if err != nil || left != 1 {
		t.Fatalf("%d are left out, %v", left, err)
	}
	var got strings.Builder
	for _, ran := range r.Tasks {
		fmt.Fprintf(&got, "%s %s %gs after %v reads %v writes %v\n", ran.ID, ran.Name, ran.Seconds, ran.Parents, ran.Inputs, ran.Outputs)
	}
	const want = `first first 1s after [] reads [] writes [first.x]
fan.part1 fan 1s after [first] reads [first.x] writes []
after after 1s after [fan] reads [fan.y] writes [after.z]
fan/0 a 1s after [fan.part1] reads [] writes [fan/0.out]
fan/1.part1 caller 0.5s after [fan/0 fan.part1] reads [fan/0.out] writes []
fan/2 c 1s after [fan/0 fan.part1] reads [fan/0.out] writes [fan/2.out]
fan.part2 fan 1.5s after [fan.part1 fan/0 fan/1 fan/2] reads [] writes []
fan/3 d 1s after [fan.part2] reads [] writes [fan/3.out]
fan fan 1s after [fan.part2 fan/3] reads [] writes [fan.y]
fan/1/0 b 0.5s after [fan/1.part1] reads [] writes [fan/1/0.out]
fan/1.part2 caller 0.5s after [fan/1.part1 fan/1/0] reads [] writes []
fan/1/1 b 0.5s after [fan/0 fan/1.part2] reads [fan/0.out] writes [fan/1/1.out]
fan/1 caller 0.5s after [fan/1.part2 fan/1/1] reads [] writes [fan/1.out]
`
	if got.String() != want {
		t.Errorf("recorded\n%s\nwant\n%s", got.String(), want)
	}
	var file bytes.Buffer
	if err := Write(&file, r); err != nil {
		t.Fatal(err)
	}
	im := read(t, file.String(), Defaults())
	c := planner.Cluster{Hosts: []planner.Host{{Name: "h", CPU: 4000, Memory: 1 << 40}}}
	p, err := planner.Best(im.Graph, im.Profile.Snapshot(), c, planner.Effort{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Makespan < 9.9 || p.Makespan > 10.1 {
		t.Errorf("where it ran it would take %gs, and took %gs", p.Makespan, im.Makespan)
	}
}
