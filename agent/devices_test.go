//go:build linux

package agent

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"slices"
	"strings"
	"testing"
)

// visible returns which devices this process may use.
func visible(context.Context, number) ([]byte, error) {
	text, set := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	if !set {
		text = "all"
	}
	return []byte(text), nil
}

// Tasks see the devices that they were given and no others, in Go, Python and commands; two
// that run at the same time see different ones. The devices are modelled: a number each.
func TestVisibleDevices(t *testing.T) {
	h := startHost(t, func(c *Config) { c.GPU = 2000 })
	if err := os.WriteFile(h.dir+"/see.py", []byte("import os\n\ndef devices():\n    return os.environ['CUDA_VISIBLE_DEVICES'].encode()\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tasks := `  one: {run: visible, with: {n: 0}, resources: {gpu: 1}, out: [d]}
  two: {run: visible, with: {n: 0}, resources: {gpu: 2}, out: [d]}
  none: {run: visible, with: {n: 0}, out: [d]}
  gang: {gang: 2, command: "echo -n $CUDA_VISIBLE_DEVICES > ${out.d}", resources: {gpu: 1, cpu: 0.5}, out: [d]}
  share: {command: "echo -n $CUDA_VISIBLE_DEVICES > ${out.d}", resources: {gpu: 0.5}, out: [d]}
  shell: {command: "echo -n $CUDA_VISIBLE_DEVICES > ${out.d}", out: [d]}
`
	names := []string{"one", "two", "none", "gang[0]", "gang[1]", "share", "shell"}
	if err := osexec.Command("python3", "-I", "-c", "").Run(); testing.Short() {
		t.Log("without Python: its environment takes long to build")
	} else if err == nil {
		tasks = "  snake: {run: \"py:see.devices\", resources: {gpu: 2}, out: [d]}\n" + "  bare: {run: \"py:see.devices\", out: [d]}\n" + tasks
		names = append([]string{"snake", "bare"}, names...)
	} else if os.Getenv("CASCADE_REQUIRE_PYTHON") != "" {
		t.Fatal(err)
	}
	var outputs []string
	for _, name := range names {
		outputs = append(outputs, fmt.Sprintf("%q", name+".d"))
	}
	j := h.submit("job: devices\nenvironments:\n  py: {python: {}, py_modules: [./see.py]}\noutputs: [" + strings.Join(outputs, ", ") + "]\ntasks:\n" + tasks)
	got := map[string]string{}
	for line := range strings.Lines(j.ended()) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if rest != "finished 1" {
			t.Errorf("%s %s", name, rest)
			continue
		}
		got[name] = string(h.bytes(j.id, j.output(name)))
	}
	for _, name := range names {
		want := map[string]string{"two": "0,1", "snake": "0,1", "none": "", "bare": "", "shell": ""}[name]
		switch name {
		case "one", "share", "gang[0]", "gang[1]":
			if got[name] != "0" && got[name] != "1" {
				t.Errorf("%s sees devices %q", name, got[name])
			}
		default:
			if got[name] != want {
				t.Errorf("%s sees devices %q, want %q", name, got[name], want)
			}
		}
	}
	if members := []string{got["gang[0]"], got["gang[1]"]}; !slices.Contains(members, "0") || !slices.Contains(members, "1") {
		t.Errorf("members of a gang, which run at the same time, see %v", members)
	}
}
