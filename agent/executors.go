//go:build linux

package agent

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/zeebo/blake3"

	"github.com/cascade-run/cascade/agent/core"
	"github.com/cascade-run/cascade/agent/devices"
	"github.com/cascade-run/cascade/agent/postmortem"
	"github.com/cascade-run/cascade/agent/process"
	"github.com/cascade-run/cascade/agent/runtimeenv"
	"github.com/cascade-run/cascade/comms"
	exec "github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/internal/safedir"
	"github.com/cascade-run/cascade/shm"
)

// worker is a process that was started or is being started.
type worker struct {
	id    comms.ExecutorID
	token string
	// spawned is closed when the inbox has the event Spawned.
	spawned chan struct{}
	proc    *process.Process // nil while it is being started
	killed  bool
	// dead is closed when the process is known dead.
	dead   chan struct{}
	out    outbound
	recent recent
	spoken spoken
	fence  fence
	waits  atomic.Bool // its run waits for calls
	// program: it is one that opened a session, and none of the above but id and out is used.
	program *program
}

// executorFiles is what the agent makes for one executor.
type executorFiles struct {
	scratch string   // folder, removed after its death
	crash   string   // file in it where the Go runtime writes why it crashed
	control string   // page in which it marks its current run
	words   words    // what its functions print and it has not sent
	code    []string // as in runtimeenv.Activation
}

// oomScore makes the kernel choose executors before agent and controller.
const oomScore = 500

// spawn starts a process. The core hears Spawned.
func (l *loop) spawn(act core.Spawn) {
	a := l.agent
	ex := &worker{id: act.Executor, spawned: make(chan struct{}), dead: make(chan struct{})}
	a.tokens.add(ex)
	l.executors[ex.id] = ex
	activation := l.envs[act.Env]
	if len(a.devices.Devices) > 0 {
		activation.Env = append(slices.Clip(activation.Env), devices.Env(a.devices.Vendor, act.Devices)...)
	}
	a.work.Go(func() { l.live(ex, activation, act.Dir) })
}

// live starts an executor's process and accompanies it to its end. dir is the job's folder, "" if there is none.
func (l *loop) live(ex *worker, activation runtimeenv.Activation, dir string) {
	a := l.agent
	files, control, err := a.makeFiles(ex.id)
	files.code = activation.Code
	defer func() {
		if err := files.remove(); err != nil {
			a.log.Warn().Err(err).Msg("files of an executor stay behind")
		}
	}()
	var proc *process.Process
	if err == nil {
		defer func() { _ = control.Close() }() // unmapping a whole mapping cannot fail
		tee := outputTee{loop: l, worker: ex, control: control}
		if err = ex.fence.open(a.cgroups, a.groupName(ex.id)); err == nil {
			if proc, err = a.start(ex, files, tee, activation, dir); err == nil && proc.Writable() != "" {
				a.writable.Do(func() {
					a.log.Info().Str("why", proc.Writable()).Msg("tasks run as root and can write to environments that they share: run the agent as an ordinary user, or permit mounts (CAP_SYS_ADMIN)")
				})
			}
		}
		defer func() {
			if err := ex.fence.close(); err != nil {
				a.log.Warn().Err(err).Msg("a cgroup stays behind")
			}
		}()
	}
	if err != nil {
		a.tokens.take(ex.token)
		a.in.Push(item{note: func() { delete(l.executors, ex.id) }, ev: core.Spawned{Executor: ex.id, Err: err.Error()}})
		return
	}
	a.in.Push(item{note: func() {
		ex.proc = proc
		if ex.killed {
			proc.Kill()
		}
	}, ev: core.Spawned{
		Executor: ex.id, PID: int64(proc.PID()),
		ControlPage: files.control, Scratch: files.scratch, ShmDir: a.store.Dir(),
	}})
	close(ex.spawned)
	ended := guard(ex, proc, control, a.cfg.Limits.Stopped)
	exit := proc.Wait()
	close(ex.dead)
	a.tokens.take(ex.token)
	l.lastMessage(ex)
	end := postmortem.Examine(postmortem.Remains{
		Executor: ex.id, Exit: exit, Control: control, Spoken: ex.spoken.of, Printed: files.words.rest(), Crash: files.crash, Code: files.code,
	})
	if ended.why != "" {
		end.Memory, end.Used, end.Why = ended.memory, ended.used, ended.why
	}
	a.in.Push(item{note: func() {
		delete(l.executors, ex.id)
		kind, run := ex.recent.find(end.Run)
		if kind != nil && len(end.Words) > 0 {
			l.step(core.Printed{Executor: ex.id, Run: end.Run, Job: kind.Job, Task: taskName(kind, run), Text: end.Words})
		}
		end.Blame(kind, run, l.segments)
		a.log.Info().Uint32("executor", uint32(ex.id)).Str("end", end.Why).Msg("executor ended")
		l.step(end.ExecutorDead)
	}})
}

// lastMessage waits for the end of a dead executor's link: the core hears of the
// death after the last message.
func (l *loop) lastMessage(ex *worker) {
	last := make(chan *comms.Link, 1)
	l.agent.in.Push(item{note: func() { last <- ex.out.link }})
	select {
	case link := <-last:
		if link != nil {
			<-link.Done()
		}
	case <-l.agent.stop.Done():
	}
}

// start starts an executor's process.
func (a *Agent) start(ex *worker, files executorFiles, tee io.Writer, act runtimeenv.Activation, dir string) (*process.Process, error) {
	if err := a.state.reserve(ex.id); err != nil {
		return nil, err
	}
	command := act.Command
	if len(command) == 0 {
		command = a.cfg.Executor
	}
	start := cmp.Or(act.Dir, dir, a.cfg.Dir)
	root, err := a.root(act, files, command[0], start, cmp.Or(dir, start))
	if err != nil {
		return nil, err
	}
	hold, err := process.Hold(a.holdPath())
	if err != nil {
		return nil, err
	}
	defer hold.Close()
	var group *os.File
	if ex.fence.group != nil {
		group = ex.fence.group.File()
	}
	return process.Start(process.Command{
		Hold: hold, Cgroup: group,
		Path: command[0], Args: command[1:], Dir: start, OOMScoreAdj: oomScore, Tee: tee, Root: root, ReadOnly: act.ReadOnly,
		Env: slices.Concat(os.Environ(), a.cfg.Env, act.Env, []string{
			exec.EnvAddr + "=" + a.executors.Addr(),
			exec.EnvToken + "=" + ex.token,
			exec.EnvCrash + "=" + files.crash,
			exec.EnvPipes + "=1",
			exec.EnvWords + "=" + files.words.dir,
			exec.EnvCode + "=" + strings.Join(act.Code, string(filepath.ListSeparator)),
		}),
	})
}

// groupName names an executor's cgroup; no other agent of this process has the same.
func (a *Agent) groupName(id comms.ExecutorID) string {
	return fmt.Sprintf("%s-%d", a.storeName(), id)
}

func (a *Agent) makeFiles(id comms.ExecutorID) (executorFiles, *shm.Control, error) {
	dir := filepath.Join(a.cfg.State, "scratch", strconv.FormatUint(uint64(id), 10))
	f := executorFiles{scratch: dir, crash: filepath.Join(dir, "crash"), control: a.store.ControlPath(uint64(id))}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return f, nil, fmt.Errorf("make scratch folder: %w", err)
	}
	var err error
	if f.words, err = openWords(filepath.Join(dir, "words")); err != nil {
		return f, nil, err
	}
	control, err := a.store.CreateControl(f.control)
	return f, control, err
}

func (f executorFiles) remove() error {
	f.words.close()
	if f.scratch == "" {
		return nil
	}
	err := safedir.Remove(f.scratch)
	if gone := os.Remove(f.control); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

func (l *loop) kill(act core.Kill) {
	ex := l.executors[act.Executor]
	if ex == nil {
		return
	}
	if ex.program != nil {
		l.end(ex, act.Why)
		return
	}
	ex.killed = true
	if ex.proc != nil {
		ex.proc.Kill()
	}
}

// bind connects an executor with the link over which it said Hello.
func (l *loop) bind(id comms.ExecutorID, link *comms.Link) {
	if ex := l.executors[id]; ex != nil {
		ex.out.link = link
		return
	}
	link.Abort(errors.New("the process of this executor is dead"))
}

func (l *loop) toExecutor(id comms.ExecutorID, m comms.Message) {
	ex := l.executors[id]
	if ex == nil || ex.out.link == nil {
		return // dead: the core hears of it soon
	}
	ex.recent.note(m)
	switch m.(type) {
	case *comms.Kind:
		ex.fence.raise(&ex.recent)
	case *comms.CallGo, *comms.Dispatch:
		ex.waits.Store(false)
	}
	if l.send(&ex.out, m) {
		l.step(core.Full{Executor: id})
	}
}

func (l *loop) executorCredit(ex *worker) {
	if l.executors[ex.id] == ex && len(ex.out.waiting) > 0 && l.resume(&ex.out) {
		l.step(core.Free{Executor: ex.id})
	}
}

// environmentKey names an activation by its content; "" is the default environment.
func environmentKey(act runtimeenv.Activation) string {
	if len(act.Command)+len(act.Env)+len(act.Keys) == 0 {
		return ""
	}
	var all []byte
	for _, list := range [][]string{act.Command, act.Keys, act.Env} {
		for _, s := range list {
			all = append(strconv.AppendInt(all, int64(len(s)), 10), ':')
			all = append(all, s...)
		}
	}
	sum := blake3.Sum256(all)
	return strings.Join(append(slices.Clone(act.Keys), hex.EncodeToString(sum[:8])), "+")
}

// outputTee takes what an executor's process writes to standard output and error,
// such as prints of a Go function, into the log of the task that it runs. Text that
// is written between tasks is only in the tail that a death shows.
type outputTee struct {
	loop    *loop
	worker  *worker
	control *shm.Control
}

// Write is called by the goroutine that reads the process's pipe.
func (o outputTee) Write(text []byte) (int, error) {
	a := o.loop.agent
	a.logs.await()
	step, steps := o.control.Last()
	kind, run := o.worker.recent.find(comms.RunID(step.Run))
	if steps == 0 || kind == nil {
		return len(text), nil
	}
	text = bytes.Clone(text)
	a.in.Offer(item{ev: core.Printed{Executor: o.worker.id, Run: comms.RunID(step.Run), Job: kind.Job, Task: taskName(kind, run), Text: text}})
	a.in.Rouse()
	return len(text), nil
}
