//go:build linux

package chaos

import (
	"os"
	"testing"
)

// mix is a job with everything that a break can disturb: a generator, consumers
// of single elements, chains, and a reduction, of all sizes.
const mix = `job: mix
params: {gate: "", first: ""}
tasks:
  source: {run: chaos_source, with: {parts: 12, work: 300, gate: "${params.first}"}, generates: {part: 12}}
  step:
    for: {i: "0..11"}
    run: chaos_step
    in: {part: "source.part[${i}]"}
    with: {work: 500}
    out: [part]
  next:
    for: {i: "0..11"}
    run: chaos_step
    in: {part: "step[${i}].part"}
    with: {work: 300}
    out: [part]
  total: {run: chaos_held, in: {parts: "next[*].part"}, with: {gate: "${params.gate}"}, out: [sum]}
outputs: [total.sum, "next[*].part"]
`

// mixLines is how many lines the tasks of mix write when nothing is broken.
const mixLines = 14 + 2*(12+12+1)

// held makes a mix end only when the test has opened the gate: what is broken
// before that is broken in its middle, however slow the test is.
func held(h *Host) (flag string, open func()) { return heldAt(h, "gate") }

// heldAt is held with a gate of another name.
func heldAt(h *Host, name string) (flag string, open func()) { return heldBy(h, "gate", name) }

// heldBy is heldAt with another parameter than gate: by first a mix is held at its begin.
func heldBy(h *Host, param, name string) (flag string, open func()) {
	h.tb.Helper()
	pipe := h.Pipe(name)
	return param + "=" + pipe, func() {
		h.tb.Helper()
		f, err := os.OpenFile(pipe, os.O_RDWR, 0) // also for tasks that are tried again
		if err != nil {
			h.tb.Fatal(err)
		}
		h.tb.Cleanup(func() { f.Close() })
	}
}

// undisturbed is what mix delivers on a host of its own where nothing breaks.
func undisturbed(t *testing.T) Outcome {
	t.Helper()
	var o Outcome
	t.Run("undisturbed", func(t *testing.T) {
		h := New(t)
		h.Controller()
		h.Agent()
		o = h.Submit(h.Client(), mix, nil).Done()
	})
	return o
}
