package wfformat

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A job's rows become a file that Read takes, and nothing gets lost on the way: the
// graph that ran, what each task took, what each wrote, and where.
func TestRecordIsRead(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: j
tasks:
  a: {command: "true", out: [x], stdout: x, resources: {cpu: 2}}
  gen: {run: f, in: {x: a}, generates: {part: "*"}}
  each: {for: {p: "gen.part[*]"}, command: "cat ${in.x}", in: {x: "gen.part[${p}]"}, out: [y], stdout: y}
  all: {run: join, in: {y: "each[*].y"}, out: [text, few]}
  fixed: {run: f, in: {x: a}, generates: {part: 2}}
  b: {for: {i: "0..1"}, command: "cat ${in.x}", in: {x: "fixed.part[${i}]"}, out: [y], stdout: y}
  last: {run: join, in: {y: "b[*].y"}, out: [text]}
  failed: {command: "false"}
keep_going: true
outputs: [all.text]
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var rows []comms.TaskRow
	for i, name := range []string{"a", "gen", "each[0]", "each[1]", "all", "fixed", "b[0]", "b[1]", "last", "failed"} {
		task, ok := g.Lookup(name)
		if !ok {
			t.Fatalf("no task %s", name)
		}
		rows = append(rows, comms.TaskRow{Name: name, Index: uint32(task), Group: g.Group(task).Name, State: "done", Agent: fmt.Sprint("h", i%2),
			Started: fmt.Sprintf("2026-11-22T10:00:%02d.5Z", i), Seconds: float64(i+1) / 4, CPU: 0.25, BytesOut: 1000, PeakRSS: 32 << 20})
	}
	rows[9].State = "failed"
	kept := []comms.DatasetRow{{Name: "all.text", Size: 400}}
	r, left, err := Record(g, rows, nil, kept, []comms.AgentRow{{Name: "h0", CPU: 4}, {Name: "h1", CPU: 8}, {Name: "idle", CPU: 64}})
	if err != nil || left != 1 {
		t.Fatalf("%d tasks are left out, %v", left, err)
	}
	taken := slices.Clone(rows)
	taken[2].Started = ""
	if _, _, err := Record(g, taken, nil, kept, nil); err == nil || !strings.Contains(err.Error(), "task each[0] of job j did not run in it") {
		t.Errorf("of a job that took a result of another: %v", err)
	}
	r.System = "test"
	var file bytes.Buffer
	if err := Write(&file, r); err != nil {
		t.Fatal(err)
	}
	im := read(t, file.String(), Defaults())
	if im.Makespan != 10.25 || fmt.Sprint(im.Machines) != "[{h0 4} {h1 8}]" || len(im.Notes) > 0 {
		t.Errorf("makespan %g, machines %v, notes %q", im.Makespan, im.Machines, im.Notes)
	}
	profile, err := im.Profile.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Appendf(nil, "%s---\n%s---\n%s", file.Bytes(), im.Graph.Text(), profile)
	golden := filepath.Join("testdata", "recorded.txt")
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNothingToRecord(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte("job: j\ntasks: {a: {command: \"true\"}}\n"), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Record(g, []comms.TaskRow{{Name: "a", State: "failed"}}, nil, nil, nil); err == nil {
		t.Error("a job of which nothing ended well is recorded")
	}
}
