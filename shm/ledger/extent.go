package ledger

import "sort"

// extent is a free range of an arena.
type extent struct{ off, n int64 }

// freeList keeps the free ranges of one arena, sorted by offset and never adjacent.
type freeList struct {
	list []extent
	free int64
	max  int64 // upper bound of the largest extent, so that full arenas are skipped without a scan
}

func newFreeList(n int64) freeList {
	return freeList{list: []extent{{0, n}}, free: n, max: n}
}

// take cuts n bytes from the first extent that is large enough (first fit keeps low pages warm).
func (f *freeList) take(n int64) (off int64, ok bool) {
	if n > f.max {
		return 0, false
	}
	var largest int64
	for i := range f.list {
		e := &f.list[i]
		if e.n >= n {
			off = e.off
			e.off, e.n = e.off+n, e.n-n
			if e.n == 0 {
				f.list = append(f.list[:i], f.list[i+1:]...)
			}
			f.free -= n
			return off, true
		}
		largest = max(largest, e.n)
	}
	f.max = largest
	return 0, false
}

// takeAt cuts an exact range; it reports false when a part of it is not free.
func (f *freeList) takeAt(off, n int64) bool {
	i := sort.Search(len(f.list), func(i int) bool { return f.list[i].off+f.list[i].n > off })
	if i == len(f.list) || f.list[i].off > off || f.list[i].off+f.list[i].n < off+n {
		return false
	}
	e := f.list[i]
	var parts []extent
	if off > e.off {
		parts = append(parts, extent{e.off, off - e.off})
	}
	if end := off + n; end < e.off+e.n {
		parts = append(parts, extent{end, e.off + e.n - end})
	}
	f.list = append(f.list[:i], append(parts, f.list[i+1:]...)...)
	f.free -= n
	return true
}

// put gives a range back and joins it with its neighbours.
func (f *freeList) put(off, n int64) {
	if n == 0 {
		return
	}
	i := sort.Search(len(f.list), func(i int) bool { return f.list[i].off > off })
	joinLeft := i > 0 && f.list[i-1].off+f.list[i-1].n == off
	joinRight := i < len(f.list) && off+n == f.list[i].off
	f.free += n
	switch {
	case joinLeft && joinRight:
		f.list[i-1].n += n + f.list[i].n
		f.max = max(f.max, f.list[i-1].n)
		f.list = append(f.list[:i], f.list[i+1:]...)
		return
	case joinLeft:
		f.list[i-1].n += n
		f.max = max(f.max, f.list[i-1].n)
		return
	case joinRight:
		f.list[i].off, f.list[i].n = off, f.list[i].n+n
		f.max = max(f.max, f.list[i].n)
		return
	}
	f.list = append(f.list, extent{})
	copy(f.list[i+1:], f.list[i:])
	f.list[i] = extent{off, n}
	f.max = max(f.max, n)
}
