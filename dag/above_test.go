package dag_test

import (
	"strings"
	"testing"

	"github.com/cascade-run/cascade/dag"
)

// What a task reads, and nothing else, is above it, under the same names.
func TestAbove(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: j
params: {n: 3}
environments: {e: {env: {V: "1"}}}
tasks:
  a: {command: "echo ${params.n}", environment: e, out: [x], stdout: x}
  b: {for: {i: "0..2"}, command: "cat ${in.x}", in: {x: a}, out: [y], stdout: y}
  gen: {run: f, in: {y: "b[1].y"}, generates: {part: "*"}}
  each: {for: {p: "gen.part[*]"}, command: "cat ${in.x}", in: {x: "gen.part[${p}]"}, out: [y], stdout: y}
  all: {run: join, in: {y: "each[*].y"}, out: [text]}
  other: {command: "true"}
outputs: [all.text]
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for task, want := range map[string]string{"a": "", "other": "", "b[2]": "a", "gen": "a b", "each[7]": "a b gen", "all": "a b gen each"} {
		i, ok := g.Lookup(task)
		if !ok {
			t.Fatalf("no task %s", task)
		}
		above, ok, err := g.Above(i)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		if ok {
			for i := range above.Groups {
				names = append(names, above.Groups[i].Name)
			}
			if !above.Retain || !above.KeepGoing || len(above.Exports) > 0 || len(above.Params) != 1 || len(above.Environments) != 1 {
				t.Errorf("above %s is another kind of job: %+v", task, above)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("above %s are %q, want %q", task, got, want)
		}
	}
}
