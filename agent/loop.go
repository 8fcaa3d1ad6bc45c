//go:build linux

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
)

// loop is what steps the core, and what only who steps it may touch: Run's
// goroutine, or one that reads a link and would have to wake that one.
type loop struct {
	agent *Agent

	mu   sync.Mutex // held by who steps the core; guards everything below
	core *core.Core

	controller outbound
	executors  map[comms.ExecutorID]*worker
	visitors   map[uint64]*worker // programs that the core has not answered, by the keys of their Attach
	clients    map[uint64]*client
	envs       map[string]runtimeenv.Activation // by the key that EnvReady told
	segments   map[uint64]string                // path of each segment that exists
	peers      map[string]*peer
	moving     exchanging
	reaching   reaching

	lastVisitor uint64

	taken    []item        // what is being handled
	spare    []item        // for what comes meanwhile
	next     []core.Event  // the event that is being handled, and those that came of its actions
	dirty    []*comms.Link // written to since the last flush
	timer    *time.Timer
	stopping bool             // start nothing more
	draining bool             // the agent ends when nothing runs any more
	late     <-chan time.Time // when it ends all the same
}

// item is an event for the core, what the driver must note before, or both.
type item struct {
	note func() // runs where the core does
	ev   core.Event
}

// inboxLimit is how many items wait before those who read links must pause.
const inboxLimit = 8192

// outbound is a link and what did not fit into its queue.
type outbound struct {
	link    *comms.Link
	epoch   uint64 // of the link, of which the core has heard: what it sends is for that peer; 0: for any
	waiting [][]byte
}

func newLoop(a *Agent, left inheritance) *loop {
	l := &loop{
		agent: a, core: core.New(a.coreConfig(left)),
		executors: map[comms.ExecutorID]*worker{},
		visitors:  map[uint64]*worker{},
		clients:   map[uint64]*client{},
		envs:      map[string]runtimeenv.Activation{},
		segments:  map[uint64]string{},
		peers:     map[string]*peer{},
		timer:     time.NewTimer(0),
	}
	for _, s := range left.segments {
		l.segments[uint64(s.ID)] = s.Path
	}
	return l
}

// run steps the core until ctx ends or the controller refuses us. When ctx ends,
// what runs may end first, as long as the configuration says: what does not is
// killed with its executor and runs again under the next agent, like what had not
// started.
func (l *loop) run(ctx context.Context, dialed <-chan error) error {
	defer l.timer.Stop()
	stop := ctx.Done()
	l.mu.Lock()
	for {
		l.turn()
		if l.draining && l.core.Drained() {
			return l.shutdown()
		}
		late := l.late
		l.mu.Unlock()
		if l.agent.in.Waiting() { // who brought it may have seen us at work
			l.agent.in.Rouse()
		}
		select {
		case <-l.agent.in.Woken():
			l.mu.Lock()
		case <-l.timer.C:
			l.mu.Lock()
			l.step(core.Tick{})
		case err := <-dialed:
			l.mu.Lock() // never unlocked: no other goroutine steps the core any more
			return errors.Join(err, l.shutdown())
		case <-stop:
			l.mu.Lock()
			if l.agent.cfg.Drain <= 0 {
				return l.shutdown()
			}
			stop = nil
			l.leave(l.agent.cfg.Drain)
			l.step(core.Drain{})
		case <-late:
			l.mu.Lock()
			l.agent.log.Warn().Msg("the grace is over: tasks that still run are ended, and run again elsewhere or later")
			l.step(core.Quit{})
			l.flush()
			return l.shutdown()
		}
	}
}

// leave begins the agent's end, unless it has begun; what runs has that long.
func (l *loop) leave(grace time.Duration) {
	if l.draining {
		return
	}
	l.draining, l.late = true, time.After(grace)
	l.agent.log.Info().Stringer("grace", grace).Msg("leaves: no task starts any more")
	l.agent.in.Rouse()
}

// maxLooks is how often one turn looks into the inbox: timers and other links
// want their turn too.
const maxLooks = 16

// turn handles what waits in the inbox, and tells the core when that was all.
// l.mu is held.
func (l *loop) turn() {
	for range maxLooks {
		l.taken, l.spare = l.agent.in.Take(l.spare), l.taken
		if len(l.taken) == 0 {
			l.step(core.Idle{})
			l.flush()
			return
		}
		for _, it := range l.taken {
			l.handle(it)
		}
		clear(l.taken) // do not keep the messages alive
		l.flush()
	}
	l.agent.in.Rouse()
}

// help handles the items of the inbox unless another goroutine does already. The reader
// of a link calls it when it has nothing more to read: a message from one executor to
// the next then passes through no other goroutine.
func (l *loop) help() {
	for l.agent.in.Waiting() && l.mu.TryLock() {
		l.turn()
		if l.draining {
			l.agent.in.Rouse() // run looks whether that was all
		}
		l.mu.Unlock()
	}
}

func (l *loop) handle(it item) {
	if it.note != nil {
		it.note()
	}
	if it.ev != nil {
		l.step(it.ev)
	}
}

// step hands the core an event and does what it answers, all of it before the
// core hears of what happened meanwhile.
func (l *loop) step(ev core.Event) {
	l.next = append(l.next, ev)
	if len(l.next) > 1 {
		return // called while actions are performed
	}
	for len(l.next) > 0 {
		actions := l.core.Step(time.Now(), l.next[0])
		if watch := l.agent.cfg.watch; watch != nil {
			watch(l.next[0], actions)
		}
		for _, action := range actions {
			l.perform(action)
		}
		if checked {
			if err := l.core.Check(); err != nil {
				panic(fmt.Sprintf("agent core after %T: %v", l.next[0], err))
			}
		}
		l.next = slices.Delete(l.next, 0, 1)
	}
}

func (l *loop) perform(action core.Action) {
	a := l.agent
	switch act := action.(type) {
	case core.ToController:
		l.toController(act.Msg)
	case core.ToExecutor:
		l.toExecutor(act.Executor, act.Msg)
	case core.ToClient:
		l.toClient(act)
	case core.ServeChunk:
		l.serveChunk(act)
	case core.Spawn:
		if !l.stopping {
			l.spawn(act)
		}
	case core.Kill:
		l.kill(act)
	case core.Admit:
		l.admit(act)
	case core.Refuse:
		l.refuse(act)
	case core.Dismiss:
		l.dismiss(act.Executor)
	case core.BuildEnv:
		l.buildEnv(act)
	case core.Memory:
		l.memory(act)
	case core.LeasePorts:
		l.leasePorts(act)
	case core.ReturnPorts:
		a.ports.back(act.Ports)
	case core.AppendLog:
		l.appendLog(act)
	case core.DropJob:
		for _, w := range l.executors {
			w.recent.forget(act.Job)
		}
		a.forgetLogs(act.Job)
	case core.MeetPeer:
		l.meetPeer(act)
	case core.LeavePeer:
		l.leavePeer(act.Agent)
	case core.ResetPeer:
		l.resetPeer(act.Agent)
	case core.ToPeer:
		l.toPeer(act)
	case core.Pull:
		l.pull(act)
	case core.Copy:
		l.copy(act)
	case core.StopPull:
		l.stopPull(act)
	case core.Offer:
		l.offer(act)
	case core.NotHere:
		l.notHere(act)
	case core.Withdraw:
		l.withdraw(act)
	case core.Leave:
		l.leave(cmp.Or(act.Grace, l.agent.cfg.Drain))
	case core.SetTimer:
		l.timer.Reset(time.Until(act.At))
	default:
		panic(fmt.Sprintf("agent: the core asks for %T, which the driver does not know", action))
	}
}

// forgetLogs removes a job's logs, in the lane of logs.
func (a *Agent) forgetLogs(job comms.JobID) {
	a.logLane.do(func() {
		if err := a.logs.forget(job); err != nil {
			a.log.Warn().Err(err).Stringer("job", job).Msg("logs stay behind")
		}
	})
}

// appendLog adds to a task's log, in the lane of logs.
func (l *loop) appendLog(act core.AppendLog) {
	a := l.agent
	a.logs.count(len(act.Text))
	a.logLane.do(func() {
		if err := a.logs.append(act.Job, act.Task, act.Called, act.Text); err != nil {
			a.log.Warn().Err(err).Stringer("job", act.Job).Str("task", act.Task).Msg("text of a task is lost")
		}
	})
}

// send queues a message. A message that does not fit waits here, in order, until credit
// comes; full is true when it is the first that has to.
func (l *loop) send(out *outbound, m comms.Message) (full bool) {
	head := comms.Encode(m)
	if len(out.waiting) > 0 {
		out.waiting = append(out.waiting, head)
		return false
	}
	if l.queue(out, head) {
		return false
	}
	out.waiting = append(out.waiting, head)
	return true
}

// queue hands a message to its link, and tells whether that has taken it or ended:
// a link that refuses for good is aborted, for its peer would miss a message.
func (l *loop) queue(out *outbound, head []byte) bool {
	switch err := out.link.QueueIn(out.epoch, head, nil); {
	case err == nil:
		l.dirty = append(l.dirty, out.link)
	case errors.Is(err, comms.ErrFull):
		return false
	case errors.Is(err, comms.ErrClosed), errors.Is(err, comms.ErrEpoch): // its Down, or its Up, is on the way
	default:
		out.link.Abort(err)
	}
	return true
}

// resume sends what waited. It tells whether nothing waits any more.
func (l *loop) resume(out *outbound) bool {
	for len(out.waiting) > 0 {
		if !l.queue(out, out.waiting[0]) {
			return false
		}
		out.waiting[0] = nil
		out.waiting = out.waiting[1:]
	}
	return true
}

// flush writes what was queued. A link may be listed often: flushing it again costs a lock.
func (l *loop) flush() {
	var last *comms.Link
	for _, link := range l.dirty {
		if link != last {
			link.Flush()
		}
		last = link
	}
	clear(l.dirty)
	l.dirty = l.dirty[:0]
}

func (l *loop) toController(m comms.Message) {
	if l.controller.link == nil {
		return // it is away: when it comes back the core tells it the state
	}
	if l.send(&l.controller, m) {
		l.step(core.Full{})
	}
}

func (l *loop) controllerCredit() {
	if l.controller.link != nil && len(l.controller.waiting) > 0 && l.resume(&l.controller) {
		l.step(core.Free{})
	}
}

// buildEnv makes an environment. Builds of one environment wait for each other in the cache.
func (l *loop) buildEnv(act core.BuildEnv) {
	a := l.agent
	env := act.Env
	env.Source = absolute(env.Source, act.Dir)
	if activation, ok := a.envs.Found(env); ok { // a job after the other: no goroutine is woken for each
		l.envBuilt(act, activation, nil)
		return
	}
	a.work.Go(func() {
		started := time.Now()
		activation, err := a.envs.Prepare(a.stop, env, func(text string) {
			// Clients are told through the controller: no warning beside it in the log of a run in the foreground.
			a.log.Info().Stringer("job", act.Job).Str("environment", env.Name).Str("waits", text).Msg("environment")
			a.in.Push(item{ev: core.EnvWaits{Job: act.Job, Name: env.Name, Commands: act.Commands, Why: text}})
		})
		a.log.Info().Err(err).Stringer("job", act.Job).Str("environment", env.Name).Str("key", environmentKey(activation)).
			Bool("built", activation.Built).Dur("took", time.Since(started)).Msg("environment")
		l.envBuilt(act, activation, err)
		if activation.Built {
			a.pruneEnvironments()
		}
	})
}

// envBuilt tells the core how a build ended.
func (l *loop) envBuilt(act core.BuildEnv, activation runtimeenv.Activation, err error) {
	if act.Commands && activation.Foreign {
		activation.Command = nil // the agent's executor, with the environment's variables
	}
	ready := core.EnvReady{Job: act.Job, Name: act.Env.Name, Commands: act.Commands, Key: environmentKey(activation),
		Dir: activation.Dir, Bytes: uint64(activation.Bytes)}
	if err != nil {
		ready.Err = err.Error()
	}
	l.agent.in.Push(item{note: func() { l.envs[ready.Key] = activation }, ev: ready})
}
