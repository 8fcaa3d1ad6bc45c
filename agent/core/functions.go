package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
)

// What the tasks of a job call is compared with what the executors of their
// environment have, as early as that is known:
//
//	Assign ─▶ BuildEnv ─▶ EnvReady ─▶ one executor ─▶ Hello ─▶ all groups of the environment: mistakes? ─▶ the job stops
//
// A task that may fail is left alone until it is its turn.

// registryMismatch compares what the submitting program has registered with what
// an executor has. It names all differences, in order; "" when there is none.
func registryMismatch(want []comms.FuncSig, have dag.Functions) string {
	var diff, missing []string
	for _, f := range want {
		sig, ok := have[f.Name]
		switch {
		case !ok:
			missing = append(missing, f.Name)
		case sig != f.Sig:
			diff = append(diff, fmt.Sprintf("the program has %s%s, the executor %s%s", f.Name, f.Sig, f.Name, sig))
		}
	}
	slices.Sort(diff)
	if slices.Sort(missing); len(missing) > 0 {
		diff = append(diff, "missing in the executor: "+strings.Join(missing, ", "))
	}
	return strings.Join(diff, "; ")
}

// universal tells whether each executor can run the group's tasks: commands and inputs; those
// of a session its program can.
func (gs *groupState) universal() bool {
	return gs.group.Run.Command != nil || gs.group.IsInput() || gs.group.IsSession() || gs.group.IsDoor()
}

// usable tells why a group's tasks cannot run in a pool's executors; "" when
// they can. It is asked when an executor of the pool is up.
func (c *Core) usable(j *job, gs *groupState, p *pool) string {
	if p = p.functional(); gs.checked == p || gs.universal() {
		return ""
	}
	if why := c.different(j, gs.class.env.name, p); why != "" {
		return why
	}
	if j.dynamic() { // what it passes was looked at where it was called
		_, has := p.funcs[gs.group.Run.Function]
		if _, late := p.funcs["*"]; !has && !late {
			return gs.group.Run.Function + " is not registered in " + gs.where(p)
		}
		gs.checked = p
		return ""
	}
	if why := gs.mistake(p); why != "" {
		return why
	}
	gs.checked = p
	return ""
}

// different tells how the submitting program and the executors in which its functions
// run differ; "" when they do not. In environments of others it has no functions.
func (c *Core) different(j *job, env string, p *pool) string {
	if env != "" && env != dag.ProgramEnvironment {
		return ""
	}
	diff := registryMismatch(j.registry, p.funcs)
	if diff == "" {
		return ""
	}
	text := fmt.Sprintf("the submitting program and the executor on agent %s are of different builds: %s", c.cfg.Agent, diff)
	if env == "" {
		text += " (the agent runs an executor of its own: a program that dials WithProgram is sent with its jobs)"
	}
	return text
}

// mistake tells what a group wants of its function that the executors of a pool
// do not have; "" when they have all.
func (gs *groupState) mistake(p *pool) string {
	if _, ok := p.fits[gs.group]; ok {
		return ""
	}
	message, hint := p.check(gs.group, gs.where(p))
	if hint != "" {
		message += " (" + hint + ")"
	}
	if message == "" && gs.few {
		if len(p.fits) >= maxFits || p.fits == nil {
			p.fits = map[*dag.Group]struct{}{}
		}
		p.fits[gs.group] = struct{}{}
	}
	return message
}

// where names the executors of a pool for people.
func (gs *groupState) where(p *pool) string {
	if p.key.env == "" {
		return "the agent's own executor"
	}
	return "the executor of environment " + gs.group.Run.Environment
}

// maxFits is how many groups a pool remembers to fit; it keeps them, with the
// others of their graph, in memory.
const (
	maxFits  = 128 // also of jobs that have ended
	fewInAll = 64  // groups of a graph that is worth it
)

// askFunctions has the environments of a job built before their first task is
// ready, and asks what functions they have: a mistake is to be told at the start.
func (c *Core) askFunctions(j *job) {
	if j.held || j.stopped != nil {
		return
	}
	for i := range j.groups {
		gs := &j.groups[i]
		if e := gs.class.env; gs.group.Stream != nil || j.unstarted(gs) != noTask {
			if e.state == envUnknown {
				c.buildEnv(e)
			}
			e.asked = e.asked || !gs.universal()
		}
	}
	for _, cl := range j.classes { // in order
		if cl.env.asked && !cl.env.told {
			c.checkFunctions(cl.env)
		}
	}
}

// unstarted returns the first task of a group that is this agent's and has not
// begun, noTask when there is none.
func (j *job) unstarted(gs *groupState) taskIndex {
	for t := gs.first; int(t-gs.first) < gs.size; t++ {
		switch j.tasks[t].state {
		case tWaiting, tReady, tDelayed, tAside:
			return t
		}
	}
	return noTask
}

// teller returns the pool whose executor is to tell the functions of an environment: the
// one without devices, unless none of the job's tasks runs there: what is written for a
// device may not even start without one.
func (c *Core) teller(e *environment) *pool {
	var equipped *pool
	for i := range e.job.groups {
		gs := &e.job.groups[i]
		if gs.class.env != e || gs.universal() || gs.unfit != "" {
			continue
		}
		if demandOf(gs.need).none() {
			return e.pool
		}
		if equipped == nil {
			equipped = c.poolOf(gs.class)
		}
	}
	return cmp.Or(equipped, e.pool)
}

// checkFunctions fails a job for all of its groups that cannot run in an
// environment, when that is known; else an executor is to tell its functions.
func (c *Core) checkFunctions(e *environment) {
	j := e.job
	if !e.asked || e.told || j.held || j.stopped != nil || e.state < envReady {
		return
	}
	if e.state == envReady && e.pool.funcs == nil {
		c.teller(e).ask = true
		return
	}
	e.told = true
	same := e.err // what is wrong with all groups alike
	if e.state == envReady {
		same = c.different(j, e.name, e.pool)
	}
	culprit, all := noTask, []string(nil)
	for i := range j.groups {
		gs := &j.groups[i]
		if gs.class.env != e || gs.universal() || gs.group.KeepGoing || j.graph.KeepGoing {
			continue
		}
		t := j.unstarted(gs)
		if gs.group.Stream != nil {
			t = j.unstarted(j.groupOf(gs.group.Stream.Generator))
		}
		if t == noTask {
			continue
		}
		why := same
		if why == "" {
			why = gs.mistake(e.pool)
		}
		if why == "" {
			gs.checked = e.pool
			continue
		}
		if culprit == noTask {
			culprit = t
		}
		if len(all) > 0 || gs.group.Stream != nil && same == "" {
			why = "task " + gs.group.Name + ": " + why
		}
		if all = append(all, why); same != "" {
			break
		}
	}
	if culprit != noTask {
		c.fail(j, culprit, nil, &comms.TaskError{Kind: comms.ErrorSetup, Message: strings.Join(all, "\n")}, comms.Cause{Kind: comms.CauseSubmit}, true)
	}
}
