package core

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// Kept is a dataset that should outlive the agent.
type Kept struct {
	Job            comms.JobID
	JobIncarnation uint64 // of the job
	Desc           comms.Desc
	Key            ledger.Key
	Place          ledger.Place // where its bytes are, unless OnDisk
	OnDisk         bool         // a spill file has them
}

// Kept lists the outputs of jobs whose bytes are in memory or in spill files, for
// an agent that ends. It changes nothing.
func (c *Core) Kept() []Kept {
	var all []Kept
	for _, j := range c.jobs {
		for _, ref := range j.sortedData() {
			d := j.data[ref]
			if j.dynamic() || !d.sealed || !j.keeps(d) {
				continue
			}
			info, ok := c.led.Dataset(j.key(d))
			if !ok || info.Place.Segment == 0 && !info.OnDisk {
				continue
			}
			all = append(all, Kept{Job: j.id, JobIncarnation: j.life, Desc: d.desc, Key: j.key(d), Place: info.Place, OnDisk: info.OnDisk})
		}
	}
	return all
}

// Adopted is a dataset that an earlier incarnation left behind.
type Adopted struct {
	Job            comms.JobID
	JobIncarnation uint64 // of the job
	Desc           comms.Desc
	Place          ledger.Place // where it was sealed in memory; without a segment it is nowhere there
	OnDisk         bool         // a spill file has it
}

func (a *Adopted) key() ledger.Key { return Key(a.Job, &a.Desc) }

func (a *Adopted) noted() bool { return a.Place.Segment > 0 }

// Segment is a segment that an earlier incarnation left behind.
type Segment struct {
	ledger.AdoptedSegment
	Path string // of its file
}

// adopt takes over the datasets of an agent before. Their jobs exist without
// graph and tasks, until the controller assigns them again, says what to retain,
// or forgets them.
func (c *Core) adopt(segments []Segment, left []Adopted) {
	var held int64
	segs := make([]ledger.AdoptedSegment, 0, len(segments))
	for _, s := range segments {
		segs = append(segs, s.AdoptedSegment)
		c.segs[s.ID] = &segment{path: s.Path, size: s.Bytes, ready: true}
		held += s.Bytes
	}
	if held > c.cfg.Memory { // it was started with more memory than this one
		for i := range left {
			if left[i].noted() {
				c.effect(ledger.Strike{Key: left[i].key()})
				left[i].Place = ledger.Place{}
			}
		}
	}
	var list []ledger.AdoptedDataset
	for _, a := range c.latest(left) {
		a.Place.Bytes = int64(a.Desc.Size)
		list = append(list, ledger.AdoptedDataset{Key: a.key(), Place: a.Place, InMemory: a.noted(), OnDisk: a.OnDisk, Refs: 1})
		c.adoptData(&a)
	}
	rejected, err := c.led.Adopt(segs, list)
	c.must(err)
	for _, r := range rejected {
		if j, d := c.dataset(r.Key); d != nil {
			delete(j.data, d.desc.Ref)
		}
	}
	c.effects()
}

// latest joins what memory and disk have of each dataset, and gives up all but
// the latest life of a job that was deleted and submitted anew, and of each
// dataset all but the latest attempt: the one before was given up and still read.
func (c *Core) latest(left []Adopted) (sets []Adopted) {
	slices.SortStableFunc(left, func(x, y Adopted) int {
		return cmp.Or(bytes.Compare(x.Job[:], y.Job[:]), cmp.Compare(y.JobIncarnation, x.JobIncarnation), x.Desc.Ref.Compare(y.Desc.Ref), cmp.Compare(y.Desc.Attempt, x.Desc.Attempt))
	})
	life := map[comms.JobID]uint64{}
	for _, a := range left {
		if _, known := life[a.Job]; !known {
			life[a.Job] = a.JobIncarnation
		}
		var last *Adopted
		if n := len(sets); n > 0 {
			last = &sets[n-1]
		}
		switch {
		case !a.noted() && !a.OnDisk:
		case a.JobIncarnation == life[a.Job] && (last == nil || last.Job != a.Job || last.Desc.Ref != a.Desc.Ref):
			sets = append(sets, a)
		case a.JobIncarnation == life[a.Job] && last.Desc.Attempt == a.Desc.Attempt:
			if last.OnDisk = last.OnDisk || a.OnDisk; a.noted() {
				last.Place = a.Place
			}
		case a.noted():
			c.effect(ledger.Strike{Key: a.key()})
		default:
			c.effect(ledger.DropSpill{Key: a.key()})
		}
	}
	return sets
}

// adoptData makes a dataset known, and its job if need be.
func (c *Core) adoptData(a *Adopted) {
	j := c.byJob[a.Job]
	if j == nil {
		j = c.newJob(&comms.Assign{Job: a.Job, JobIncarnation: a.JobIncarnation}, tenantOf("", a.Job), &dag.Graph{})
		j.adopted, j.over = true, true
		j.wanted = exports{exact: true, keep: map[comms.DatasetRef]bool{}}
	}
	j.wanted.keep[a.Desc.Ref] = true
	j.data[a.Desc.Ref] = &dataset{desc: a.Desc, sealed: true}
}

// readopt makes an adopted job an ordinary one. The datasets that its Assign
// names are here, and outputs of the job that count: an Assign names only what the
// tasks of this agent read. Those of a task that has ended count however it did: what
// it had published by then stays. The others are freed.
func (c *Core) readopt(old *job, m *comms.Assign, g *dag.Graph) *job {
	c.unlist(old)
	j := c.newJob(m, tenantOf(m.Tenant, m.Job), g)
	for _, d := range m.Datasets {
		if have := old.data[d.Ref]; have != nil && j.valid(d.Ref) && have.desc.Attempt == d.Attempt {
			have.given, j.given = true, true
			j.data[d.Ref] = have
			delete(old.data, d.Ref)
		}
	}
	for ref, have := range old.data {
		i := sort.Search(len(m.Ended), func(i int) bool { return m.Ended[i].Last >= ref.Task })
		if i < len(m.Ended) && m.Ended[i].First <= ref.Task && j.valid(ref) && j.wanted.has(g, ref) {
			have.given, j.given = true, true
			j.data[ref] = have
			delete(old.data, ref)
			c.grow(j, ref)
		}
	}
	c.keepOnly(old, nil)
	return j
}

// describe returns the descriptor of a dataset, and the life of its job. It may
// have been given up already.
func (c *Core) describe(k ledger.Key) (comms.Desc, uint64) {
	if j, d := c.dataset(k); d != nil {
		return d.desc, j.life
	}
	if l := c.loans[k]; l != nil {
		return l.desc, l.life
	}
	return comms.Desc{}, 0
}
