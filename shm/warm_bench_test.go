package shm

import (
	"testing"
	"time"

	"github.com/cascade-run/cascade/shm/ledger"
)

// BenchmarkWarmFile is what the store and the mapper do for one more dataset of 1 GiB in a file that exists.
func BenchmarkWarmFile(b *testing.B) {
	const n = 1 << 30
	s, m := benchStore(b, 1<<20)
	must(b, s.Create(2, ledger.File, n))
	var resize, lease, cl, seal time.Duration
	for i := -1; i < b.N; i++ {
		if i == 0 {
			resize, lease, cl, seal = 0, 0, 0, 0
			b.ResetTimer()
		}
		t0 := time.Now()
		must(b, s.Resize(2, n))
		t1 := time.Now()
		l, err := m.Lease(SegmentName(ledger.File, 2), 0, n)
		must(b, err)
		t2 := time.Now()
		must(b, l.Close())
		t3 := time.Now()
		must(b, s.Seal(2, ledger.File, n))
		t4 := time.Now()
		resize += t1.Sub(t0)
		lease += t2.Sub(t1)
		cl += t3.Sub(t2)
		seal += t4.Sub(t3)
	}
	us := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) }
	b.ReportMetric(us(resize), "resize-us")
	b.ReportMetric(us(lease), "lease-us")
	b.ReportMetric(us(cl), "close-us")
	b.ReportMetric(us(seal), "seal-us")
}

// BenchmarkMemoryOfADataset is what comes before the first byte of one more dataset of 1 GiB, and what follows its
// end: in fresh memory, in a file that exists and was unmapped, and in one that is still mapped.
func BenchmarkMemoryOfADataset(b *testing.B) {
	const n = 1 << 30
	s, m := benchStore(b, 1<<20)
	lease := func(id ledger.SegmentID) {
		l, err := m.Lease(SegmentName(ledger.File, id), 0, n)
		must(b, err)
		must(b, l.Close())
	}
	must(b, s.Create(2, ledger.File, n))
	lease(2)
	var fresh, unmapped, mapped time.Duration
	for i := range b.N {
		t0 := time.Now()
		id := ledger.SegmentID(3 + i)
		must(b, s.Create(id, ledger.File, n))
		lease(id)
		m.Forget(SegmentName(ledger.File, id))
		must(b, s.Remove(id))
		t1 := time.Now()
		must(b, s.Resize(2, n))
		m.Forget(SegmentName(ledger.File, 2))
		lease(2)
		t2 := time.Now()
		must(b, s.Resize(2, n))
		lease(2)
		fresh, unmapped, mapped = fresh+t1.Sub(t0), unmapped+t2.Sub(t1), mapped+time.Since(t2)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(b.N) }
	b.ReportMetric(ms(fresh), "fresh-ms")
	b.ReportMetric(ms(unmapped), "unmapped-ms")
	b.ReportMetric(ms(mapped), "mapped-ms")
}
