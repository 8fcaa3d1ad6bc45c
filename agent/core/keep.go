package core

import (
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/shm/ledger"
)

// Kept is a dataset that should outlive the agent.
type Kept struct {
	Job    comms.JobID
	Life   uint64 // of the job
	Desc   comms.Desc
	Key    ledger.Key
	Place  ledger.Place // where its bytes are, unless OnDisk
	OnDisk bool         // a spill file has them
}

// Kept lists the outputs of jobs whose bytes are in memory or in spill files, for
// an agent that ends. It changes nothing.
func (c *Core) Kept() []Kept {
	var all []Kept
	for _, j := range c.jobs {
		for _, ref := range j.sortedData() {
			d := j.data[ref]
			if !d.sealed || !j.wanted.has(j.graph, ref) {
				continue
			}
			info, ok := c.led.Dataset(j.key(d))
			if !ok || info.Place.Segment == 0 && !info.OnDisk {
				continue
			}
			all = append(all, Kept{Job: j.id, Life: j.life, Desc: d.desc, Key: j.key(d), Place: info.Place, OnDisk: info.OnDisk})
		}
	}
	return all
}

// adopt takes over the spilled datasets of an agent before. Their jobs exist
// without graph and tasks, until the controller assigns them again, says what to
// retain, or forgets them.
func (c *Core) adopt(states []comms.JobState) {
	var list []ledger.AdoptedDataset
	for _, s := range states {
		if c.byJob[s.Job] != nil {
			continue
		}
		j := c.newJob(&comms.Assign{Job: s.Job, Life: s.Life}, &dag.Graph{})
		j.adopted, j.over = true, true
		j.wanted = exports{exact: true, keep: map[comms.DatasetRef]bool{}}
		for _, d := range s.Datasets {
			if j.data[d.Ref] != nil {
				continue
			}
			j.wanted.keep[d.Ref] = true
			j.data[d.Ref] = &dataset{desc: d, sealed: true}
			list = append(list, ledger.AdoptedDataset{Key: Key(j.id, &d), Place: ledger.Place{Bytes: int64(d.Size)}, OnDisk: true, Refs: 1})
		}
	}
	rejected, err := c.led.Adopt(nil, list)
	c.must(err)
	for _, r := range rejected {
		if j, d := c.dataset(r.Key); d != nil {
			delete(j.data, d.desc.Ref)
		}
	}
}

// readopt makes an adopted job an ordinary one. The datasets that its Assign
// names are here; the others are freed.
func (c *Core) readopt(old *job, m *comms.Assign, g *dag.Graph) *job {
	c.unlist(old)
	j := c.newJob(m, g)
	for _, d := range m.Datasets {
		if have := old.data[d.Ref]; have != nil && j.valid(d.Ref) && have.desc.Attempt == d.Attempt {
			have.given = true
			j.data[d.Ref] = have
			delete(old.data, d.Ref)
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
	return comms.Desc{}, 0
}

// LatestLives joins what spill files hold by job, in the order given. Of a job that
// was deleted and submitted anew only the files of its latest life count: stale
// lists the others.
func LatestLives(files []comms.JobState) (latest []comms.JobState, stale []ledger.Key) {
	at := map[comms.JobID]int{}
	for _, f := range files {
		i, known := at[f.Job]
		switch {
		case !known:
			at[f.Job] = len(latest)
			latest = append(latest, f)
		case latest[i].Life == f.Life:
			latest[i].Datasets = append(latest[i].Datasets, f.Datasets...)
		default:
			if latest[i].Life < f.Life {
				latest[i], f = f, latest[i]
			}
			for k := range f.Datasets {
				stale = append(stale, Key(f.Job, &f.Datasets[k]))
			}
		}
	}
	return latest, stale
}
