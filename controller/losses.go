package controller

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docker/go-units"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/controller/core"
	"github.com/cascade-run/cascade/controller/records"
	"github.com/cascade-run/cascade/dag"
)

// The link of an agent breaks before the core receives that the agent is lost: it may come
// back. Each job gets a record of the tasks that the agent has then: clients learn at once, and
// later, which tasks wait for the grace and restart after it.
type (
	agentLost struct {
		core.Tick
		name string
		at   time.Time
		why  records.LossCause
		text string // what the cause says besides
	}
	agentBack struct {
		core.Tick
		name        string
		incarnation uint64
		at          time.Time
	}
)

// lossCause says how a link broke, or ended, and of some causes more in words.
func lossCause(err error) (why records.LossCause, text string) {
	switch {
	case errors.Is(err, errGone):
		return records.LossEnded, ""
	case errors.Is(err, comms.ErrSilent):
		_, text, found := strings.Cut(err.Error(), comms.ErrSilent.Error()+": ")
		if !found {
			text = ""
		}
		return records.LossSilent, text
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, comms.ErrClosed):
		return records.LossClosed, ""
	}
	return records.LossFailed, err.Error()
}

// lost notes what an agent whose link broke has of jobs. c.turns is held.
func (c *Controller) lost(ev agentLost) {
	for _, h := range c.core.HeldBy(ev.name) {
		l := records.Loss{At: ev.at.UnixNano(), Agent: ev.name, Cause: ev.why, Why: ev.text, Grace: int64(cmp.Or(c.cfg.Grace, core.DefaultGrace)), Runs: h.Runs, Waiting: h.Waiting}
		if c.losses[ev.name] == nil {
			c.losses[ev.name] = map[comms.JobID]records.Loss{}
		}
		c.losses[ev.name][h.Job] = l
		c.store.PutLoss(h.Job, l, c.mustStore)
	}
}

// back notes that an agent is there again: the same process, which still has what it had, or
// another. c.turns is held.
func (c *Controller) back(ev agentBack) {
	for job, l := range c.losses[ev.name] {
		fate, incarnation := c.core.FateOf(ev.name, job)
		switch {
		case fate != core.FateHeld:
			continue
		case incarnation == ev.incarnation:
			l.Back = ev.at.UnixNano()
		default:
			l.Grace = 0 // its tasks ended with its process
		}
		c.store.PutLoss(job, l, c.mustStore)
	}
	delete(c.losses, ev.name)
}

// givenUp notes that the core waits no more for an agent, and of which jobs it did so before
// the grace had passed. c.turns is held.
func (c *Controller) givenUp(name string, now time.Time) {
	for job, l := range c.losses[name] {
		if fate, _ := c.core.FateOf(name, job); fate == core.FateRestart && now.UnixNano()-l.At < l.Grace {
			l.Grace = 0
			c.store.PutLoss(job, l, c.mustStore)
		}
	}
	delete(c.losses, name)
}

// lossesNow is how the losses of a job stand.
type lossesNow struct {
	awaited map[string]bool    // lost agents for which its tasks wait now
	open    map[lossOfJob]bool // losses of which tasks have yet to end
	alone   bool               // no agent is there that could run them
}

type lossOfJob struct {
	agent string
	at    int64
}

// lossesNow tells how the losses of a job stand. c.turns is held.
func (c *Controller) lossesNow(job comms.JobID) (lossesNow, error) {
	now := lossesNow{awaited: map[string]bool{}, open: map[lossOfJob]bool{}, alone: c.noAgent()}
	for name, of := range c.losses {
		if _, ok := of[job]; ok {
			fate, _ := c.core.FateOf(name, job)
			now.awaited[name] = fate == core.FateHeld
		}
	}
	losses, err := c.store.Losses(job)
	for i := range losses {
		l := &losses[i]
		now.open[lossOfJob{l.Agent, l.At}] = l.Back == 0 && c.core.Open(job, slices.Concat(l.Runs, l.Waiting))
	}
	return now, err
}

// noAgent tells whether no agent is there. c.turns is held.
func (c *Controller) noAgent() bool {
	for _, p := range c.peers {
		if p.who.Role == "agent" {
			return false
		}
	}
	return true
}

// restarted notes that the tasks of lost agents restart or move by a decision, and how many
// other tasks restart with those of one agent. c.turns is held. The losses are read from the
// store: the decision was made behind a barrier after they were last changed.
func (c *Controller) restarted(job comms.JobID, b *records.Batch) {
	all, err := c.store.Losses(job)
	if err != nil { // it is for people: the job goes on
		c.log.Error().Err(err).Stringer("job", job).Msg("cannot read the losses of a job: their story stays as it is")
		return
	}
	for _, l := range all {
		if !slices.Contains(b.Lost, l.Agent) || l.Back != 0 || l.Restart != 0 {
			continue
		}
		if l.Restart = b.At; len(b.Lost) == 1 {
			l.Others = othersOf(&l, b)
		}
		c.store.PutLoss(job, l, c.mustStore)
	}
}

// othersOf counts the tasks that restart by a decision and that the lost agent did not have:
// they had ended, and their outputs were lost with it, or are of a gang with its tasks.
func othersOf(l *records.Loss, b *records.Batch) uint64 {
	own := slices.Concat(l.Runs, l.Waiting)
	for _, a := range b.Unbegun {
		own = append(own, a.Run...)
	}
	return count(without(b.Reset, own)) + count(without(b.Moved, append(own, b.Reset...)))
}

// lossText says what becomes, or became, of the tasks of a job that a lost agent had. ended is
// when the job ended; 0: it has not. alone says that no agent is there.
func lossText(l *records.Loss, ended int64, alone bool) string {
	its := func(n uint64) string {
		if n == 1 {
			return "its task"
		}
		return fmt.Sprintf("its %d tasks", n)
	}
	runs, waiting := count(l.Runs), count(l.Waiting)
	restart, move, have := "restart", "move", "have"
	switch {
	case l.Restart != 0:
		restart, move, have = "restarted", "moved", "had"
	case ended != 0 && l.Back == 0 && ended-l.At >= l.Grace:
		was := "were"
		if runs+waiting == 1 {
			was = "was"
		}
		return fmt.Sprintf("%s %s lost with it", its(runs+waiting), was) // cancelled, or noted by an older build
	case l.Back != 0 || ended != 0:
		return its(runs+waiting) + " waited for it"
	case cmp.Or(runs, waiting) == 1:
		restart, move, have = "restarts", "moves", "has"
	}
	text := its(runs) + " " + restart
	if runs == 0 {
		text = fmt.Sprintf("%s, which %s not begun, %s", its(waiting), have, move)
	}
	grace := "at once"
	if alone && l.Restart == 0 && ended == 0 {
		return text + " when an agent is there"
	}
	if d := time.Duration(l.Grace); d >= 2*time.Minute {
		grace = "after a grace of " + units.HumanDuration(d)
	} else if d > 0 {
		grace = fmt.Sprintf("after a grace of %g s", d.Seconds())
	}
	switch text += " " + grace; l.Others {
	case 0:
		return text
	case 1:
		return text + ", and 1 other task restarted"
	}
	return fmt.Sprintf("%s, and %d other tasks restarted", text, l.Others)
}

func count(ranges []comms.Range) (n uint64) {
	for _, r := range ranges {
		n += uint64(r.Last) - uint64(r.First) + 1
	}
	return n
}

// lossesOf reads the losses of a job, and when it ended if it has.
func (c *Controller) lossesOf(job comms.JobID) (all []records.Loss, ended int64, err error) {
	if all, err = c.store.Losses(job); err != nil || len(all) == 0 {
		return nil, 0, err
	}
	row, err := c.store.Job(job)
	return all, row.Ended, err
}

// lossRows lists when agents were lost that had tasks of a job.
func (c *Controller) lossRows(p *pager, job comms.JobID, now lossesNow) error {
	losses, ended, err := c.lossesOf(job)
	last := map[string]int64{} // the agent's last loss: it is that for which is waited
	for i := range losses {
		last[losses[i].Agent] = losses[i].At
	}
	for i := range losses {
		l := &losses[i]
		if !p.add(func() any {
			return &comms.LossRow{Awaited: now.awaited[l.Agent] && last[l.Agent] == l.At, Open: now.open[lossOfJob{l.Agent, l.At}], At: stamp(l.At), Agent: l.Agent, Cause: l.Cause.String(), Why: l.Text(), Then: lossText(l, ended, now.alone), Running: count(l.Runs), Waiting: count(l.Waiting),
				Grace: seconds(l.Grace), Back: stamp(l.Back)}
		}) {
			break
		}
	}
	return err
}

// lossStory is the rows of a job's story about lost agents, by time, of the tasks of a
// choice or of all.
func (c *Controller) lossStory(job comms.JobID, g *dag.Graph, tasks core.Choice, all, alone bool) (rows []lossOfStory, err error) {
	losses, ended, err := c.lossesOf(job)
	if err != nil {
		return nil, err
	}
	for i := range losses {
		l := &losses[i]
		meets := func(r comms.Range) bool { return tasks.Meets(r) }
		if !all && !slices.ContainsFunc(l.Runs, meets) && !slices.ContainsFunc(l.Waiting, meets) {
			continue
		}
		task := ""
		if one, ok := tasks.One(); !all && ok {
			task = g.TaskName(one)
		}
		rows = append(rows, lossOfStory{l.At, &comms.StoryRow{At: stamp(l.At), Task: task, What: "agent lost", Cause: l.Text(), Agent: l.Agent, Detail: lossText(l, ended, alone)}})
		if l.Back != 0 {
			rows = append(rows, lossOfStory{l.Back, &comms.StoryRow{At: stamp(l.Back), Task: task, What: "agent back", Agent: l.Agent, Detail: "its tasks go on"}})
		}
	}
	slices.SortStableFunc(rows, func(a, b lossOfStory) int { return cmp.Compare(a.at, b.at) })
	return rows, nil
}

type lossOfStory struct {
	at  int64
	row *comms.StoryRow
}
