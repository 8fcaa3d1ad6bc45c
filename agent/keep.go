//go:build linux

package agent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm/ledger"
)

// dataMeta is what a spill file or a note says of its dataset: a Snapshot of one.
func dataMeta(key ledger.Key, d comms.Desc, life uint64) []byte {
	job, _, _, _ := key.Split()
	return comms.Encode(&comms.Snapshot{Jobs: []comms.JobState{{Job: job, Datasets: []comms.Desc{d}, JobIncarnation: life}}})
}

// inheritance is what an earlier incarnation left behind.
type inheritance struct {
	sets     []core.Adopted
	segments []core.Segment
}

// adoptable finds what an earlier incarnation left, in shared memory and in spill
// files. Files without a use are removed; damaged ones are reported
// and left. No process of that incarnation lives.
func (a *Agent) adoptable() (left inheritance, err error) {
	index, notes, err := a.store.OpenIndex()
	if err != nil {
		return left, err
	}
	a.index = index
	notes, bad := a.store.Confirm(index, notes)
	spilled, damaged, err := a.store.ListSpilled()
	if err != nil {
		return left, err
	}
	for _, n := range notes {
		set, err := readMeta(n.Key, n.Meta, n.Place.Bytes)
		if err != nil {
			bad = append(bad, err)
			index.Strike(n.Key)
			continue
		}
		set.Place = n.Place
		left.sets = append(left.sets, set)
	}
	for _, s := range spilled {
		set, err := readMeta(s.Key, s.Meta, s.Bytes)
		if err != nil {
			bad = append(bad, err)
			if err := a.store.DropSpill(s.Key); err != nil {
				return left, err
			}
			continue
		}
		set.OnDisk = true
		left.sets = append(left.sets, set)
	}
	for _, err := range slices.Concat(bad, damaged) {
		a.log.Warn().Err(err).Msg("a dataset of the agent before is lost")
	}
	segments, err := a.store.Segments()
	for _, s := range segments {
		left.segments = append(left.segments, core.Segment{AdoptedSegment: s, Path: a.store.Path(s.Kind, s.ID)})
	}
	return left, err
}

// readMeta reads what a spill file or a note says of a dataset of n bytes.
func readMeta(key ledger.Key, meta []byte, n int64) (set core.Adopted, err error) {
	m, err := comms.Decode(meta)
	snapshot, ok := m.(*comms.Snapshot)
	if err != nil || !ok || len(snapshot.Jobs) != 1 || len(snapshot.Jobs[0].Datasets) != 1 {
		return set, fmt.Errorf("%v has no descriptor of this version (%w)", key, err)
	}
	j := &snapshot.Jobs[0]
	set = core.Adopted{Job: j.Job, JobIncarnation: j.JobIncarnation, Desc: j.Datasets[0]}
	if core.Key(set.Job, &set.Desc) != key || set.Desc.Size != uint64(n) {
		return set, fmt.Errorf("%v has the descriptor of another dataset", key)
	}
	return set, nil
}

// keep writes what should outlive the agent to the state folder and removes all
// other spill files. All executors are dead and the lanes are idle.
func (l *loop) keep() error {
	a := l.agent
	var all []error
	kept := map[ledger.Key]bool{}
	for _, k := range l.core.Kept() {
		if !k.OnDisk {
			if err := a.store.Keep(k.Key, dataMeta(k.Key, k.Desc, k.JobIncarnation), k.Place); err != nil {
				all = append(all, fmt.Errorf("keep an output of job %s: %w", k.Job, err))
				continue
			}
		}
		kept[k.Key] = true
	}
	list, _, err := a.store.ListSpilled()
	all = append(all, err)
	for _, s := range list {
		if !kept[s.Key] {
			all = append(all, a.store.DropSpill(s.Key))
		}
	}
	return errors.Join(all...)
}
