package main

import (
	"math"

	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/planner"
	"github.com/cascade-run/cascade/profiles"
)

// job is a recorded workflow as arrays. Each task occupies one core.
type job struct {
	seconds []float64
	data    []item
	makes   [][]int // of each task, what it makes
	takes   [][]int // of each task, what it takes
}

type item struct {
	bytes  float64
	maker  int
	takers []int
}

func newJob(g *dag.Graph, s profiles.Snapshot) (*job, error) {
	n := g.NumTasks()
	j := &job{seconds: make([]float64, n), makes: make([][]int, n), takes: make([][]int, n)}
	known := map[[2]int]int{}
	for i := range n {
		j.seconds[i] = s.Predict(planner.SignatureOf(g, g.GroupIndex(dag.TaskIndex(i)))).Seconds
		ins, err := g.Inputs(dag.TaskIndex(i))
		if err != nil {
			return nil, err
		}
		for _, in := range ins {
			for _, src := range in.Sources {
				key := [2]int{int(src.Task), int(src.Output)}
				d, ok := known[key]
				if !ok {
					d = len(j.data)
					known[key] = d
					group := g.Group(src.Task)
					j.data = append(j.data, item{maker: int(src.Task),
						bytes: s.Output(planner.SignatureOf(g, g.GroupIndex(src.Task)), group.Outputs[src.Output].Name, len(group.Outputs))})
					j.makes[src.Task] = append(j.makes[src.Task], d)
				}
				j.data[d].takers = append(j.data[d].takers, i)
				j.takes[i] = append(j.takes[i], d)
			}
		}
	}
	return j, nil
}

// cluster is hosts by their cores, and what lies between them.
type cluster struct {
	name      string
	cores     []int
	bandwidth float64 // bytes a second, in and out of each host
}

const latency = planner.DefaultLatency

// choice is what a method decides: a host for each task, and who goes first.
type choice struct {
	host  []int
	first []float64
}

// flow is a datum on its way.
type flow struct {
	datum, from, to int
	left, rate      float64
	begins          float64
}

// judgement is one play of a choice.
type judgement struct {
	j     *job
	c     *cluster
	ch    choice
	now   float64
	idle  []int
	wait  [][]int // of each host, tasks that are ready
	miss  []int
	ends  map[int]float64 // of what runs
	flows []*flow

	// Of a lazy play: data moves when a task that has a core wants it, and not before.
	lazy   bool
	has    map[[2]int]bool  // datum and host
	wanted map[[2]int][]int // tasks that have a core and wait for that
	lack   []int            // of each task that has a core, data that is on its way
}

// play returns the makespan of a choice. It looks at all that runs and moves at
// each event: plain, not quick.
func (c *cluster) play(j *job, ch choice) float64 { return c.judge(j, ch, false) }

// judge is play; lazy fetches data only when a task has a core.
func (c *cluster) judge(j *job, ch choice, lazy bool) float64 {
	p := &judgement{j: j, c: c, ch: ch, idle: append([]int(nil), c.cores...), wait: make([][]int, len(c.cores)), miss: make([]int, len(j.seconds)), ends: map[int]float64{}}
	p.lazy, p.has, p.wanted, p.lack = lazy, map[[2]int]bool{}, map[[2]int][]int{}, make([]int, len(j.seconds))
	for i := range j.seconds {
		if p.miss[i] = len(j.takes[i]); p.miss[i] == 0 {
			p.wait[ch.host[i]] = append(p.wait[ch.host[i]], i)
		}
	}
	for {
		p.start()
		next := p.next()
		if math.IsInf(next, 1) {
			return p.now
		}
		p.advance(next)
	}
}

func (p *judgement) start() {
	for h := range p.wait {
		for p.idle[h] > 0 && len(p.wait[h]) > 0 {
			best := 0
			for k, i := range p.wait[h] {
				if p.ch.first[i] > p.ch.first[p.wait[h][best]] {
					best = k
				}
			}
			i := p.wait[h][best]
			p.wait[h] = append(p.wait[h][:best], p.wait[h][best+1:]...)
			p.idle[h]--
			if p.lazy && p.fetch(i, h) {
				continue
			}
			p.ends[i] = p.now + p.j.seconds[i]
		}
	}
}

// fetch has what a task takes brought to its host, and tells whether anything is missing.
func (p *judgement) fetch(i, host int) bool {
	for _, d := range p.j.takes[i] {
		k := [2]int{d, host}
		if p.has[k] {
			continue
		}
		p.lack[i]++
		if p.wanted[k] = append(p.wanted[k], i); len(p.wanted[k]) == 1 {
			p.flows = append(p.flows, &flow{datum: d, from: p.ch.host[p.j.data[d].maker], to: host, left: p.j.data[d].bytes, begins: p.now + latency})
		}
	}
	return p.lack[i] > 0
}

// fetched starts the tasks that waited for a datum alone.
func (p *judgement) fetched(d, host int) {
	k := [2]int{d, host}
	p.has[k] = true
	for _, i := range p.wanted[k] {
		if p.lack[i]--; p.lack[i] == 0 {
			p.ends[i] = p.now + p.j.seconds[i]
		}
	}
	delete(p.wanted, k)
}

func (p *judgement) next() float64 {
	next := math.Inf(1)
	for _, at := range p.ends {
		next = min(next, at)
	}
	for _, f := range p.flows {
		switch {
		case f.begins > p.now:
			next = min(next, f.begins)
		case f.rate > 0:
			next = min(next, p.now+f.left/f.rate)
		default:
			next = p.now
		}
	}
	return next
}

// near is the time within which events count as one.
const near = 1e-9

func (p *judgement) advance(next float64) {
	moving := p.flows[:0]
	var there []*flow
	changed := false
	for _, f := range p.flows {
		if f.begins <= p.now {
			f.left -= f.rate * (next - p.now)
		} else if f.begins <= next+near {
			f.begins, changed = next, true
		}
		if f.begins <= next && f.left <= f.rate*near+1e-6 {
			there, changed = append(there, f), true
			continue
		}
		moving = append(moving, f)
	}
	p.flows, p.now = moving, next
	for _, f := range there {
		if p.lazy {
			p.fetched(f.datum, f.to)
		} else {
			p.deliver(f.datum, f.to)
		}
	}
	for i, at := range p.ends {
		if at <= next+near {
			delete(p.ends, i)
			p.idle[p.ch.host[i]]++
			p.publish(i)
		}
	}
	if changed {
		p.share()
	}
}

func (p *judgement) publish(i int) {
	home := p.ch.host[i]
	for _, d := range p.j.makes[i] {
		sent := map[int]bool{home: true}
		p.has[[2]int{d, home}] = true
		p.deliver(d, home)
		for _, t := range p.j.data[d].takers {
			to := p.ch.host[t]
			switch {
			case sent[to]:
			case p.lazy:
				sent[to] = true
				p.deliver(d, to) // it is somewhere: that will do to wait for a core
			default:
				sent[to] = true
				p.flows = append(p.flows, &flow{datum: d, from: home, to: to, left: p.j.data[d].bytes, begins: p.now + latency})
			}
		}
	}
}

func (p *judgement) deliver(d, host int) {
	for _, t := range p.j.data[d].takers {
		if p.ch.host[t] != host {
			continue
		}
		if p.miss[t]--; p.miss[t] == 0 {
			p.wait[host] = append(p.wait[host], t)
		}
	}
}

// share gives each flow its max-min fair rate: the fullest end of any host fixes
// the rate of its flows, until all have one.
func (p *judgement) share() {
	hosts := len(p.c.cores)
	room, count := make([]float64, 2*hosts), make([]int, 2*hosts)
	var free []*flow
	for _, f := range p.flows {
		if f.rate = 0; f.begins <= p.now {
			free = append(free, f)
			count[f.from]++
			count[hosts+f.to]++
		}
	}
	for k := range room {
		room[k] = p.c.bandwidth
	}
	for len(free) > 0 {
		tight := -1
		for k := range room {
			if count[k] > 0 && (tight < 0 || room[k]/float64(count[k]) < room[tight]/float64(count[tight])) {
				tight = k
			}
		}
		rate := room[tight] / float64(count[tight])
		rest := free[:0]
		for _, f := range free {
			if f.from != tight && hosts+f.to != tight {
				rest = append(rest, f)
				continue
			}
			f.rate = rate
			for _, k := range [2]int{f.from, hosts + f.to} {
				room[k] = max(room[k]-rate, 0)
				count[k]--
			}
		}
		free = rest
	}
}
