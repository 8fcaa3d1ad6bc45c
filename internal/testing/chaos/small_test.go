//go:build linux

package chaos

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/cascade-run/cascade"
)

var (
	_ = cascade.Gen1("chaos_equal", equal, "with -> part")
	_ = cascade.Func2("chaos_grow", grow, "before, with -> part")
	_ = cascade.Func2("chaos_behind", behind, "part, before -> sum")
)

type equalSettings struct{ Parts, N int }

// equal publishes parts of n numbers each.
func equal(ctx context.Context, s equalSettings) iter.Seq2[cascade.Array[float64], error] {
	return func(yield func(cascade.Array[float64], error) bool) {
		for range s.Parts {
			a, err := cascade.Alloc[float64](ctx, s.N)
			fillWith(a.Data)
			if !yield(a, err) {
				return
			}
		}
	}
}

type growSettings struct {
	Pipe string
	N    int
}

// grow wants its memory only when the test lets it go on.
func grow(ctx context.Context, _ []string, s growSettings) (cascade.Array[float64], error) {
	if _, err := gate(ctx, gateSettings{s.Pipe}); err != nil {
		return cascade.Array[float64]{}, err
	}
	a, err := cascade.Alloc[float64](ctx, s.N)
	fillWith(a.Data)
	return a, err
}

func behind(ctx context.Context, in cascade.Array[float64], _ []string) (string, error) {
	return sumOfPart(ctx, in)
}

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

// The memory has room for one element of a generator. The next one waits for the consumer
// of the first, and the consumer for the only cpu, which the generator has.
func TestMemoryForOneOutput(t *testing.T) {
	t.Parallel()
	const parts, numbers = 12, 100_000
	for _, generates := range []string{`"*"`, `{count: "*", buffer: 1}`} {
		t.Run(generates, func(t *testing.T) {
			h := New(t)
			h.Controller()
			h.Agent("--cpu", "1", "--store", "1MiB")
			got := h.Submit(h.Client(), fmt.Sprintf(`job: one
tasks:
  source: {run: chaos_equal, with: {parts: %d, n: %d}, generates: {part: %s}}
  seen: {for: {p: "source.part[*]"}, run: chaos_sum, in: {part: "source.part[${p}]"}, out: [sum]}
outputs: ["seen[*].sum"]
`, parts, numbers, generates), nil).Done()
			a := make([]float64, numbers)
			fillWith(a)
			want, seen := sumOf(a), 0
			for _, l := range got.Lines {
				if strings.HasPrefix(l.Task, "seen[") && l.Note == want {
					seen++
				}
			}
			if seen != parts || len(got.Data) != parts {
				t.Errorf("%d elements were seen and %d outputs made, of %d\n%s", seen, len(got.Data), parts, text(got.Lines))
			}
		})
	}
}

// What waits behind a running task has its inputs in memory already; the running task
// then wants more than is left beside any one of them. They give way, and are read again.
func TestQueuedInputsGiveWay(t *testing.T) {
	t.Parallel()
	h := New(t)
	h.Controller()
	h.Agent("--cpu", "1", "--store", "24MiB")
	c := h.Client()
	pipe := h.Pipe("gate")
	const arrays, numbers = 2, 1_220_000
	sums := crowdSums(arrays, numbers)
	j := h.Submit(c, fmt.Sprintf(`job: queued
tasks:
  fill: {for: {i: "0..%d"}, run: chaos_fill, with: {n: "${%d + 512 * i}"}, out: [part]}
  all: {run: chaos_digest, in: {parts: "fill[*].part"}, out: [sum]}
  grow: {run: chaos_grow, in: {before: all.sum}, with: {pipe: %s, n: 2000000}, out: [part], priority: 1}
  seen: {for: {i: "0..%d"}, run: chaos_behind, in: {part: "fill[${i}].part", before: all.sum}, out: [sum]}
  read: {for: {i: "0..%d"}, run: chaos_behind, in: {part: "fill[${i}].part", before: all.sum}, out: [sum]}
outputs: [grow.part, "seen[*].sum", "read[*].sum"]
`, arrays-1, numbers, pipe, arrays-1, arrays-1), nil)
	h.Journal.Await(Started("grow", 1))
	h.open(pipe)
	got := j.Done()
	got.Intact(t, sums)
	got.Rerun(t, nil)
}
