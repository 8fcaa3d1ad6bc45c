package planner

import "slices"

// timeline is what a host has free over time, for schedules that put a task into
// a gap between others: at times[k] it becomes free[k], until times[k+1].
type timeline struct {
	times []float64
	free  [][]int64
}

func newTimeline(room []int64) *timeline {
	return &timeline{times: []float64{0}, free: [][]int64{slices.Clone(room)}}
}

// earliest returns the first time from ready on at which a need fits for some
// seconds. It must fit an empty host.
func (l *timeline) earliest(ready, seconds float64, need []int64) float64 {
	k, found := slices.BinarySearch(l.times, ready)
	if !found {
		k--
	}
	start := ready
	for at := k; at < len(l.times); at++ {
		if at > k && l.times[at] >= start+seconds {
			return start
		}
		if !within(need, l.free[at]) && at+1 < len(l.times) {
			start, k = l.times[at+1], at+1
		}
	}
	return start
}

// take occupies what earliest found.
func (l *timeline) take(start, seconds float64, need []int64) {
	if seconds <= 0 {
		return
	}
	from := l.cut(start)
	to := l.cut(start + seconds)
	for k := from; k < to; k++ {
		add(l.free[k], need, -1)
	}
}

// cut makes a time one at which something may change, and returns its place.
func (l *timeline) cut(at float64) int {
	k, found := slices.BinarySearch(l.times, at)
	if !found {
		l.times = slices.Insert(l.times, k, at)
		l.free = slices.Insert(l.free, k, slices.Clone(l.free[k-1]))
	}
	return k
}
