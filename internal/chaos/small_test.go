//go:build linux

package chaos

import (
	"strings"
	"testing"
)

// Hosts that are too small for more than one thing at a time do all of it.
func TestSmallHosts(t *testing.T) {
	t.Parallel()
	want := undisturbed(t)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"one cpu", []string{"--cpu", "1"}},
		{"half the parts fit", []string{"--store", "3MiB"}},
		{"one cpu and a store of two parts", []string{"--cpu", "1", "--store", "2MiB"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := New(t)
			h.Controller()
			h.Agent(c.args...)
			h.Submit(h.Client(), mix, nil).Done().Same(t, want)
		})
	}
}

// One cpu, and a generator that is held back by consumers of its elements, which
// need the cpu; the store has room for a few elements.
const stream = `job: stream
params: {parts: 18}
tasks:
  source: {run: chaos_source, with: {parts: "${params.parts}", work: 0}, generates: {part: {count: "*", buffer: 2}}}
  step: {for: {p: "source.part[*]"}, run: chaos_step, in: {part: "source.part[${p}]"}, with: {work: 0}, out: [part]}
  total: {run: chaos_total, in: {parts: "step[*].part"}, out: [sum]}
outputs: [total.sum]
`

func TestGeneratorAndConsumerShareOneCPU(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent("--cpu", "1", "--store", "4MiB")
	c := h.Client()
	got := h.Submit(c, stream, nil).Done()
	for _, task := range got.Tasks {
		if task.State != "done" {
			t.Errorf("%s is %s", task.Name, task.State)
		}
	}
	got.Rerun(t, nil)
	// What can never fit is told, and not waited for.
	got = h.Submit(c, stream, nil, "parts=60").End()
	if e := got.Tasks["total"].Error; !strings.Contains(e, "larger than the shared memory of this host") {
		t.Errorf("inputs of twice the store: %q", e)
	}
}
