package core

import (
	"fmt"
	"slices"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/shm/ledger"
)

// A session is a job whose one task a program runs by itself. The program is an executor
// that this agent did not start: it says Hello with the name of the session, gets the run
// of that and nothing else, occupies no core and counts against no limit.
//
//	program ──Attach──▶ visitor ──the job is here──▶ executor (Admit) ──its run ends──▶ gone
//	                       └──it is not, or has had one──▶ refused
//
// A session is granted once. When the link to the program ends, the run ends at once, and
// with it all that it has called; memory that the program leases stays its own until the
// process is dead, as it may still write there.

// attachWithin is how long a program, or a session, waits for the other.
const attachWithin = 20 * time.Second

// orphanGrace is how long a function that a session has called may run on when the session
// has ended: its program may wait for it, or be gone.
const orphanGrace = time.Second

// patience is how long a run may take to end once it is told to.
func (r *run) patience() time.Duration {
	if root, t := r.job.root(); root.session && root.at(t).state.over() {
		return orphanGrace
	}
	return 3 * grace
}

// session is a job whose task a program is to run.
type session struct {
	job   *job
	since time.Time
	taken bool      // a program was admitted: no other ever is
	ex    *executor // that program; nil before it comes and when it is gone
	echo  bool      // it wants what called tasks write
}

// visitor is a program that has said Hello.
type visitor struct {
	key     uint64
	session comms.JobID
	since   time.Time
	echo    bool
}

// attach takes the Hello of a program.
func (c *Core) attach(ev Attach) {
	if c.leaving != nil {
		c.emit(Refuse{ev.Key, fmt.Sprintf("agent %s leaves the cluster", c.cfg.Agent)})
		return
	}
	c.visitors = append(c.visitors, visitor{ev.Key, ev.Session, c.now, ev.Output})
}

// newSession notes a new job that is one.
func (c *Core) newSession(j *job) {
	if j.graph.IsSession() {
		j.session = true
		c.sessions = append(c.sessions, &session{job: j, since: c.now})
	}
}

// sessionOf returns the session of a job that has not ended, nil when there is none.
func (c *Core) sessionOf(id comms.JobID) *session {
	for _, s := range c.sessions {
		if s.job.id == id && c.byJob[id] == s.job {
			return s
		}
	}
	return nil
}

// serveSessions admits programs, gives them their runs, and ends sessions to which no
// program comes.
func (c *Core) serveSessions() {
	if len(c.sessions)+len(c.visitors) == 0 {
		return
	}
	c.visitors = slices.DeleteFunc(c.visitors, c.receive)
	for _, s := range slices.Clone(c.sessions) {
		c.serveSession(s)
	}
	c.sessions = slices.DeleteFunc(c.sessions, func(s *session) bool { return s.ex == nil && !s.waits(c) })
}

// waits tells whether the task of a session is this agent's and has not ended.
func (s *session) waits(c *Core) bool {
	state := s.job.tasks[0].state
	return c.byJob[s.job.id] == s.job && state != tAbsent && !state.over()
}

// receive admits or refuses a program. It tells whether it has.
func (c *Core) receive(v visitor) bool {
	s, due := c.sessionOf(v.session), v.since.Add(attachWithin)
	switch {
	case s != nil && s.taken:
		c.emit(Refuse{v.key, fmt.Sprintf("session %s has its program", v.session)})
	case s != nil && s.waits(c):
		c.admit(s, v)
	case c.byJob[v.session] != nil:
		c.emit(Refuse{v.key, fmt.Sprintf("job %s is no session that waits for its program on agent %s", v.session, c.cfg.Agent)})
	case !due.After(c.now):
		c.emit(Refuse{v.key, fmt.Sprintf("agent %s was given no session %s in %v", c.cfg.Agent, v.session, attachWithin)})
	default:
		c.wakeAt(due)
		return false
	}
	return true
}

// admit makes a program the executor of its session.
func (c *Core) admit(s *session, v visitor) {
	c.lastExec++
	ex := &executor{id: c.lastExec, pool: &c.programs, session: s, crew: true, grant: make(amounts, len(c.total)), heard: c.now, idle: c.now,
		kinds: map[uint32]bool{}, segs: map[uint32]uint64{}}
	s.ex, s.taken, s.echo = ex, true, v.echo
	c.programs.execs = append(c.programs.execs, ex)
	c.execs = append(c.execs, ex)
	c.byExec[ex.id] = ex
	c.emit(Admit{v.key, ex.id})
}

// admitted greets a program: from now on it is told what executors are.
func (c *Core) admitted(ex *executor, ev Spawned) {
	if ev.Err != "" {
		c.programGone(ex, ev.Err)
		return
	}
	ex.state, ex.greeted = exUp, true
	c.emit(ToExecutor{ex.id, &comms.Welcome{Executor: ex.id, Agent: c.cfg.Agent, InlineMax: inlineMax, Calls: true, ShmDir: ev.ShmDir}})
}

func (c *Core) serveSession(s *session) {
	j := s.job
	if !s.waits(c) {
		if s.ex != nil && s.ex.state == exUp && len(s.ex.queue) == 0 {
			c.stopExecutor(s.ex)
		}
		return
	}
	if t := &j.tasks[0]; t.state != tReady || j.held || j.stopped != nil || c.leaving != nil {
		return
	} else if t.attempt > 1 && !s.taken { // the one before was at an agent that has ended
		c.endSession(j, "its agent has ended")
		return
	}
	cl := j.groups[0].class
	switch due := s.since.Add(attachWithin); {
	case s.taken && s.ex == nil:
		c.endSession(j, "its program has ended")
	case s.ex != nil && s.ex.state == exUp && !s.ex.full && cl.env.state == envReady:
		c.start(cl, s.ex)
	case s.taken:
	case due.After(c.now):
		c.wakeAt(due)
	default:
		c.endSession(j, fmt.Sprintf("no program came for it in %v", attachWithin))
	}
}

// endSession fails a session whose task is ready, and which no program will run.
func (c *Core) endSession(j *job, why string) {
	cl := j.groups[0].class
	if e, ok := c.head(cl); ok {
		c.pop(cl)
		c.fail(j, e.task, nil, &comms.TaskError{Kind: comms.ErrorCrash, Message: why}, j.cause(e), true)
	}
}

// programGone ends what the program of a session did, as its link has ended.
func (c *Core) programGone(ex *executor, why string) {
	s := ex.session
	s.ex = nil
	queue := ex.queue
	ex.queue, ex.batch = nil, nil
	c.regrant(ex)
	ex.state = exKilled
	c.removeExecutor(ex)
	c.unrequest(ex)
	if len(ex.leases) > 0 {
		c.lingering[ex.id] = ex
		c.emit(Kill{ex.id, why})
	} else {
		c.emit(Dismiss{ex.id})
	}
	for _, r := range queue {
		c.dropRun(r)
		if r.orphan || r.job.at(r.task).state.over() {
			continue
		}
		if !r.started {
			r.started, r.startedAt = true, ex.turn
		}
		c.noteStarted(r)
		e := &comms.TaskError{Kind: comms.ErrorCrash, Message: "its program has ended: " + why, Executor: ex.id}
		switch {
		case r.abort != nil:
			e.Kind, e.Message = r.abort.Kind, r.abort.Message
		case r.job.stopped != nil:
			e.Kind = comms.ErrorCancelled
		}
		c.fail(r.job, r.task, r, e, comms.Cause{Kind: comms.CauseExecutor, Number: uint64(ex.id)}, true)
	}
}

// echo sends the program of a session what a task wrote that it has called. While it does not
// keep up text is left out: the log of the session has all.
func (c *Core) echo(root *job, at rowRef, stream uint8, text []byte) {
	if !root.session {
		return
	}
	w, function, agent := at.row(), "", c.cfg.Agent
	if w.shape != nil {
		function = w.shape.kind.Function
	}
	if w.out != nil {
		agent = w.out.host.name
	}
	if s := c.sessionOf(root.id); s != nil && s.echo && s.ex != nil && !s.ex.full && len(s.ex.queue) > 0 {
		c.emit(ToExecutor{s.ex.id, &comms.Log{Run: s.ex.queue[0].id, Stream: stream, Text: text, Function: function, Agent: agent}})
	}
}

// unrequest ends the requests for memory of a program that were not granted.
func (c *Core) unrequest(ex *executor) {
	var ids []ledger.RequestID
	for id, q := range c.requests {
		if q.ex == ex && !slices.ContainsFunc(ex.leases, func(l *lease) bool { return l.req == id }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		delete(c.requests, id)
		c.must(c.led.Release(id))
	}
	c.effects()
}

// programDead takes back what a program still had, as its process is dead.
func (c *Core) programDead(ev ExecutorDead) {
	ex := c.lingering[ev.Executor]
	if ex == nil { // it dies before the end of its link is heard of
		ex = c.byExec[ev.Executor]
		c.programGone(ex, ev.Why)
	}
	delete(c.lingering, ex.id)
	c.endLeases(ex, nil)
}

// checkSessions compares sessions with the executors that run them.
func (c *Core) checkSessions() error {
	programs := 0
	for _, s := range c.sessions {
		if s.ex == nil {
			continue
		}
		if programs++; !s.taken || s.ex.session != s || c.byExec[s.ex.id] != s.ex {
			return fmt.Errorf("session %s: its program, executor %d, is not in the tables", s.job.id, s.ex.id)
		}
		for _, r := range s.ex.queue {
			if r.job != s.job {
				return fmt.Errorf("session %s: its program has a run of job %s", s.job.id, r.job.id)
			}
		}
	}
	if programs != len(c.programs.execs) {
		return fmt.Errorf("%d programs are executors of %d sessions", len(c.programs.execs), programs)
	}
	for id, ex := range c.lingering {
		if c.byExec[id] != nil || len(ex.leases) == 0 || len(ex.queue) > 0 {
			return fmt.Errorf("executor %d counts as gone and as there, or has nothing that could be given to others", id)
		}
	}
	return nil
}
