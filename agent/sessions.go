//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/comms"
)

// A program that opens a session is a worker without a process of ours: it connected by
// itself and lives on when its session has ended.

// program is what a worker has that is one.
type program struct {
	pid     int
	key     uint64             // of its Attach
	unwatch context.CancelFunc // of its process; nil while that is not watched
}

// program takes the Hello of one.
func (d *executorDoor) program(l *comms.Link, m *comms.Hello) {
	w := &worker{program: &program{pid: int(m.PID)}}
	w.out.link = l
	d.workers.Store(l, w)
	d.punctual(l)
	loop := d.agent.loop
	d.agent.in.Offer(item{note: func() { loop.visit(w, m) }})
}

// visit tells the core of a program.
func (l *loop) visit(w *worker, m *comms.Hello) {
	if l.stopping {
		w.out.link.Abort(errors.New("the agent ends"))
		return
	}
	l.lastVisitor++
	w.program.key = l.lastVisitor
	l.visitors[w.program.key] = w
	l.step(core.Attach{Key: w.program.key, Session: m.Session, Output: m.Output})
}

// admit makes a program an executor.
func (l *loop) admit(act core.Admit) {
	w := l.visitors[act.Key]
	if w == nil {
		l.step(core.Spawned{Executor: act.Executor, Err: "it left before it had its session"})
		return
	}
	delete(l.visitors, act.Key)
	w.id = act.Executor
	l.executors[w.id] = w
	a := l.agent
	a.work.Go(func() {
		ev := core.Spawned{Executor: act.Executor, PID: int64(w.program.pid), ShmDir: a.store.Dir()}
		if err := a.state.reserve(act.Executor); err != nil {
			ev.Err = err.Error()
		}
		a.in.Push(item{ev: ev})
	})
}

// refuse tells a program why it gets no session.
func (l *loop) refuse(act core.Refuse) {
	w := l.visitors[act.Key]
	if w == nil {
		return
	}
	delete(l.visitors, act.Key)
	l.agent.log.Info().Int("pid", w.program.pid).Str("why", act.Why).Msg("a program gets no session")
	link := w.out.link
	l.queue(&w.out, comms.Encode(&comms.Stop{Now: true, Why: act.Why}))
	l.agent.work.Go(func() { _ = link.Close() }) // the program may be gone
}

// dismiss forgets a program that has nothing of ours.
func (l *loop) dismiss(id comms.ExecutorID) {
	w := l.executors[id]
	if w == nil {
		return
	}
	delete(l.executors, id)
	if w.program.unwatch != nil {
		w.program.unwatch()
	}
	w.out.link.Abort(errors.New("its session has ended"))
}

// fromProgram takes a message of a program, which has a number once it is admitted.
func (l *loop) fromProgram(w *worker, m comms.Message) {
	if w.id == 0 {
		w.out.link.Abort(fmt.Errorf("unexpected %T: a program waits for Welcome", m))
		return
	}
	l.step(core.FromExecutor{Executor: w.id, Msg: m})
}

// left takes the end of a program's link.
func (l *loop) left(w *worker, err error) {
	if w.id == 0 {
		delete(l.visitors, w.program.key)
		return
	}
	l.step(core.ExecutorBroken{Executor: w.id, Why: err.Error()})
}

// end ends the link to a program. The core hears of the end of its process, before which it
// may write to memory that it leased.
func (l *loop) end(w *worker, why string) {
	w.out.link.Abort(errors.New(why))
	if w.program.unwatch != nil {
		return
	}
	a := l.agent
	ctx, unwatch := context.WithCancel(a.stop)
	w.program.unwatch = unwatch
	a.work.Go(func() {
		defer unwatch()
		if err := awaitProcess(ctx, w.program.pid); err != nil {
			if ctx.Err() == nil {
				a.log.Warn().Err(err).Msg("the process of a session cannot be watched: its memory stays its own")
			}
			return
		}
		a.in.Push(item{note: func() { delete(l.executors, w.id) }, ev: core.ExecutorDead{Executor: w.id, Why: "its process has ended"}})
	})
}

// expel ends all programs, as the agent ends.
func (l *loop) expel() {
	for _, w := range l.visitors {
		w.out.link.Abort(errors.New("the agent ends"))
	}
	clear(l.visitors)
	for id, w := range l.executors {
		if w.program == nil {
			continue
		}
		delete(l.executors, id)
		if w.program.unwatch != nil {
			w.program.unwatch()
		}
		w.out.link.Abort(errors.New("the agent ends"))
		l.step(core.ExecutorBroken{Executor: id, Why: "the agent ended"})
	}
}

// awaitProcess waits until a process has ended, which is not a child of ours.
func awaitProcess(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil
	case err != nil:
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) }) // it is readable when the process has ended
	defer stop()
	if err := raw.Read(ended); err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	return nil
}

// ended tells whether the process of a pidfd has ended.
func ended(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}
