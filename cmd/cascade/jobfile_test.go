package main

import (
	"slices"
	"testing"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/pysource"
)

// What validate leaves to the run, and says so.
func TestUnchecked(t *testing.T) {
	const (
		registered = "functions of Go: the run checks them all before their tasks are due"
		python     = "functions of Python of t: each is looked for when the first task that calls it starts"
		commands   = "programs of commands: each is looked for when its task starts"
		packages   = "packages, images and plugins of environments: found when an environment is built"
		urls       = "URLs: fetched when their tasks run"
	)
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"a command", "tasks: {t: {command: [\"true\"]}}", []string{commands}},
		{"a function of this program", "tasks: {t: {run: Ramp, out: [x]}}", []string{registered}},
		{"a function of a package", "environments: {e: {go: ./e}}\ntasks: {t: {run: \"e:Ramp\", out: [x]}}", []string{registered}},
		{"a function of Python", "environments: {e: {python: {}}}\ntasks: {t: {run: \"e:module.f\", out: [x]}}", []string{python}},
		{"one of each, packages", "environments: {e: {python: {pip: [numpy]}}}\ntasks: {t: {run: \"e:module.f\", out: [x]}, u: {run: Ramp, out: [x]}, v: {command: [\"true\"]}}",
			[]string{registered, python, commands, packages}},
		{"an image", "environments: {e: {container: {image: \"registry/image:1\"}}}\ntasks: {t: {command: [\"true\"], environment: e}}", []string{commands, packages}},
		{"a plugin", "environments: {e: {plugins: {licences: {}}}}\ntasks: {t: {command: [\"true\"], environment: e}}", []string{commands, packages}},
		{"an address", "inputs: {page: {url: \"http://host.example/page\"}}\ntasks: {t: {command: \"cat ${in.page}\", in: {page: page}}}", []string{commands, urls}},
		{"a file", "inputs: {page: {file: LICENSE}}\ntasks: {t: {command: \"cat ${in.page}\", in: {page: page}}}", []string{commands}},
		{"no task", "inputs: {page: {file: LICENSE}}\ntasks: {}", []string{}},
	} {
		g, err := dag.ParseYAML("job.yaml", []byte("job: j\n"+c.text+"\n"), dag.Override{}, dag.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := unchecked(g, unread{tasks: pysource.Tasks(g)}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
