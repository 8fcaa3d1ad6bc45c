package core

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms"
)

// TestSpreadRandom: wherever calls go, none of them would wait less elsewhere by the
// estimate with which they were placed, none is lost, and what stays is not named.
func TestSpreadRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := func() *agent {
			return &agent{work: workload{cores: float64(rapid.IntRange(1, 8).Draw(t, "cores")), told: comms.Load{
				Waiting: uint64(rapid.IntRange(0, 50).Draw(t, "waiting")), Running: uint64(rapid.IntRange(0, 8).Draw(t, "running")),
				Seconds: rapid.SampledFrom([]float64{0.001, 0.1, 2}).Draw(t, "seconds"), Bandwidth: rapid.SampledFrom([]float64{0, 1e6, 1e9}).Draw(t, "bandwidth")}}}
		}
		asker := host()
		var hosts []*agent
		for range rapid.IntRange(1, 5).Draw(t, "hosts") {
			hosts = append(hosts, host())
		}
		m := &comms.Where{Calls: uint64(rapid.IntRange(1, 60).Draw(t, "calls")), Bytes: uint64(rapid.SampledFrom([]int{0, 1000, 1e7}).Draw(t, "bytes")), Here: rapid.Bool().Draw(t, "here")}
		asker.work.told.Waiting += m.Calls
		counts := spread(m.Calls, m, asker, hosts)
		if len(counts) != len(hosts) {
			t.Fatalf("%d hosts get %d counts", len(hosts), len(counts))
		}
		stay := m.Calls
		for _, n := range counts {
			if n > stay {
				t.Fatalf("of %d calls %v are placed", m.Calls, counts)
			}
			stay -= n
		}
		if !m.Here && stay > 0 {
			t.Fatalf("%d calls stay where they cannot run", stay)
		}
		home := asker.work
		home.told.Waiting -= m.Calls
		after := func(w workload, n uint64, bytes uint64) float64 { w.given += n; return w.wait(bytes) }
		for i, n := range counts {
			if n == 0 {
				continue
			}
			last := after(hosts[i].work, n-1, m.Bytes) // what the last one that went there waits
			for k, o := range hosts {
				if other := after(o.work, counts[k], m.Bytes); k != i && other < last {
					t.Fatalf("a call of host %d waits %g s, and would wait %g s at host %d: %v", i, last, other, k, counts)
				}
			}
			if other := after(home, stay, 0); m.Here && other < last {
				t.Fatalf("a call of host %d waits %g s, and would wait %g s at home: %v", i, last, other, counts)
			}
		}
	})
}
