package cascade_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/cascadetest"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

const resumable = `
job: resumable
params: {n: 3, tag: x, retain: true}
retain: "${params.retain}"
tasks:
  fields: {run: t_stream, with: {n: "${params.n}"}, generates: {field: "*"}}
  sizes:
    for: {f: "fields.field[*]"}
    command: "wc -c < ${in.v}; echo ${params.tag}"
    in: {v: "fields.field[${f}]"}
    out: [n]
    stdout: n
  all: {command: [cat, "${in.n[*]}"], in: {n: "sizes[*].n"}, out: [text], stdout: text}
  last: {command: "cat go.txt ${in.text}", in: {text: all}, out: [text], stdout: text}
outputs: [last.text]
`

// resumed runs the job and tells which tasks ran, and why they did.
func resumed(t *testing.T, c *cascade.Cluster, dir string, params []string, opts ...cascade.SubmitOption) (j *cascade.Job, ran, why string) {
	t.Helper()
	g, err := dag.ParseYAML("resumable.yaml", []byte(resumable), dag.Override{Flags: params}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return resumeOf(t, c, g, dir, opts...)
}

// resumeOf runs a graph and tells which tasks ran, and why they did.
func resumeOf(t *testing.T, c *cascade.Cluster, g *dag.Graph, dir string, opts ...cascade.SubmitOption) (j *cascade.Job, ran, why string) {
	t.Helper()
	j = cascadetest.SubmitGraph(t, c, g, append(opts, cascade.WithDir(dir))...)
	if _, err := j.Wait(t.Context()); err != nil {
		if t.Log(err); !errors.As(err, new(*cascade.JobError)) {
			t.FailNow()
		}
	}
	tasks, err := cascade.Rows[comms.TaskRow](t.Context(), c.Client, comms.QueryTasks, j.ID(), "")
	if err != nil {
		t.Fatal(err)
	}
	var names, reasons []string
	for _, row := range tasks {
		if row.Started != "" {
			names = append(names, row.Name)
		}
	}
	slices.Sort(names)
	story, err := cascade.Rows[comms.StoryRow](t.Context(), c.Client, comms.QueryStory, j.ID(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range story {
		if row.What == "runs again" {
			reasons = append(reasons, row.Task+": "+row.Cause)
		}
	}
	return j, strings.Join(names, " "), strings.Join(reasons, "; ")
}

func TestResume(t *testing.T) {
	c := cascadetest.Start(t)
	dir := t.TempDir()
	const everything = "all fields last sizes[0] sizes[1] sizes[2]"
	failed, ran, _ := resumed(t, c, dir, nil)
	if ran != everything {
		t.Fatalf("the first job ran %s", ran)
	}
	if err := os.WriteFile(filepath.Join(dir, "go.txt"), []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain, _, _ := resumed(t, c, dir, []string{"retain=false"})
	poor, _, _ := resumed(t, c, dir, []string{"retain=false"}, cascade.WithResume(failed.ID()))
	for _, tt := range []struct {
		name   string
		params []string
		from   *cascade.Job
		again  []string
		ran    string
		why    string
	}{
		{name: "a failed job goes on", from: failed, ran: "last", why: "last: file go.txt was not there"},
		{name: "nothing has changed"},
		{name: "tasks of elements", params: []string{"tag=y"}, ran: "all last sizes[0] sizes[1] sizes[2]",
			why: "all: it reads sizes[0], which runs again; last: it reads all, which runs again"},
		{name: "the generator", params: []string{"n=2"}, ran: "all fields last sizes[0] sizes[1]",
			why: "fields: parameter n was 3, is 2; all: it reads fields, which runs again; last: it reads all, which runs again"},
		{name: "asked for", again: []string{"all"}, ran: "all last", why: "all: asked for; last: it reads all, which runs again"},
		{name: "a job without retain", from: plain, ran: everything, why: "fields to last: the earlier job ran without retain: it did not note what its results rest on"},
		{name: "only outputs were kept", from: poor, ran: "", why: ""},
		{name: "what is not kept is made again", from: poor, again: []string{"last"}, ran: everything,
			why: "last: asked for; fields to all: its outputs are not kept any more and are needed; sizes[0] to sizes[2]: its outputs are not kept any more and are needed"},
	} {
		from := tt.from
		if from == nil {
			from, _, _ = resumed(t, c, dir, nil, cascade.WithResume(failed.ID()))
		}
		j, ran, why := resumed(t, c, dir, tt.params, cascade.WithResume(from.ID(), tt.again...))
		if ran != tt.ran || why != tt.why {
			t.Errorf("%s: ran %q because %q, want %q because %q", tt.name, ran, why, tt.ran, tt.why)
		}
		n, tag := 3, "x"
		for _, p := range tt.params {
			switch k, v, _ := strings.Cut(p, "="); k {
			case "n":
				n = 2
			case "tag":
				tag = v
			}
		}
		if got, want := textOf(t, j, "last.text"), "go\n"+strings.Repeat("80000\n"+tag+"\n", n); got != want {
			t.Errorf("%s: the result is %q, want %q", tt.name, got, want)
		}
	}
}

// textOf fetches a dataset.
func textOf(t *testing.T, j *cascade.Job, name string) string {
	t.Helper()
	located, err := j.Locate(t.Context(), name)
	if err != nil {
		t.Error(err)
		return ""
	}
	var b strings.Builder
	if err := j.Fetch(t.Context(), located[0], &b); err != nil {
		t.Error(err)
	}
	return b.String()
}

// What a job took over is its own: it outlives the job from which it came.
func TestResumedJobOwnsItsResults(t *testing.T) {
	c := cascadetest.Start(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, _, _ := resumed(t, c, dir, nil)
	second, ran, _ := resumed(t, c, dir, nil, cascade.WithResume(first.ID()))
	if ran != "" {
		t.Fatalf("%s ran although nothing has changed", ran)
	}
	if err := first.Forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, second, "fields.field[1]"); len(got) != 80_000 {
		t.Errorf("an element has %d bytes", len(got))
	}
	g, _, err := c.Graph(t.Context(), second.ID())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(t.Context(), g, cascade.WithResume(first.ID())); !errors.Is(err, cascade.ErrNotFound) {
		t.Errorf("resuming from a job that was forgotten is %v", err)
	}
	if _, err := c.Submit(t.Context(), g, cascade.WithResume(second.ID(), "nothing")); !errors.Is(err, cascade.ErrBadRequest) {
		t.Errorf("running a task again that there is not is %v", err)
	}
	held := cascadetest.SubmitGraph(t, c, g, cascade.WithHold())
	if _, err := c.Submit(t.Context(), g, cascade.WithResume(held.ID())); !errors.Is(err, cascade.ErrConflict) {
		t.Errorf("resuming from a job that has not ended is %v", err)
	}
	if err := held.Cancel(t.Context(), "the test ends"); err != nil {
		t.Error(err)
	}
}
