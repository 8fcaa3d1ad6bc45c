//go:build linux

package agent

import (
	"errors"
	"fmt"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm"
	"github.com/cascade-run/cascade/shm/ledger"
)

// spillMeta is what a spill file says of its dataset: a Snapshot of one.
func spillMeta(key ledger.Key, d comms.Desc, life uint64) []byte {
	job, _, _, _ := key.Split()
	return comms.Encode(&comms.Snapshot{Jobs: []comms.JobState{{Job: job, Datasets: []comms.Desc{d}, Life: life}}})
}

// adoptable reads what the spill files of an earlier incarnation hold. Files
// that nobody can use any more are removed; damaged ones are reported and left.
func (a *Agent) adoptable() ([]comms.JobState, error) {
	list, bad, err := a.store.ListSpilled()
	if err != nil {
		return nil, err
	}
	for _, err := range bad {
		a.log.Warn().Err(err).Msg("a spilled dataset is lost")
	}
	var states []comms.JobState
	for _, s := range list {
		state, err := readSpillMeta(s)
		if err != nil {
			a.log.Warn().Err(err).Msg("a spilled dataset is lost")
			if err := a.store.DropSpill(s.Key); err != nil {
				return nil, err
			}
			continue
		}
		states = append(states, state)
	}
	latest, stale := core.LatestLives(states)
	for _, k := range stale {
		if err := a.store.DropSpill(k); err != nil {
			return nil, err
		}
	}
	return latest, nil
}

func readSpillMeta(s shm.Spilled) (comms.JobState, error) {
	m, err := comms.Decode(s.Meta)
	snapshot, ok := m.(*comms.Snapshot)
	if err != nil || !ok || len(snapshot.Jobs) != 1 || len(snapshot.Jobs[0].Datasets) != 1 {
		return comms.JobState{}, fmt.Errorf("spill file of %v has no descriptor of this version (%w)", s.Key, err)
	}
	state := snapshot.Jobs[0]
	d := state.Datasets[0]
	if core.Key(state.Job, &d) != s.Key || d.Size != uint64(s.Bytes) {
		return comms.JobState{}, fmt.Errorf("spill file of %v describes another dataset", s.Key)
	}
	return state, nil
}

// keep writes what should outlive the agent to the state folder and removes all
// other spill files. All executors are dead and the lanes are idle.
func (l *loop) keep() error {
	a := l.agent
	var all []error
	kept := map[ledger.Key]bool{}
	for _, k := range l.core.Kept() {
		if !k.OnDisk {
			if err := a.store.Spill(k.Key, spillMeta(k.Key, k.Desc, k.Life), k.Place); err != nil {
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
