package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	Args   []string // program and arguments; the program is looked up in PATH of Env
	Env    []string // whole environment, NAME=value
	Dir    string   // working folder
	Stdin  *os.File // nil means no input
	Stdout *os.File // nil means that standard output is captured
	// Output takes what was captured: stream 1 is standard output, 2 standard
	// error. It is called from two goroutines; text of one stream is in order.
	Output func(stream uint8, text []byte)
	// Grace returns how long the group may take to end after SIGTERM. It is asked
	// when the context has ended.
	Grace func() time.Duration
	// ReadOnly are files that the program must not change, also when it runs as root (see shield).
	ReadOnly []string
}

// Result is how a program ended.
type Result struct {
	ExitCode int           // -1 when a signal ended it
	Signal   string        // its name, "" when it exited
	CPU      time.Duration // user and system time of the program and the children it waited for
	PeakRSS  uint64        // largest sampled sum of private memory (RssAnon) over the program and its descendants, bytes; 0 when it ended too soon for a sample
}

// drainTime bounds how long output is read when the program has ended and
// something that we could not end still holds the pipe.
const drainTime = 5 * time.Second

// Starter starts programs from one OS thread that lives as long as it: the
// parent-death signal of a child is tied to the thread that started it.
type Starter struct {
	one       sync.Mutex // held while a program runs
	once, end sync.Once
	work      chan func()
	closed    chan struct{}
	shield    shield        // the thread's
	drain     time.Duration // in place of drainTime, unless it is 0: a test that is held up does not pass
}

// errClosed says that the Starter was closed.
var errClosed = errors.New("the executor ends, no program is started any more")

// do runs f on the thread.
func (s *Starter) do(f func() error) error {
	s.once.Do(func() {
		s.work, s.closed = make(chan func()), make(chan struct{})
		go s.serve()
	})
	done := make(chan error, 1)
	select {
	case s.work <- func() { done <- f() }:
		return <-done
	case <-s.closed:
		return errClosed
	}
}

func (s *Starter) serve() {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	for {
		select {
		case f := <-s.work:
			f()
		case <-s.closed:
			s.shield.close()
			return
		}
	}
}

// Close ends the thread, and with it whatever it started that still lives. Run
// fails from then on.
func (s *Starter) Close() {
	s.once.Do(func() { s.closed = make(chan struct{}) })
	s.end.Do(func() { close(s.closed) })
}

// Run runs a program to its end. An error means that it could not be started;
// how it ended is in the Result. When ctx ends, the program's group gets SIGTERM,
// and SIGKILL after the grace. One program runs at a time: a second call waits,
// because what the first leaves behind is told from the second only by that.
func (s *Starter) Run(ctx context.Context, spec Spec) (Result, error) {
	path, err := lookUp(spec.Args[0], spec.Dir, spec.Env)
	if err != nil {
		return Result{}, err
	}
	pipes, err := newCapture(spec)
	if err != nil {
		return Result{}, err
	}
	s.one.Lock()
	defer s.one.Unlock()
	before, err := adopt()
	if err != nil {
		pipes.started()
		pipes.wait(0)
		return Result{}, fmt.Errorf("prepare for what %s leaves: %w", spec.Args[0], err)
	}
	attr := &os.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: pipes.files, Sys: sysAttr()}
	var proc *os.Process
	err = s.do(func() error {
		return s.shield.behind(spec.ReadOnly, func() (err error) {
			proc, err = os.StartProcess(path, spec.Args, attr)
			return err
		})
	})
	pipes.started()
	if err != nil {
		pipes.wait(0)
		return Result{}, explain(spec.Args[0], path, err)
	}
	watch := startSampler(proc.Pid)
	state, err := waitGroup(ctx, proc, spec.Grace)
	peak := watch.stop()
	err = errors.Join(err, sweep(before))
	pipes.wait(cmp.Or(s.drain, drainTime))
	if err != nil {
		return Result{}, fmt.Errorf("wait for %s: %w", spec.Args[0], err)
	}
	r := Result{ExitCode: state.ExitCode(), CPU: state.UserTime() + state.SystemTime(), PeakRSS: peak}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.Signal = signalName(ws.Signal())
	}
	return r, nil
}

// waitGroup waits for the end of proc and ends its group with it.
func waitGroup(ctx context.Context, proc *os.Process, grace func() time.Duration) (*os.ProcessState, error) {
	exited := make(chan error, 1)
	go func() { exited <- awaitExit(proc.Pid) }()
	var stop <-chan time.Time
	done := ctx.Done()
	for {
		select {
		case err := <-exited:
			// The process is a zombie: its number, and so the group's, is still its own.
			kill(-proc.Pid, syscall.SIGKILL)
			state, werr := proc.Wait()
			return state, errors.Join(err, werr)
		case <-done:
			done = nil
			kill(-proc.Pid, syscall.SIGTERM)
			t := time.NewTimer(grace())
			defer t.Stop()
			stop = t.C
		case <-stop:
			kill(-proc.Pid, syscall.SIGKILL)
		}
	}
}

// kill signals a group. An empty group is no error.
func kill(pid int, sig syscall.Signal) {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM) {
		panic(fmt.Sprintf("command: signal %v to %d: %v", sig, pid, err))
	}
}

// capture is the standard streams of a program.
type capture struct {
	files   []*os.File // of the child
	mine    []*os.File // ends to close when the child has its own
	readers []*os.File
	done    sync.WaitGroup
}

func newCapture(spec Spec) (*capture, error) {
	c := &capture{files: make([]*os.File, 3)}
	fail := func(err error) (*capture, error) {
		c.started()
		c.wait(0)
		return nil, fmt.Errorf("prepare standard streams: %w", err)
	}
	if c.files[0] = spec.Stdin; spec.Stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return fail(err)
		}
		c.files[0] = null
		c.mine = append(c.mine, null)
	}
	c.files[1] = spec.Stdout
	for stream := uint8(1); stream <= 2; stream++ {
		if c.files[stream] != nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		c.files[stream] = w
		c.mine = append(c.mine, w)
		c.readers = append(c.readers, r)
		c.done.Go(func() { forward(r, func(b []byte) { spec.Output(stream, b) }) })
	}
	return c, nil
}

// started closes the child's ends here.
func (c *capture) started() {
	for _, f := range c.mine {
		f.Close()
	}
}

// wait reads the streams to their end, but not longer than most.
func (c *capture) wait(most time.Duration) {
	for _, r := range c.readers {
		if err := r.SetReadDeadline(time.Now().Add(most)); err != nil {
			panic(fmt.Sprintf("command: pipe without deadline: %v", err))
		}
	}
	c.done.Wait()
	for _, r := range c.readers {
		r.Close()
	}
}

func forward(r io.Reader, put func([]byte)) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			put(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// sampler follows the private memory of a process tree.
type sampler struct {
	end  chan struct{}
	done sync.WaitGroup
	peak atomic.Uint64
}

func startSampler(pid int) *sampler {
	s := &sampler{end: make(chan struct{})}
	s.done.Go(func() {
		every := 10 * time.Millisecond
		t := time.NewTimer(every)
		defer t.Stop()
		for {
			select {
			case <-s.end:
				return
			case <-t.C:
			}
			s.peak.Store(max(s.peak.Load(), treeMemory(pid)))
			every = min(2*every, 500*time.Millisecond)
			t.Reset(every)
		}
	})
	return s
}

func (s *sampler) stop() uint64 {
	close(s.end)
	s.done.Wait()
	return s.peak.Load()
}
