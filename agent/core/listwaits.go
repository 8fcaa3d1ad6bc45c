package core

import (
	"fmt"
	"strings"
)

// waitsFor says for people where a row runs, or what it waits for.
func (c *Core) waitsFor(at rowRef) (host, waits string) {
	w := at.row()
	switch at.job.at(at.task).state {
	case tWaiting:
		return "", c.waitsForInputs(w)
	case tReady:
		return "", c.waitsForPlace(at)
	case tDelayed:
		return "", "its next try"
	case tAway:
		switch o := w.out; {
		case o == nil || o.host == nil:
			return "", "an agent that runs it"
		case o.end != nil:
			return o.host.name, "its result, which is on its way from agent " + o.host.name
		default:
			return o.host.name, ""
		}
	case tPinning:
		return c.cfg.Agent, "its inputs, which are brought into memory"
	case tQueued:
		if r := c.runListed(at); r != nil {
			return c.cfg.Agent, fmt.Sprintf("its turn in executor %d", r.ex.id)
		}
		return c.cfg.Agent, "its turn in an executor"
	case tRunning:
		if r := c.runListed(at); r != nil && r.back {
			return c.cfg.Agent, "calls that it made, without its core"
		}
		return c.cfg.Agent, ""
	}
	return "", ""
}

// namedInputs is the most calls that are named for which a row waits.
const namedInputs = 3

// waitsForInputs names the calls that make what a row lacks.
func (c *Core) waitsForInputs(w *callRow) string {
	var makers []string
	lacks := 0
	for i := range w.args {
		a := &w.args[i]
		if a.there {
			continue
		}
		if lacks++; a.from != nil && a.from.row.job != nil && lacks <= namedInputs {
			makers = append(makers, a.from.row.job.rowName(a.from.row.task))
		}
	}
	switch {
	case lacks == 0:
		return "the graph that it runs"
	case len(makers) == 0 && w.shape == borrowed:
		return "the call to which it refers"
	case len(makers) == 0:
		return "an input that its parent brings"
	case lacks > len(makers):
		return fmt.Sprintf("the results of %s and %d more", strings.Join(makers, ", "), lacks-len(makers))
	case lacks == 1:
		return "the result of " + makers[0]
	}
	return "the results of " + strings.Join(makers, ", ")
}

// waitsForPlace says what a row lacks that could run: a resource, another agent, or a process.
func (c *Core) waitsForPlace(at rowRef) string {
	gs := at.job.groupOf(at.task)
	if gs.unfit != "" {
		return "another agent: it " + gs.unfit
	}
	for i, n := range gs.need {
		if n <= c.free[i] || ofDevices(i) {
			continue
		}
		switch i {
		case resCPU:
			return fmt.Sprintf("%g cpu: %g of %g are free", float64(n)/1000, float64(c.free[i])/1000, float64(c.total[i])/1000)
		case resMemory:
			return fmt.Sprintf("%d bytes of memory: %d of %d are free", n, c.free[i], c.total[i])
		}
		return fmt.Sprintf("%g %s: %g of %g are free", float64(n)/1000, c.cfg.Total.Custom[i-resCustom].Name, float64(c.free[i])/1000, float64(c.total[i])/1000)
	}
	if !c.fits(make(amounts, len(c.total)), gs.need) {
		return "a device"
	}
	return "a process that runs it"
}

// runListed finds the run of a row and changes nothing; nil when none is under way.
func (c *Core) runListed(at rowRef) *run {
	for _, ex := range c.execs {
		for _, r := range ex.queue {
			if r.job == at.job && r.task == at.task && !r.orphan {
				return r
			}
		}
	}
	return nil
}
