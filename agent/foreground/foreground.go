package foreground

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/executor"
	"github.com/cascade-run/cascade/shm"
	"github.com/cascade-run/cascade/shm/ledger"
)

// Task is one task and all that it takes to run it.
type Task struct {
	Kind   *comms.Kind
	Run    comms.Run // its inputs are inline, or whole segments that Input has named
	Agent  string    // what the task hears of where it runs
	Folder string    // for inputs, outputs and scratch files; the caller's alone

	Program []string // the executor: program and arguments, or a debugger that starts it
	Env     []string // added to this process's environment
	Dir     string   // working folder of the executor

	Answers *Answers         // what its calls are answered; nil: it may not call
	Element func(comms.Desc) // is told of what a generator publishes; nil: nothing is

	Stdin          *os.File  // nil for none
	Stdout, Stderr io.Writer // of the task and of its executor: files, or safe for use by several goroutines

	segments uint32
}

// inlineMax is the size up to which outputs travel in messages, as with an agent.
const inlineMax = 4 << 10

// grace is how long a task that is stopped may take for each step to its end.
const grace = 2 * time.Second

// queueMore is how many messages may wait for the executor besides those that name inputs.
const queueMore = 16 << 10

// Input makes room for an input in the store's folder: the file to write its bytes to,
// and the place that Run.Inputs gives for it.
func (t *Task) Input() (*os.File, comms.Place, error) {
	if err := os.MkdirAll(t.store(), 0o700); err != nil {
		return nil, comms.Place{}, fmt.Errorf("make the folder of inputs: %w", err)
	}
	t.segments++
	f, err := os.OpenFile(t.path(ledger.File, t.segments), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return nil, comms.Place{}, fmt.Errorf("make an input: %w", err)
	}
	return f, comms.Place{Kind: comms.PlaceSegment, Segment: t.segments}, nil
}

func (t *Task) store() string { return filepath.Join(t.Folder, "store") }

func (t *Task) path(kind ledger.Kind, segment uint32) string {
	return filepath.Join(t.store(), shm.SegmentName(kind, ledger.SegmentID(segment)))
}

// Do runs the task to its end and returns how it ended: ReportFinished or
// ReportFailed. When ctx ends the task is cancelled, and killed when it does not heed
// that. An error means that it did not come to an end of its own.
func (t *Task) Do(ctx context.Context) (_ *comms.ReportItem, err error) {
	s := &session{task: t, token: rand.Text(), up: make(chan *comms.Link, 1), came: make(chan comms.Message, 64), posted: make(chan func() error, 64), over: make(chan struct{})}
	if t.Answers != nil {
		s.callee = s.newCallee(t.Answers)
		defer s.callee.end()
	}
	defer close(s.over)
	for _, dir := range []string{t.store(), filepath.Join(t.Folder, "scratch")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make a folder for the task: %w", err)
		}
	}
	ln, err := t.listen(s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ln.Close()) }()
	proc, err := t.start(ln.Addr(), s.token)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- proc.Wait() }()
	return s.follow(ctx, proc.Process, ended)
}

// listen waits for an executor to connect. All that it hears first, a message for each
// input among it, is queued at once, before it has read any.
func (t *Task) listen(s *session) (*comms.Listener, error) {
	ln, err := comms.Listen("ipc://"+filepath.Join(t.Folder, "s"), comms.Config{
		Self:    comms.Identity{Role: "agent", Name: t.Agent, Incarnation: 1},
		Handler: s, Pipes: true, MaxMessage: executor.MaxMessage, HeartbeatEvery: -1,
		QueueMessages: int(t.segments) + queueMore, QueueBytes: 2 * executor.MaxMessage,
	})
	if err != nil {
		return nil, fmt.Errorf("listen for the executor: %w", err)
	}
	return ln, nil
}

func (t *Task) start(addr, token string) (*exec.Cmd, error) {
	c := exec.Command(t.Program[0], t.Program[1:]...)
	c.Dir, c.Stdout, c.Stderr = t.Dir, t.Stdout, t.Stderr
	if t.Stdin != nil {
		c.Stdin = t.Stdin // nil is no *os.File to exec
	}
	c.WaitDelay = grace // what the task has left may hold the pipes
	c.Env = slices.Concat(os.Environ(), t.Env, []string{executor.EnvAddr + "=" + addr, executor.EnvToken + "=" + token, executor.EnvPipes + "=1"})
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start %s in folder %s: %w", t.Program[0], t.Dir, err)
	}
	return c, nil
}

// session is the agent's side of a link to one executor.
type session struct {
	task  *Task
	token string
	link  *comms.Link
	up    chan *comms.Link
	came  chan comms.Message
	over  chan struct{} // closed when messages are not taken any more

	callee *callee           // nil of a task that may not call
	posted chan func() error // what is to be done between two messages
}

// post has something done between two messages.
func (s *session) post(f func() error) {
	select {
	case s.posted <- f:
	case <-s.over:
	}
}

// follow serves the executor until its process has ended.
func (s *session) follow(ctx context.Context, proc *os.Process, ended <-chan error) (end *comms.ReportItem, err error) {
	stop := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case s.link = <-s.up:
		case m := <-s.came:
			item, e := s.take(m)
			if item != nil {
				end = item
				e = errors.Join(e, s.send(&comms.Stop{}))
			}
			if e != nil {
				err = errors.Join(err, e, proc.Kill())
			}
		case f := <-s.posted:
			if e := f(); e != nil && end == nil && err == nil {
				err = errors.Join(e, proc.Kill())
			}
		case <-stop:
			stop = nil
			t := time.NewTimer(3 * grace)
			defer t.Stop()
			late = t.C
			err = errors.Join(err, s.cancel(proc))
		case <-late:
			err = errors.Join(err, proc.Kill())
		case exit := <-ended:
			return s.ended(end, err, exit)
		}
	}
}

// cancel stops the task; an executor that has not said a word is killed.
func (s *session) cancel(proc *os.Process) error {
	if s.link == nil {
		return proc.Kill()
	}
	return s.send(&comms.Cancel{Run: s.task.Run.ID, Why: comms.ErrorCancelled, Text: "it was interrupted", Grace: int64(grace)})
}

// ended takes what the executor said last, which may come after its end is known.
func (s *session) ended(end *comms.ReportItem, err, exit error) (*comms.ReportItem, error) {
	gone := make(<-chan struct{})
	select {
	case s.link = <-s.up:
	default:
	}
	if s.link != nil {
		gone = s.link.Done()
	}
	for more := s.link != nil; more; {
		select {
		case m := <-s.came:
			if item, _ := s.take(m); item != nil && end == nil { // answers are not sent any more
				end = item
			}
		case <-gone:
			more = len(s.came) > 0
		}
	}
	switch {
	case end != nil:
		return end, nil
	case err != nil:
		return nil, err
	case exit != nil:
		return nil, fmt.Errorf("its process ended before the task did: %w", exit)
	}
	return nil, errors.New("its process ended before the task did")
}

// take does what a message asks for. It returns how the task ended when that is told.
func (s *session) take(m comms.Message) (*comms.ReportItem, error) {
	if s.link == nil { // it came on a link of which follow has not heard yet
		s.link = <-s.up
	}
	switch m := m.(type) {
	case *comms.Hello:
		return nil, s.welcome(m)
	case *comms.LeaseReq:
		return nil, s.send(s.lease(m))
	case *comms.Log:
		to := s.task.Stdout
		if m.Stream == 2 {
			to = s.task.Stderr
		}
		if _, err := to.Write(m.Text); err != nil {
			return nil, fmt.Errorf("write what the task says: %w", err)
		}
	case *comms.Report:
		for i := range m.Items {
			switch it := &m.Items[i]; it.Kind {
			case comms.ReportFinished, comms.ReportFailed:
				return it, nil
			case comms.ReportPublished:
				if s.task.Element != nil {
					s.task.Element(it.Outputs[0])
				}
			case comms.ReportSteps: // it had nothing to tell
				return &comms.ReportItem{Kind: comms.ReportFinished, Run: it.Run, At: it.At}, nil
			}
		}
	case *comms.Reclaimed:
		return nil, errors.New("the executor gave the task back")
	}
	if s.callee == nil {
		return nil, nil
	}
	return nil, s.callee.take(m)
}

// welcome answers an executor's first message with all that the task needs.
func (s *session) welcome(h *comms.Hello) error {
	t := s.task
	if h.Token != s.token {
		return errors.New("another process than the one that was started has connected")
	}
	has := func(f comms.FuncSig) bool { return f.Name == t.Kind.Function || f.Name == "*" }
	if t.Kind.Function != "" && !slices.ContainsFunc(h.Functions, has) {
		return fmt.Errorf("%w %q: %s", ErrNoFunction, t.Kind.Function, strings.Join(t.Program, " "))
	}
	messages := []comms.Message{&comms.Welcome{Executor: 1, Agent: t.Agent, InlineMax: inlineMax, Scratch: filepath.Join(t.Folder, "scratch"), ShmDir: t.store(), Calls: t.Answers != nil}}
	for id := range t.segments {
		path := t.path(ledger.File, id+1)
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("look for an input: %w", err)
		}
		messages = append(messages, &comms.Segment{ID: id + 1, Path: path, Size: uint64(info.Size())})
	}
	for _, m := range append(messages, t.Kind, &comms.Dispatch{Runs: []comms.Run{t.Run}}) {
		if err := s.send(m); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoFunction says that the program does not have the task's function.
var ErrNoFunction = errors.New("the program has no function")

// lease gives room for outputs: always a file of its own, as in a small store.
func (s *session) lease(q *comms.LeaseReq) *comms.Lease {
	s.task.segments++
	l := &comms.Lease{Token: q.Token, Segment: s.task.segments}
	if q.File && q.Size == 0 {
		l.Path = s.task.path(ledger.Output, l.Segment)
		return l
	}
	page := uint64(os.Getpagesize())
	l.Path, l.Size = s.task.path(ledger.File, l.Segment), (q.Size+page-1)/page*page
	f, err := os.OpenFile(l.Path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(f.Truncate(int64(l.Size)), f.Close())
	}
	if err != nil {
		l.Error = err.Error()
	}
	return l
}

func (s *session) send(m comms.Message) error {
	if err := s.link.Send(comms.Encode(m), nil); err != nil {
		return fmt.Errorf("tell the executor %T: %w", m, err)
	}
	return nil
}

// Up is called by the link.
func (s *session) Up(l *comms.Link, _ comms.Identity, _ bool) {
	select {
	case s.up <- l:
	case <-s.over:
	}
}

// Message is called by the link. It waits while what the task prints is written.
func (s *session) Message(l *comms.Link, head, _ []byte) {
	m, err := comms.Decode(head)
	if err != nil {
		l.Abort(err)
		return
	}
	select {
	case s.came <- m:
	case <-s.over:
	}
}

// Credit is called by the link.
func (s *session) Credit(*comms.Link) {}

// Down is called by the link.
func (s *session) Down(*comms.Link, error) {}
