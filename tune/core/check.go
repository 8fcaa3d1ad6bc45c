package core

import (
	"errors"
	"fmt"
)

// Check returns what is wrong with the state, for tests: it takes time that grows with the number of trials.
func (c *Core) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	counts, placing := map[Status]int{}, 0
	queued, names := map[ID]int{}, map[string]bool{}
	for _, q := range [][]entry{c.interrupted, c.queue} {
		for _, e := range q {
			if t := c.trials[e.id]; t.Phase == Queued && t.queue == e.queue {
				queued[e.id]++
			}
		}
	}
	pins := map[string]int{}
	for _, t := range c.trials {
		counts[t.Status]++
		if t.Phase == Placing {
			placing++
		}
		phases := map[Status][]Phase{Pending: {Queued, Placing}, Running: {Stepping, Saving, Draining}, Paused: {Waiting, Awaiting}, Errored: {""}, Terminated: {""}}
		legal := false
		for _, p := range phases[t.Status] {
			legal = legal || p == t.Phase
		}
		if !legal {
			wrong("trial %d is %s %s", t.ID, t.Status, t.Phase)
		}
		if want := t.Phase == Queued; (queued[t.ID] == 1) != want || queued[t.ID] > 1 {
			wrong("trial %d is %s and %d times in the run queue", t.ID, t.Phase, queued[t.ID])
		}
		if len(t.Scores) != len(t.Iterations) {
			wrong("trial %d has %d scores and %d iterations", t.ID, len(t.Scores), len(t.Iterations))
		}
		if (t.saving != "") != (t.Phase == Saving) {
			wrong("trial %d is %s and saves %q", t.ID, t.Phase, t.saving)
		}
		for i := 1; i < len(t.Iterations); i++ {
			if t.Iterations[i] <= t.Iterations[i-1] && t.Tag == "" {
				wrong("trial %d has result %d behind %d", t.ID, t.Iterations[i], t.Iterations[i-1])
			}
		}
		for _, p := range append(append([]Checkpoint(nil), t.Checkpoints...), t.lent...) {
			if names[p.Name] {
				wrong("checkpoint %s is there twice", p.Name)
			}
			names[p.Name] = true
			if p.Results > len(t.Scores) {
				wrong("checkpoint %s has %d results of %d", p.Name, p.Results, len(t.Scores))
			}
		}
		if t.donor != nil {
			pins[t.resume.Name]++
		}
	}
	for name, n := range c.pins {
		if pins[name] != n {
			wrong("checkpoint %s is pinned %d times, and %d trials run from it", name, n, pins[name])
		}
		if !names[name] {
			wrong("checkpoint %s is pinned and was deleted", name)
		}
	}
	for _, s := range Statuses {
		if counts[s] != c.counts[s] {
			wrong("%d trials are %s, the count says %d", counts[s], s, c.counts[s])
		}
	}
	if placing != c.placing {
		wrong("%d trials are being placed, the count says %d", placing, c.placing)
	}
	if c.finished && counts[Pending]+counts[Running]+counts[Paused] > 0 {
		wrong("the experiment has ended and %v have not", counts)
	}
	errs = append(errs, c.wanted.check())
	return errors.Join(errs...)
}
