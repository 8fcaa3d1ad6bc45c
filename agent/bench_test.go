//go:build linux

package agent

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkTasks measures independent tasks that do nothing, through real
// executors, from Assign to the events of the last one.
func BenchmarkTasks(b *testing.B) {
	h := startHost(b, func(c *Config) { c.Warm = 2 })
	h.submit("job: warm\ntasks: {t: {run: one, with: {n: 1}}}\n").drained()
	b.ResetTimer()
	h.submit(fmt.Sprintf("job: many\ntasks: {t: {for: {i: \"0..%d\"}, run: one, with: {n: 1}}}\n", b.N-1)).drained()
}

// BenchmarkChain measures tasks that each need the one before.
func BenchmarkChain(b *testing.B) {
	h := startHost(b, nil)
	h.submit("job: warm\ntasks: {t: {run: one, with: {n: 1}, out: [n]}}\n").drained()
	var yaml strings.Builder
	yaml.WriteString("job: chain\ntasks:\n  t0: {run: one, with: {n: 1}, out: [n]}\n")
	for i := range b.N {
		fmt.Fprintf(&yaml, "  t%d: {run: double, in: {n: t%d.n}, out: [n]}\n", i+1, i)
	}
	j := h.prepare(yaml.String())
	b.ResetTimer()
	j.assign()
	j.drained()
}
