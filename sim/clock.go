package sim

import (
	"time"
	"unsafe"
)

// clock makes a time with a reading of the wall clock and one of the monotonic
// clock, of which package time makes none but its own: differences of two such
// times go by the monotonic clock, UnixNano by the wall clock. It relies on the
// layout that package time documents at type Time; TestClock notices a change.
func clock(wall time.Time, monotonic time.Duration) time.Time {
	const (
		hasMonotonic = 1 << 63
		from1885     = 2_682_288_000 // seconds from 1885 to 1970
	)
	t := struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}{uint64(hasMonotonic) | uint64(wall.Unix()+from1885)<<30 | uint64(wall.Nanosecond()), int64(monotonic), nil}
	return *(*time.Time)(unsafe.Pointer(&t))
}
