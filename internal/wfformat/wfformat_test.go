package wfformat

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

var update = flag.Bool("update", false, "write the golden files")

// late is a recording of version 1.5: b and c read what a writes, c waits for b
// without a file, and "region.hdr" is there from the start.
const late = `{"name": "late", "schemaVersion": "1.5", "workflow": {
 "specification": {
  "tasks": [
   {"name": "a", "id": "a.1:x", "parents": [], "children": ["b", "c"], "inputFiles": ["region.hdr"], "outputFiles": ["one", "two"]},
   {"name": "b", "id": "b", "parents": ["a.1:x"], "children": [], "inputFiles": ["two"], "outputFiles": ["three"]},
   {"name": "c", "id": "c", "parents": ["a.1:x", "b"], "children": [], "inputFiles": ["one", "region.hdr"]}],
  "files": [{"id": "region.hdr", "sizeInBytes": 7}, {"id": "one", "sizeInBytes": 1000}, {"id": "two", "sizeInBytes": 20}, {"id": "three", "sizeInBytes": 0}]},
 "execution": {"makespanInSeconds": 9, "executedAt": "12-19-20T", "tasks": [
   {"id": "c", "runtimeInSeconds": 3, "coreCount": 2, "avgCPU": 150, "memoryInBytes": 100000000},
   {"id": "a.1:x", "runtimeInSeconds": 1.25, "coreCount": null, "memoryInBytes": null, "machines": ["m"]},
   {"id": "b", "runtimeInSeconds": 0}]}}}`

// early is nearly the same in version 1.4, which names parents and has one list of tasks.
const early = `{"name": "early", "schemaVersion": "1.4", "workflow": {"makespanInSeconds": 9, "tasks": [
   {"name": "a_ID01", "id": "ID01", "parents": [], "runtimeInSeconds": 1.25, "files": [
     {"link": "input", "name": "region.hdr", "sizeInBytes": 7}, {"link": "output", "name": "one", "sizeInBytes": 1000},
     {"link": "output", "path": "/d/", "name": "two", "sizeInBytes": 20}]},
   {"name": "b", "id": "ID02", "parents": ["a_ID01"], "runtimeInSeconds": 0, "files": [
     {"link": "input", "path": "/d/", "name": "two", "sizeInBytes": 20}, {"link": "output", "name": "three", "sizeInBytes": 0}]},
   {"name": "c", "parents": ["ID01", "b"], "runtimeInSeconds": 3, "cores": 2, "files": [
     {"link": "input", "name": "one", "sizeInBytes": 1000}]}]}}`

func read(t testing.TB, src string, opt Options) *Import {
	t.Helper()
	im, err := Read("w.json", []byte(src), opt)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// The job and the profile of a small recording, whole.
func TestGolden(t *testing.T) {
	scaled := Options{TimeScale: 0.1, ByteScale: 0.5, MaxBytes: 300, Inputs: true}
	for _, c := range []struct {
		name, src string
		opt       Options
	}{{"late", late, Defaults()}, {"late-scaled", late, scaled}, {"early", early, Defaults()}} {
		t.Run(c.name, func(t *testing.T) {
			im := read(t, c.src, c.opt)
			job, err := im.Graph.YAML()
			if err != nil {
				t.Fatal(err)
			}
			profile, err := im.Profile.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Appendf(nil, "%s---\n%s---\n%d tasks, %d edges, %d external\n%s", job, profile, im.Tasks, im.Edges, im.External, strings.Join(im.Notes, "\n"))
			file := filepath.Join("testdata", c.name+".txt")
			if *update {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// What a recording may not say, and where the error says it does.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"text", late, `{"name": `, `w.json:1:9: unexpected end of JSON input`},
		{"type", `"sizeInBytes": 20`, `"sizeInBytes": "20"`, `w.json:7:121: workflow.specification.files.sizeInBytes cannot be a string`},
		{"type of the file", late, `[1]`, `w.json:1:1: the file cannot be an array`},
		{"object", `"sizeInBytes": 20`, `"sizeInBytes": {}`, `specification.files.sizeInBytes cannot be an object`},
		{"no format", late, `{"a": 1}`, `w.json: schemaVersion is missing: this is no WfFormat file`},
		{"old", `"schemaVersion": "1.5"`, `"schemaVersion": "1.2"`, `schemaVersion 1.2 is not read; bring the file to 1.5`},
		{"new", `"schemaVersion": "1.5"`, `"schemaVersion": "2.0"`, `schemaVersion "2.0" is not read; 1.4, 1.5 and 1.6 are`},
		{"other layout", `"schemaVersion": "1.5"`, `"schemaVersion": "1.4"`, `w.json: the workflow has no task`},
		{"no workflow", late, `{"schemaVersion": "1.5"}`, `workflow is missing`},
		{"never ran", `"execution"`, `"plan"`, `workflow.execution is missing: without durations`},
		{"dangling parent", `"parents": ["a.1:x", "b"]`, `"parents": ["a.1:x", "q"]`, `workflow.specification.tasks[2].parents[1]: there is no task "q"`},
		{"dangling child", `"children": ["b", "c"]`, `"children": ["b", "q"]`, `workflow.specification.tasks[0].children[1]: there is no task "q"`},
		{"same id", `"id": "b", "parents"`, `"id": "c", "parents"`, `tasks[2]: id "c" is taken by workflow.specification.tasks[1]`},
		{"no id", `"id": "b", "parents"`, `"parents"`, `tasks[1]: id is missing`},
		{"cycle", `"id": "a.1:x", "parents": []`, `"id": "a.1:x", "parents": ["c"]`, `waits for itself: a.1:x -> `},
		{"own parent", `"parents": ["a.1:x", "b"]`, `"parents": ["c"]`, `waits for itself: c -> c`},
		{"negative size", `"sizeInBytes": 20`, `"sizeInBytes": -20`, `files[2]: sizeInBytes is -20; it cannot be negative`},
		{"huge size", `"sizeInBytes": 20`, `"sizeInBytes": 1e300`, `files[2]: sizeInBytes is 1e+300; more than`},
		{"negative time", `"runtimeInSeconds": 1.25`, `"runtimeInSeconds": -1`, `workflow.execution.tasks[1]: runtimeInSeconds is -1; it cannot be negative (task "a.1:x")`},
		{"no time", `"runtimeInSeconds": 1.25`, `"runtimeInSeconds": null`, `workflow.execution.tasks[1]: runtimeInSeconds of task "a.1:x" is missing`},
		{"not executed", `{"id": "b", "runtimeInSeconds": 0}`, `{"id": "c", "runtimeInSeconds": 0}`, `tasks[2]: the execution of "c" is there twice`},
		{"unknown executed", `{"id": "b", "runtimeInSeconds": 0}`, `{"id": "q", "runtimeInSeconds": 0}`, `tasks[2]: no task of workflow.specification has the id "q"`},
		{"execution missing", `,
   {"id": "b", "runtimeInSeconds": 0}`, ``, `workflow.specification.tasks[1]: workflow.execution.tasks has no entry for "b"`},
	} {
		src := strings.Replace(late, c.old, c.new, 1)
		if src == late {
			t.Fatalf("%s: nothing was replaced", c.name)
		}
		_, err := Read("w.json", []byte(src), Defaults())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "w.json") {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := Read("w.json", []byte(late), Options{TimeScale: -1}); err == nil || !strings.Contains(err.Error(), "time scale is -1") {
		t.Errorf("a negative scale: %v", err)
	}
}

// What a recording leaves open is decided and told.
func TestNotes(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"file without size", `, "sizeInBytes": 20`, ``, `file "two" has no size; it counts as empty`},
		{"file that is not listed", `, {"id": "three", "sizeInBytes": 0}`, ``, `file "three" is not in the list of files`},
		{"file with two sizes", `{"id": "three", "sizeInBytes": 0}`, `{"id": "one", "sizeInBytes": 5}, {"id": "three", "sizeInBytes": 0}`, `file "one" has 5 bytes here and 1000 elsewhere; the larger counts`},
		{"file from later", `["region.hdr"], "outputFiles"`, `["three"], "outputFiles"`, `reads "three", which only tasks write that may come later`},
	} {
		im := read(t, strings.Replace(late, c.old, c.new, 1), Defaults())
		if got := strings.Join(im.Notes, "\n"); !strings.Contains(got, c.want) {
			t.Errorf("%s: the notes are %q, want %s", c.name, got, c.want)
		}
	}
}

// A file with several writers comes from a parent where one writes it, else from
// the last before; one that a task reads and writes comes from before.
func TestWriters(t *testing.T) {
	const src = `{"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"files": [{"id": "f", "sizeInBytes": 1}], "tasks": [
 {"id": "a", "outputFiles": ["f"]}, {"id": "b", "outputFiles": ["f"]},
 {"id": "of-parent", "parents": ["a"], "inputFiles": ["f"]},
 {"id": "changes", "parents": ["b"], "inputFiles": ["f"], "outputFiles": ["f"]},
 {"id": "of-last", "parents": ["of-parent", "changes"], "inputFiles": ["f", "f"]},
 {"id": "of-grandparent", "parents": ["of-last"], "inputFiles": ["f"]}]},
 "execution": {"tasks": [{"id": "a", "runtimeInSeconds": 1}, {"id": "b", "runtimeInSeconds": 1}, {"id": "of-parent", "runtimeInSeconds": 1},
 {"id": "changes", "runtimeInSeconds": 1}, {"id": "of-last", "runtimeInSeconds": 1}, {"id": "of-grandparent", "runtimeInSeconds": 1}]}}}`
	g := read(t, src, Defaults()).Graph
	for name, want := range map[string]string{"of-parent": "[a.f1]", "changes": "[b.f1]", "of-last": "[changes.f1 of-parent.done]", "of-grandparent": "[changes.f1 of-last.done]"} {
		i, ok := g.Lookup(name)
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		var from []string
		for _, f := range g.Group(i).Inputs[0].From {
			from = append(from, f.Text)
		}
		if got := fmt.Sprint(from); got != want {
			t.Errorf("%s takes %s, want %s", name, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	n := newNamer()
	for _, c := range [][2]string{{"a.b", "a_b"}, {"a:b", "a_b_2"}, {"a_b_2", "a_b_2_2"}, {"7z", "_7z"}, {"-x", "_-x"}, {"", "_"}, {"größe", "gr__e"},
		{strings.Repeat("x", 300), strings.Repeat("x", maxName)}} {
		if got := n.name(c[0]); got != c[1] {
			t.Errorf("%q becomes %q, want %q", c[0], got, c[1])
		}
	}
}

// wfInstances is what their README says of the recordings: tasks, pairs of a task
// and a child, seconds of all tasks, and the critical path.
var wfInstances = map[string][4]float64{
	"1000genome-chameleon-10ch-100k-001":      {260, 380, 16032, 293.6},
	"airrflow-dirt02-001":                     {212, 327, 3330, 438.1},
	"blast-chameleon-small-001":               {43, 120, 383, 10.4},
	"bwa-chameleon-small-001":                 {104, 400, 380, 91.4},
	"cycles-chameleon-1l-1c-9p-001":           {67, 97, 863, 163.4},
	"epigenomics-chameleon-ilmn-2seq-50k-001": {515, 639, 8791, 164.4},
	"montage-chameleon-2mass-005d-001":        {58, 114, 222, 21.4},
	"montage-chameleon-2mass-05d-001":         {1738, 4698, 8695, 102.4},
	"rnaseq-dirt02-001":                       {197, 451, 2580, 759.5},
	"seismology-chameleon-1000p-001":          {1001, 1000, 538, 5.4},
	"soykb-chameleon-10fastq-10ch-001":        {96, 194, 11815, 2933.3},
	"srasearch-chameleon-10a-001":             {22, 30, 6997, 1005.9},
}

// Real recordings are imported, the job reads back, and a plan of it has the
// work and the critical path that others found.
func TestWfInstances(t *testing.T) {
	dir := os.Getenv("CASCADE_TEST_DATA")
	if dir == "" {
		t.Skip("CASCADE_TEST_DATA is not set to the folder of wfinstances")
	}
	for name, want := range wfInstances {
		t.Run(name, func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join(dir, "wfinstances", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			im := read(t, string(src), Defaults())
			if im.Tasks != int(want[0]) || im.Edges != int(want[1]) || len(im.Notes) > 0 {
				t.Errorf("%d tasks, %d edges, want %g, %g; notes %v", im.Tasks, im.Edges, want[0], want[1], im.Notes)
			}
			g, f := again(t, im)
			c := planner.Cluster{Hosts: []planner.Host{{Name: "a", CPU: 16000}, {Name: "b", CPU: 16000}}, Latency: planner.DefaultLatency}
			p, err := planner.Make(g, f.Snapshot(), c)
			if err != nil {
				t.Fatal(err)
			}
			if near(p.CriticalPath, want[3], 0.1) && near(p.Work, want[2], 1) && p.Guessed == 0 && p.Makespan >= p.LowerBound {
				return
			}
			t.Errorf("critical path %g, work %g, want %g, %g; %d guessed, makespan %g of at least %g", p.CriticalPath, p.Work, want[3], want[2], p.Guessed, p.Makespan, p.LowerBound)
		})
	}
}

func near(a, b, most float64) bool { return a-b <= most && b-a <= most }

// again writes job and profile and reads them.
func again(t testing.TB, im *Import) (*dag.Graph, *profiles.File) {
	t.Helper()
	job, err := im.Graph.YAML()
	if err != nil {
		t.Fatal(err)
	}
	g, err := dag.ParseYAML("job.yaml", job, dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := im.Profile.Encode()
	if err != nil {
		t.Fatal(err)
	}
	f, err := profiles.ParseFile("job.profile.json", b)
	if err != nil {
		t.Fatal(err)
	}
	if g.Name != im.Graph.Name || g.NumTasks() != im.Graph.NumTasks() || len(f.Profiles) != len(g.Groups) {
		t.Fatalf("job %q of %d tasks reads back as %q of %d, with %d profiles", im.Graph.Name, im.Graph.NumTasks(), g.Name, g.NumTasks(), len(f.Profiles))
	}
	return g, f
}

// Whatever a file says: an error with its name, or a job and a profile that can be
// read back, in which each task has its own profile.
func FuzzRead(f *testing.F) {
	f.Add([]byte(late))
	f.Add([]byte(early))
	f.Add([]byte(`{"name": "${x}\u0000\u0085", "schemaVersion": "1.4", "workflow": {"tasks": [{"name": "$", "runtimeInSeconds": 1e-9}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := Read("w.json", b, Defaults())
		if err != nil {
			if !strings.HasPrefix(err.Error(), "w.json") {
				t.Errorf("the error names no file: %v", err)
			}
			return
		}
		g, p := again(t, im)
		for i := range g.Groups {
			if got := p.Snapshot().Predict(planner.SignatureOf(g, i)); got.Basis != profiles.BasisTask {
				t.Fatalf("task %q of job %q has no profile", g.Groups[i].Name, g.Name)
			}
		}
	})
}
