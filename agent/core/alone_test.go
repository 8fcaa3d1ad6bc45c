package core_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// A task alone is told what it is told on a host that has all that it wants.
func TestAlone(t *testing.T) {
	g, err := dag.ParseYAML("job.yaml", []byte(`
job: j
params: {level: 500}
tasks:
  made: {run: make, with: {n: 3}, generates: {part: "*"}}
  each: {for: {p: "made.part[*]"}, run: look, in: {x: "made.part[${p}]"}, out: [y]}
  run:
    for: {m: "1..3", l: ["a", "b"]}
    command: "cat ${in.x[*]} > ${out.y}; echo ${m}"
    env: {LEVEL: "${params.level}", OF: "${l}"}
    in: {x: "each[*].y"}
    out: [y]
    resources: {cpu: 2, memory: 1MiB, licence: 3}
    timeout: 2s
  both: {gang: 2, run: together}
`), dag.Override{}, dag.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ task, want string }{
		{"made", "made: function make, with n=3, out part, attempt 2"},
		{"each[5]", "each[5]: function look, in x, out y file, attempt 2"},
		{"run[2,b]", "run[2,b]: words /bin/sh -c cat <x> > <y>; echo 2, env LEVEL=500 OF=b, in x*, out y file, cpu 2000 memory 1048576 licence 3000, timeout 2s, attempt 2"},
		{"both[0]", "both[0] is a member of a gang, which runs with all others of it"},
	} {
		i, ok := g.Lookup(tt.task)
		if !ok {
			t.Fatalf("no task %s", tt.task)
		}
		k, run, err := core.Alone(g, comms.JobID{1}, "/dir", i, 2)
		got := fmt.Sprint(err)
		if err == nil {
			got = told(k, &run)
		}
		if got != tt.want {
			t.Errorf("told\n%s\nwant\n%s", got, tt.want)
		}
		if err == nil && (k.Job != comms.JobID{1} || k.Dir != "/dir" || run.Kind != k.ID || run.Task != i || len(run.Inputs) > 0) {
			t.Errorf("%s: kind %+v, run %+v", tt.task, k, run)
		}
	}
}

// told says what a kind and a run tell an executor.
func told(k *comms.Kind, run *comms.Run) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if k.Function != "" {
		add("function %s", k.Function)
	} else {
		var words []string
		for _, w := range run.Command {
			text := ""
			for _, p := range w.Parts {
				if p.Kind == dag.ArgText {
					text += p.Text
				} else {
					text += "<" + p.Text + ">"
				}
			}
			words = append(words, text)
		}
		add("words %s", strings.Join(words, " "))
	}
	with := append(append([]byte{}, k.With...), run.With...)
	if len(with) == 12 { // a map of one name and one number
		add("with %s=%d", with[2:3], with[11])
	}
	if env := append(append([]string{}, k.Env...), run.Env...); len(env) > 0 {
		add("env %s", strings.Join(env, " "))
	}
	for _, in := range k.Inputs {
		add("in %s%s", in.Name, map[bool]string{true: "*"}[in.List])
	}
	for _, out := range k.Outputs {
		add("out %s%s", out.Name, map[bool]string{true: " file"}[out.File])
	}
	if r := k.Resources; r.Memory > 0 {
		add("cpu %d memory %d %s %d", r.CPU, r.Memory, r.Custom[0].Name, r.Custom[0].N)
	}
	if k.Timeout > 0 {
		add("timeout %ds", k.Timeout/1e9)
	}
	add("attempt %d", run.Attempt)
	return k.NameOf(run.Task, run.Name) + ": " + strings.Join(parts, ", ")
}
