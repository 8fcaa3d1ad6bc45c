//go:build linux

package agent

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cascade-run/cascade/agent/devices"
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
	h := startHost(t, func(c *Config) { c.GPUs = 2 })
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

// What is found and what is said by hand become the devices that tasks may use.
func TestOffered(t *testing.T) {
	const gib = 1 << 30
	found := devices.Found{Vendor: devices.AMD, Devices: []devices.Device{{Name: "0", Memory: 16 * gib}, {Name: "1", Memory: 16 * gib}}}
	for _, c := range []struct {
		gpus   int
		memory int64
		want   []devices.Device
	}{
		{0, 0, found.Devices},
		{1, 0, found.Devices[:1]},
		{-1, 0, nil},
		{0, 8 * gib, []devices.Device{{Name: "0", Memory: 8 * gib}, {Name: "1", Memory: 8 * gib}}},
		{3, 0, []devices.Device{{Name: "0"}, {Name: "1"}, {Name: "2"}}},
	} {
		cfg := Config{GPUs: c.gpus, GPUMem: c.memory}
		in := devices.Found{Vendor: found.Vendor, Devices: slices.Clone(found.Devices)}
		if got := cfg.offered(in); !slices.Equal(got.Devices, c.want) {
			t.Errorf("--gpus %d --gpu-memory %d: %v, want %v", c.gpus, c.memory, got.Devices, c.want)
		}
	}
}

// Devices that a program says are there are what tasks get; one that hangs stops no agent.
func TestDevicesAreFound(t *testing.T) {
	h := startHost(t, func(c *Config) {
		smi := filepath.Join(t.TempDir(), "nvidia-smi")
		if err := os.WriteFile(smi, []byte("#!/bin/sh\necho '0, GPU-1, 81920'; echo '1, GPU-2, 81920'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		c.Host.SMI, c.Host.Env = smi, func(string) (string, bool) { return "1", true } // the first is another's
	})
	j := h.submit("job: found\noutputs: [one.d]\ntasks:\n  one: {run: visible, with: {n: 0}, resources: {gpu: 1}, out: [d]}\n")
	if got := j.ended(); got != "one finished 1" {
		t.Fatal(got)
	}
	if got := h.bytes(j.id, j.output("one")); string(got) != "1" {
		t.Errorf("the task sees devices %q", got)
	}
}
