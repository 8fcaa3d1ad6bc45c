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
		why  core.LossCause
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
func lossCause(err error) (why core.LossCause, text string) {
	switch {
	case errors.Is(err, errGone):
		return core.LossEnded, ""
	case errors.Is(err, comms.ErrSilent):
		_, text, found := strings.Cut(err.Error(), comms.ErrSilent.Error()+": ")
		if !found {
			text = ""
		}
		return core.LossSilent, text
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, comms.ErrClosed):
		return core.LossClosed, ""
	}
	return core.LossFailed, err.Error()
}

// lost notes what an agent whose link broke has of jobs. c.turns is held.
func (c *Controller) lost(ev agentLost) {
	for _, h := range c.core.HeldBy(ev.name) {
		l := core.Loss{At: ev.at.UnixNano(), Agent: ev.name, Cause: ev.why, Why: ev.text, Grace: int64(cmp.Or(c.cfg.Grace, core.DefaultGrace)), Runs: h.Runs, Waiting: h.Waiting}
		if c.losses[ev.name] == nil {
			c.losses[ev.name] = map[comms.JobID]core.Loss{}
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
}

type lossOfJob struct {
	agent string
	at    int64
}

// lossesNow tells how the losses of a job stand. c.turns is held.
func (c *Controller) lossesNow(job comms.JobID) (lossesNow, error) {
	now := lossesNow{map[string]bool{}, map[lossOfJob]bool{}}
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

// lossText says what becomes of the tasks of a job that a lost agent has.
func lossText(l *core.Loss) string {
	grace := units.HumanDuration(time.Duration(l.Grace))
	if d := time.Duration(l.Grace); d < 2*time.Minute {
		grace = fmt.Sprintf("%g s", d.Seconds())
	}
	runs, waiting := count(l.Runs), count(l.Waiting)
	var text string
	switch {
	case runs == 1:
		text = "its task restarts"
	case runs > 1:
		text = fmt.Sprintf("its %d tasks restart", runs)
	case waiting == 1:
		text = "its task, which has not begun, moves"
	default:
		text = fmt.Sprintf("its %d tasks, which have not begun, move", waiting)
	}
	if l.Grace == 0 {
		return text + " at once"
	}
	return text + " after a grace of " + grace
}

func count(ranges []comms.Range) (n uint64) {
	for _, r := range ranges {
		n += uint64(r.Last) - uint64(r.First) + 1
	}
	return n
}

// lossRows lists when agents were lost that had tasks of a job.
func (c *Controller) lossRows(p *pager, job comms.JobID, now lossesNow) error {
	losses, err := c.store.Losses(job)
	last := map[string]int64{} // the agent's last loss: it is that for which is waited
	for i := range losses {
		last[losses[i].Agent] = losses[i].At
	}
	for i := range losses {
		l := &losses[i]
		if !p.add(func() any {
			return &comms.LossRow{Awaited: now.awaited[l.Agent] && last[l.Agent] == l.At, Open: now.open[lossOfJob{l.Agent, l.At}], At: stamp(l.At), Agent: l.Agent, Cause: l.Cause.String(), Why: l.Text(), Then: lossText(l), Running: count(l.Runs), Waiting: count(l.Waiting),
				Grace: seconds(l.Grace), Back: stamp(l.Back)}
		}) {
			break
		}
	}
	return err
}

// lossStory is the rows of a job's story about lost agents, by time, of the tasks of a
// choice or of all.
func (c *Controller) lossStory(job comms.JobID, g *dag.Graph, tasks core.Choice, all bool) (rows []lossOfStory, err error) {
	losses, err := c.store.Losses(job)
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
		rows = append(rows, lossOfStory{l.At, &comms.StoryRow{At: stamp(l.At), Task: task, What: "agent lost", Cause: l.Text(), Agent: l.Agent, Detail: lossText(l)}})
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
