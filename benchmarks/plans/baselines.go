package main

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// ranks are upward ranks: seconds from a task's start to the end of the job, with
// the mean time of a transfer.
func (c *cluster) ranks(j *job) ([]float64, []int) {
	far := 1 - 1/float64(len(c.cores))
	order, left := []int{}, make([]int, len(j.seconds))
	for i := range left {
		if left[i] = len(j.takes[i]); left[i] == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for _, d := range j.makes[order[k]] {
			for _, t := range j.data[d].takers {
				if left[t]--; left[t] == 0 {
					order = append(order, t)
				}
			}
		}
	}
	rank := make([]float64, len(j.seconds))
	for _, i := range slices.Backward(order) {
		for _, d := range j.makes[i] {
			for _, t := range j.data[d].takers {
				rank[i] = max(rank[i], rank[t]+far*(latency+j.data[d].bytes/c.bandwidth))
			}
		}
		rank[i] += j.seconds[i]
	}
	place := make([]int, len(order))
	for at, i := range order {
		place[i] = at
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(rank[b], rank[a]), place[a]-place[b]) })
	return rank, order
}

type slot struct{ from, to float64 }

// heft is heterogeneous earliest finish time: each core a list of busy times, each
// task into the first gap of the core on which it ends first.
func heft(c *cluster, j *job) choice {
	rank, order := c.ranks(j)
	ch := choice{make([]int, len(rank)), rank}
	end := make([]float64, len(rank))
	busy := make([][][]slot, len(c.cores))
	for h := range busy {
		busy[h] = make([][]slot, c.cores[h])
	}
	for _, i := range order {
		best, at, core := -1, math.Inf(1), 0
		for h := range busy {
			ready := 0.0
			for _, d := range j.takes[i] {
				there := end[j.data[d].maker]
				if ch.host[j.data[d].maker] != h {
					there += latency + j.data[d].bytes/c.bandwidth
				}
				ready = max(ready, there)
			}
			for k := range busy[h] {
				if start := gap(busy[h][k], ready, j.seconds[i]); start < at {
					best, at, core = h, start, k
				}
			}
		}
		ch.host[i], end[i] = best, at+j.seconds[i]
		s := slot{at, end[i]}
		list := busy[best][core]
		k, _ := slices.BinarySearchFunc(list, s, func(a, b slot) int { return cmp.Compare(a.from, b.from) })
		busy[best][core] = slices.Insert(list, k, s)
	}
	return ch
}

func gap(busy []slot, ready, seconds float64) float64 {
	for _, s := range busy {
		if ready+seconds <= s.from {
			break
		}
		ready = max(ready, s.to)
	}
	return ready
}

// dynamic gives tasks to hosts as cores become free, as most schedulers that see
// only what is ready do: next picks the task, and near whether the host with fewest
// bytes to move is taken or the first.
func dynamic(c *cluster, j *job, next func(ready []int) int, near bool, first []float64) choice {
	ch := choice{slices.Repeat([]int{-1}, len(j.seconds)), first}
	idle, left := slices.Clone(c.cores), make([]int, len(j.seconds))
	var ready []int
	for i := range left {
		if left[i] = len(j.takes[i]); left[i] == 0 {
			ready = append(ready, i)
		}
	}
	ends, now := map[int]float64{}, 0.0
	for {
		for len(ready) > 0 && slices.Max(idle) > 0 {
			k := next(ready)
			i := ready[k]
			ready = slices.Delete(ready, k, k+1)
			best, bytes := -1, 0.0
			for h := range idle {
				if idle[h] == 0 {
					continue
				}
				move := 0.0
				for _, d := range j.takes[i] {
					if near && ch.host[j.data[d].maker] != h {
						move += j.data[d].bytes
					}
				}
				if best < 0 || move < bytes {
					best, bytes = h, move
				}
			}
			idle[best]--
			ch.host[i] = best
			ends[i] = now + j.seconds[i] + bytes/c.bandwidth
		}
		if len(ends) == 0 {
			return ch
		}
		now = math.Inf(1)
		for _, at := range ends {
			now = min(now, at)
		}
		for i := range left { // in order of tasks: that of a map differs from run to run
			if at, ok := ends[i]; ok && at <= now {
				delete(ends, i)
				idle[ch.host[i]]++
				for _, d := range j.makes[i] {
					for _, t := range j.data[d].takers {
						if left[t]--; left[t] == 0 {
							ready = append(ready, t)
						}
					}
				}
			}
		}
	}
}

// greedy is upward rank, and the free host with fewest bytes to move.
func greedy(c *cluster, j *job) choice {
	rank, _ := c.ranks(j)
	return dynamic(c, j, func(ready []int) int {
		best := 0
		for k, i := range ready {
			if rank[i] > rank[ready[best]] {
				best = k
			}
		}
		return best
	}, true, rank)
}

// fifo is first come, first served, on the first host that is free.
func fifo(c *cluster, j *job) choice {
	first, turn := make([]float64, len(j.seconds)), 0.0
	return dynamic(c, j, func(ready []int) int {
		turn--
		first[ready[0]] = turn
		return 0
	}, false, first)
}

// random is any host, by its cores, and any order.
func random(c *cluster, j *job, seed uint64) choice {
	r := rand.New(rand.NewPCG(seed, 0))
	var of []int
	for h, n := range c.cores {
		of = append(of, slices.Repeat([]int{h}, n)...)
	}
	ch := choice{make([]int, len(j.seconds)), make([]float64, len(j.seconds))}
	for i := range ch.host {
		ch.host[i], ch.first[i] = of[r.IntN(len(of))], r.Float64()
	}
	return ch
}
