package shm

import (
	"fmt"
	"os"
	"testing"

	"github.com/cascade-run/cascade/shm/ledger"
)

var benchSizes = []int64{1 << 10, 64 << 10, 1 << 20, 64 << 20}

func benchStore(b *testing.B, segment int64) (*Store, *Mapper) {
	root, err := os.MkdirTemp(DefaultRoot, "cascade-bench-")
	must(b, err)
	b.Cleanup(func() { os.RemoveAll(root) })
	s := openStore(b, root, System{})
	must(b, s.Create(1, ledger.Arena, segment))
	m := NewMapper(s.Dir(), 0)
	b.Cleanup(func() { must(b, m.Close()) })
	return s, m
}

// BenchmarkPut compares, on warm pages, a plain copy within the process with a put: allocation in a lease,
// copy, and what it takes to protect the bytes: with the end of the lease (one for each MiB or each larger dataset),
// or for each dataset at once.
func BenchmarkPut(b *testing.B) {
	for _, n := range benchSizes {
		src, dst := pattern(int(n)), make([]byte, n)
		b.Run(fmt.Sprintf("memcpy/%d", n), func(b *testing.B) {
			copy(dst, src)
			b.SetBytes(n)
			for b.Loop() {
				copy(dst, src)
			}
		})
		for name, seal := range map[string]bool{"put": false, "put and seal at once": true} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				size := max(n, 1<<20)
				_, m := benchStore(b, size)
				b.SetBytes(n)
				l, err := m.Lease("a1", 0, size)
				must(b, err)
				for b.Loop() {
					mem, _, err := l.Alloc(n, 64)
					if err != nil { // full: close it, which protects everything, and take the next
						must(b, l.Close())
						l, err = m.Lease("a1", 0, size)
						must(b, err)
						mem, _, err = l.Alloc(n, 64)
						must(b, err)
					}
					copy(mem, src)
					if seal {
						must(b, l.Seal(false))
					}
				}
				must(b, l.Close())
			})
		}
		b.Run(fmt.Sprintf("alloc/%d", n), func(b *testing.B) { // in place: what a task that fills its output pays
			size := max(n, 1<<20)
			_, m := benchStore(b, size)
			l, err := m.Lease("a1", 0, size)
			must(b, err)
			for b.Loop() {
				if _, _, err := l.Alloc(n, 64); err != nil {
					must(b, l.Close())
					l, err = m.Lease("a1", 0, size)
					must(b, err)
				}
			}
			must(b, l.Close())
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, m := benchStore(b, n)
			for b.Loop() {
				v, err := m.View("a1", 0, n)
				must(b, err)
				if len(v.Bytes) != int(n) {
					b.Fatal(len(v.Bytes))
				}
				v.Release()
			}
		})
	}
}

func BenchmarkControlBegin(b *testing.B) {
	s, _ := benchStore(b, 1<<20)
	c, err := s.CreateControl(s.ControlPath(1))
	must(b, err)
	for i := uint64(0); b.Loop(); i++ {
		c.Begin(Step{Run: i})
	}
	must(b, c.Close())
}

func BenchmarkSpill(b *testing.B) {
	const n = 64 << 20
	s, _ := benchStore(b, n)
	b.Cleanup(func() { must(b, s.DropSpill(testKey(1))) })
	b.Run("spill", func(b *testing.B) { // the spill folder is in memory here: this is the cost without a disk
		b.SetBytes(n)
		for b.Loop() {
			must(b, s.Spill(testKey(1), nil, ledger.Place{Segment: 1, Bytes: n}))
		}
	})
	b.Run("read back", func(b *testing.B) {
		b.SetBytes(n)
		for b.Loop() {
			must(b, s.ReadBack(testKey(1), ledger.Place{Segment: 1, Bytes: n}))
		}
	})
}
