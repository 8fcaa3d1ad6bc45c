package core

import (
	"fmt"
	"math"
	"slices"
)

var nan = math.NaN()

func sortText(s []string) { slices.Sort(s) }

func copied(p *Checkpoint) *Checkpoint {
	if p == nil {
		return nil
	}
	q := *p
	return &q
}

// TrialName is the name of a trial in files and tables.
func TrialName(id ID) string { return fmt.Sprintf("t%05d", int(id)) }

// CheckpointName is the name of a checkpoint that an attempt writes at a result. No other has it.
func CheckpointName(id ID, attempt, seq int) string {
	return fmt.Sprintf("%s/checkpoint_%03d_%06d", TrialName(id), attempt, seq)
}

func checkpointName(t *Trial) string { return CheckpointName(t.ID, t.Attempt, t.Seq) }

// register takes a checkpoint of the last result into the history, and deletes those that are not kept any more.
func (c *Core) register(t *Trial, name string) {
	p := Checkpoint{Name: name, Results: len(t.Scores), last: t.Last}
	if t.resume != nil && t.Seq == 0 {
		p.Iteration, p.Time = t.resume.Iteration, t.resume.Time
	} else if t.Last != nil {
		p.Iteration, p.Time = t.Last.Iteration, t.Last.Time
	}
	if t.Last != nil {
		if x, ok := t.Last.Value(c.opts.KeepBy); ok {
			p.Score = &x
		}
	}
	t.Checkpoints = append(t.Checkpoints, p)
	c.unpin(t)
	c.retain(t)
	c.deliver(t)
}

// retain deletes the checkpoints of a trial beyond the best and the newest.
func (c *Core) retain(t *Trial) {
	if c.opts.Keep <= 0 || len(t.Checkpoints) <= c.opts.Keep {
		return
	}
	order := make([]int, len(t.Checkpoints))
	for i := range order {
		order[i] = i
	}
	if c.opts.KeepBy != "" {
		slices.SortStableFunc(order, func(i, j int) int {
			x, y := c.keepScore(t.Checkpoints[i]), c.keepScore(t.Checkpoints[j])
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return i - j
		})
	}
	kept := map[int]bool{len(t.Checkpoints) - 1: true}
	for _, i := range order[len(order)-c.opts.Keep:] {
		kept[i] = true
	}
	var left []Checkpoint
	var names []string
	for i, p := range t.Checkpoints {
		if kept[i] || c.pins[p.Name] > 0 {
			left = append(left, p)
		} else {
			names = append(names, p.Name)
		}
	}
	t.Checkpoints = left
	if len(names) > 0 {
		c.do(Action{Kind: Delete, Trial: t.ID, Names: names})
	}
}

func (c *Core) keepScore(p Checkpoint) float64 {
	switch {
	case p.Score == nil || math.IsNaN(*p.Score):
		return math.Inf(-1)
	case c.opts.KeepMin:
		return -*p.Score
	}
	return *p.Score
}

// discard deletes the checkpoints of a trial, but for those that others need.
func (c *Core) discard(t *Trial) {
	var names []string
	var left []Checkpoint
	for _, p := range t.Checkpoints {
		if c.pins[p.Name] > 0 {
			left = append(left, p)
		} else {
			names = append(names, p.Name)
		}
	}
	t.Checkpoints = nil
	t.lent = append(t.lent, left...)
	if len(names) > 0 {
		c.do(Action{Kind: Delete, Trial: t.ID, Names: names})
	}
}

func (c *Core) discardNewest(t *Trial) {
	last := len(t.Checkpoints) - 1
	p := t.Checkpoints[last]
	t.Checkpoints = t.Checkpoints[:last]
	if c.pins[p.Name] > 0 {
		t.lent = append(t.lent, p)
	} else {
		c.do(Action{Kind: Delete, Trial: t.ID, Names: []string{p.Name}})
	}
}

// rewind sets from where the trial runs on: its newest checkpoint, or the one that it took over.
func (t *Trial) rewind() {
	if p := t.Latest(); p != nil || t.donor == nil {
		t.resume = copied(p)
	}
}

// await has a PAUSED trial that takes over another run from that one's newest checkpoint, or wait while it saves.
func (c *Core) await(t *Trial) {
	donor, clone := c.trials[t.clone.Donor], t.clone
	if donor.saving != "" {
		donor.donated = append(donor.donated, t.ID)
		return
	}
	t.clone, t.Phase = nil, Waiting
	p := copied(donor.Latest())
	if p == nil { // the save failed, and there is none before: it goes on as it was
		t.rewind()
		t.Reason = fmt.Sprintf("trial %d, which it was to take over, has no checkpoint", donor.ID)
		return
	}
	c.pins[p.Name]++
	c.unpin(t)
	c.discard(t)
	p.Results, p.last = len(t.Scores), t.Last // its own history stays as it is
	t.resume, t.donor = p, donor
	t.Config = clone.Config
	t.Tag += clone.Tag
}

// deliver has the trials that await a checkpoint of t go on.
func (c *Core) deliver(t *Trial) {
	waiting := t.donated
	t.donated = nil
	for _, id := range waiting {
		if d := c.trials[id]; d.Phase == Awaiting && d.clone != nil && d.clone.Donor == t.ID {
			saving := t.saving
			t.saving = ""
			c.await(d)
			t.saving = saving
		}
	}
}

// unpin ends the need of a trial for the checkpoint of another from which it started.
func (c *Core) unpin(t *Trial) {
	if t.donor == nil {
		return
	}
	name, donor := t.resume.Name, t.donor
	t.donor = nil
	if c.pins[name]--; c.pins[name] > 0 {
		return
	}
	delete(c.pins, name)
	if i := slices.IndexFunc(donor.lent, func(p Checkpoint) bool { return p.Name == name }); i >= 0 {
		donor.lent = slices.Delete(donor.lent, i, i+1)
		c.do(Action{Kind: Delete, Trial: donor.ID, Names: []string{name}})
		return
	}
	c.retain(donor)
}
