package main

import (
	"cmp"
	"math"
	"slices"
)

// bound is a time before which no plan of a job ends on a cluster, whatever its hosts and
// turns. It is at least the critical path, and the work over the cores. Each set of tasks
// bounds it, before which a head goes by and after which a tail is left:
//
//   - by its work: each core has one of the heads before all that it does of the set, and
//     one of the tails after it (Carlier, Scheduling jobs with release dates and tails on
//     identical machines to minimize the makespan, EJOR 1987);
//   - by its pieces: of mk+1 tasks one of m cores has k+1 (Dell'Amico and Martello, Optimal
//     scheduling of tasks on identical parallel processors, ORSA J. on Computing 1995);
//   - by what all of it reads: one host has that at once, the next when its maker's host
//     has sent it, the one after that when it has sent it twice.
//
// A task's head is such a bound of all that must end before it, its tail of all that must
// follow.
func (c *cluster) bound(j *job) float64 {
	order, before, after := j.edges()
	heads := c.heads(j, order, before)
	slices.Reverse(order)
	tails := c.heads(j, order, after)
	all := make([]part, len(order))
	for i := range all {
		all[i] = part{heads[i], j.seconds[i], tails[i]}
	}
	least := c.least(all, fine)
	for d := range j.data {
		least = max(least, c.copies(j, &j.data[d], heads, tails))
	}
	return least
}

// coarse and fine are how many heads and tails are looked at to tell sets from each other.
const coarse, fine = 8, 100

// part is a task by what must go by before it, its own time, and what must follow.
type part struct{ head, work, tail float64 }

// edges returns the tasks in topological order and, of each, those that it waits for and
// those that wait for it.
func (j *job) edges() (order []int, before, after [][]int) {
	n := len(j.seconds)
	before, after = make([][]int, n), make([][]int, n)
	for i := range n {
		for _, d := range j.takes[i] {
			before[i] = append(before[i], j.data[d].maker)
		}
		slices.Sort(before[i])
		before[i] = slices.Compact(before[i])
		for _, b := range before[i] {
			after[b] = append(after[b], i)
		}
	}
	left := make([]int, n)
	for i := range n {
		if left[i] = len(before[i]); left[i] == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for _, i := range after[order[k]] {
			if left[i]--; left[i] == 0 {
				order = append(order, i)
			}
		}
	}
	return order, before, after
}

// heads returns of each task a time before which it cannot begin: a bound of all that comes
// before it in order. Of the reverse order, and with what waits for each, these are tails.
func (c *cluster) heads(j *job, order []int, before [][]int) []float64 {
	heads := make([]float64, len(order))
	way := make([]float64, len(order)) // of each task before this one: the longest between the two; -1: it is not before it
	var all []part
	for at, i := range order {
		all = all[:0]
		for _, a := range order[:at] {
			way[a] = -1
		}
		for _, a := range before[i] {
			way[a] = 0
		}
		for _, a := range slices.Backward(order[:at]) {
			if way[a] < 0 {
				continue
			}
			all = append(all, part{heads[a], j.seconds[a], way[a]})
			for _, b := range before[a] {
				way[b] = max(way[b], way[a]+j.seconds[a])
			}
		}
		heads[i] = c.least(all, coarse)
	}
	return heads
}

// least returns the largest of the bounds of sets of tasks, which are those with a head and
// a tail of some size at least: so many of either are tried.
func (c *cluster) least(all []part, tries int) (least float64) {
	cores := 0
	for _, n := range c.cores {
		cores += n
	}
	heads, tails := make([]float64, len(all)), make([]float64, len(all))
	for i, p := range all {
		least = max(least, p.head+p.work+p.tail)
		heads[i], tails[i] = p.head, p.tail
	}
	if len(all) <= cores {
		return least // a core for each
	}
	heads, tails = levels(heads, tries), levels(tails, tries)
	slices.SortFunc(all, func(a, b part) int { return cmp.Compare(b.tail, a.tail) })
	for _, h := range heads {
		least = max(least, byWork(all, h, cores))
	}
	slices.SortFunc(all, func(a, b part) int { return cmp.Compare(b.work, a.work) })
	for _, h := range heads {
		for _, t := range tails {
			if pieces := byPieces(all, h, t, cores); pieces > 0 {
				least = max(least, h+pieces+t)
			}
		}
	}
	return least
}

// levels returns n of some values at most, the least among them.
func levels(values []float64, n int) []float64 {
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) <= n {
		return values
	}
	out := make([]float64, n)
	for k := range out {
		out[k] = values[k*len(values)/n]
	}
	return out
}

// byWork bounds the sets of tasks with a head of this at least and the longest tails: all
// come by their tails, the longest first.
func byWork(all []part, head float64, cores int) (least float64) {
	var first, last []float64 // of each core: the least heads, sorted, and the least tails, by turns
	work, n := 0.0, 0         // last with the heads and tails of the cores
	last = make([]float64, cores)
	for _, p := range all {
		if p.head < head {
			continue
		}
		work += p.work + p.tail - last[n%cores]
		last[n%cores] = p.tail
		n++
		at, _ := slices.BinarySearch(first, p.head)
		if at < cores {
			first = slices.Insert(first, at, p.head)
			work += p.head
		}
		if len(first) > cores {
			work -= first[cores]
			first = first[:cores]
		}
		if n >= cores {
			least = max(least, work/float64(cores))
		}
	}
	return least
}

// byPieces bounds how long a core is busy with tasks of such a head and tail at least, 0
// where there is one for each: all come by their work, the longest first.
func byPieces(all []part, head, tail float64, cores int) (least float64) {
	sums := make([]float64, 1, len(all)+1)
	for _, p := range all {
		if p.head >= head && p.tail >= tail {
			sums = append(sums, sums[len(sums)-1]+p.work)
		}
	}
	for k := 1; k*cores+1 < len(sums); k++ {
		least = max(least, sums[k*cores+1]-sums[k*(cores-1)])
	}
	return least
}

// copies bounds the job by the tasks that read one datum, which the hosts with most cores
// have first.
func (c *cluster) copies(j *job, d *item, heads, tails []float64) (least float64) {
	there := heads[d.maker] + j.seconds[d.maker]
	hosts := slices.Clone(c.cores)
	slices.SortFunc(hosts, func(a, b int) int { return b - a })
	from := make([]float64, len(hosts)) // when each may have it
	for h := range hosts[1:] {
		from[h+1] = latency + float64(h+1)*d.bytes/c.bandwidth
	}
	all := make([]part, len(d.takers))
	for k, i := range d.takers {
		all[k] = part{work: j.seconds[i], tail: tails[i]}
	}
	slices.SortFunc(all, func(a, b part) int { return cmp.Compare(b.tail, a.tail) })
	work := 0.0
	for _, p := range all {
		work += p.work
		soonest := math.Inf(1)
		cores, lost := 0, 0.0 // of the hosts that take part, which wait for it
		for h, n := range hosts {
			cores, lost = cores+n, lost+float64(n)*from[h]
			soonest = min(soonest, (work+lost)/float64(cores))
		}
		least = max(least, there+soonest+p.tail)
	}
	slices.SortFunc(all, func(a, b part) int { return cmp.Compare(b.work, a.work) })
	tail := math.Inf(1)
	for k, p := range all { // k+1 tasks of which each takes as long as this one, or longer
		tail = min(tail, p.tail)
		least = max(least, there+rounds(hosts, from, k+1, p.work)+tail)
	}
	return least
}

// rounds returns when hosts have done n tasks of so many seconds that begin on each when it may.
func rounds(hosts []int, from []float64, n int, seconds float64) (end float64) {
	done := make([]float64, len(hosts)) // rounds of each
	for n > 0 {
		next := 0
		for h := range hosts {
			if from[h]+done[h]*seconds < from[next]+done[next]*seconds {
				next = h
			}
		}
		done[next]++
		n -= hosts[next]
		end = max(end, from[next]+done[next]*seconds)
	}
	return end
}
