package process

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command says what to start.
type Command struct {
	Path   string   // of the program
	Args   []string // without the program's name
	Env    []string // NAME=value, complete: nothing is inherited
	Dir    string   // working folder; "" is the agent's
	Output int      // bytes of its output's end to keep; 0 means 64 KiB

	// OOMScoreAdj is written to /proc/self/oom_score_adj before the start, so that
	// the kernel ends executors before it ends the agent. It can only be raised.
	OOMScoreAdj int

	// Cgroup is the open folder of a cgroup v2 in which the program starts; nil for
	// the agent's own. The reaper stays outside: it tells how the program ended.
	Cgroup *os.File

	// Tee gets what the program writes to standard output and error, in pieces
	// as they come; nil for none. Its errors are ignored: the tail is kept anyway.
	Tee io.Writer

	// Hold is a file that the program and all that it starts inherit; nil for none. See Hold.
	Hold *os.File

	// ReadOnly are folders that the program, and what it starts, cannot write to, although it is root: they are mounted so,
	// for it alone. For other users nothing is done: the modes of the files must do. Where root may not mount (in a
	// container without CAP_SYS_ADMIN) the program can write to them, and Writable says why.
	ReadOnly []string

	// Root is the file system that the program sees; nil for the host's. Path and Dir are in it; a Path without
	// a slash is looked for there, in the PATH of Env.
	Root *Root
}

// Exit says how a process ended.
type Exit struct {
	Status syscall.WaitStatus // meaningless when Lost
	Lost   bool               // the reaper was killed too: the status was lost with it
	Output []byte             // the last bytes of standard output and error
}

func (e Exit) String() string {
	switch {
	case e.Lost:
		return "ended together with its reaper"
	case e.Status.Signaled():
		return fmt.Sprintf("ended by %s", signalName(e.Status.Signal()))
	default:
		return fmt.Sprintf("ended with status %d", e.Status.ExitStatus())
	}
}

// Signal returns the name of the signal that ended the process, or "".
func (e Exit) Signal() string {
	if e.Lost || !e.Status.Signaled() {
		return ""
	}
	return signalName(e.Status.Signal())
}

func signalName(s syscall.Signal) string {
	if n := unix.SignalName(s); n != "" {
		return n
	}
	return fmt.Sprintf("signal %d", int(s))
}

// Process is a started program under its reaper.
type Process struct {
	pid    int
	pidfd  *os.File
	conn   *net.UnixConn
	reaper *exec.Cmd
	output tail

	writable string // see Writable

	hangup sync.Once
	done   chan struct{}
	exit   Exit
}

// Start starts a program under a reaper of its own and returns once it runs.
func Start(c Command) (*Process, error) {
	p, err := start(c)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	return p, nil
}

// self is the path of the agent's own binary, as it was started: an upgrade moves that aside, and the new one lies there.
var self, errSelf = os.Executable()

func start(c Command) (*Process, error) {
	if errSelf != nil {
		return nil, fmt.Errorf("find the agent's own binary: %w", errSelf)
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	failed := func(err error) (*Process, error) { return nil, errors.Join(err, ours.Close()) }
	out, outW, err := os.Pipe()
	if err != nil {
		return failed(fmt.Errorf("make output pipe: %w", err))
	}
	keep := c.Output
	if keep == 0 {
		keep = 64 << 10
	}
	p := &Process{conn: ours, done: make(chan struct{}), output: tail{max: keep}}
	p.reaper = &exec.Cmd{
		Path:        self,
		Args:        append([]string{"cascade-reaper", c.Path}, c.Args...),
		Env:         append(c.Env[:len(c.Env):len(c.Env)], reaperVar+"="+strconv.Itoa(c.OOMScoreAdj)),
		Dir:         c.Dir,
		Stdout:      outW,
		Stderr:      outW,
		ExtraFiles:  []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}, // a terminal's Ctrl-C is the agent's business alone
	}
	if c.Hold != nil {
		p.reaper.ExtraFiles = append(p.reaper.ExtraFiles, c.Hold) // the reaper does not mark it close-on-exec
	}
	if c.Cgroup != nil {
		p.reaper.ExtraFiles = append(p.reaper.ExtraFiles, c.Cgroup)
		p.reaper.Env = append(p.reaper.Env, cgroupVar+"="+strconv.Itoa(2+len(p.reaper.ExtraFiles)))
	}
	if len(c.ReadOnly) > 0 && os.Geteuid() == 0 {
		p.reaper.Env = append(p.reaper.Env, readOnlyVar+"="+strings.Join(c.ReadOnly, "\x1f"))
	}
	p.reaper.Env = append(p.reaper.Env, c.Root.env()...)
	err = p.reaper.Start()
	outW.Close()
	if err != nil {
		out.Close()
		// The kernel has one word for a program and a folder that are not there.
		if _, gone := os.Stat(c.Dir); c.Dir != "" && gone != nil {
			return failed(fmt.Errorf("use its working folder, that of the job: %w", gone))
		}
		return failed(fmt.Errorf("start its reaper: %w", err))
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		p.output.drain(out, c.Tee)
		out.Close()
	}()
	if err := p.greet(); err != nil {
		p.Kill()
		_ = p.reaper.Wait() // err says more than its status
		<-copied
		if text := p.output.bytes(); len(text) > 0 {
			err = fmt.Errorf("%w; it wrote: %s", err, text)
		}
		return failed(err)
	}
	go p.watch(copied)
	return p, nil
}

// socketPair returns a connection and the file of its other end, which a child may inherit.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "reaper"), os.NewFile(uintptr(fds[1]), "agent")
	conn, err := net.FileConn(ours)
	ours.Close()
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("use socket pair: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil
}

// greet takes the reaper's first message: the process's id and pidfd, or why it did not start.
func (p *Process) greet() error {
	buf, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := p.conn.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 {
		return fmt.Errorf("its reaper ended before it started (%w)", errors.Join(err, io.EOF))
	}
	word, rest, _ := strings.Cut(string(buf[:n]), " ")
	if word != "pid" {
		return errors.New(rest)
	}
	id, writable, _ := strings.Cut(rest, " ")
	p.writable = writable
	if p.pid, err = strconv.Atoi(id); err != nil {
		return fmt.Errorf("read process id from its reaper: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("take pidfd from its reaper: %d messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return fmt.Errorf("take pidfd from its reaper: %d descriptors: %w", len(fds), err)
	}
	unix.CloseOnExec(fds[0])
	// A non-blocking descriptor joins the runtime's poller: waiting costs no thread.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return fmt.Errorf("use pidfd: %w", errors.Join(err, unix.Close(fds[0])))
	}
	p.pidfd = os.NewFile(uintptr(fds[0]), "pidfd")
	return nil
}

// Writable says why the program can write to a folder of Command.ReadOnly although it is root; "" when it cannot.
func (p *Process) Writable() string { return p.writable }

// watch waits until the whole tree is dead, then publishes how the process ended.
func (p *Process) watch(copied <-chan struct{}) {
	buf := make([]byte, 4096)
	n, err := p.conn.Read(buf)
	word, rest, _ := strings.Cut(string(buf[:n]), " ")
	status, bad := strconv.ParseUint(rest, 10, 32)
	if err == nil && word == "exit" && bad == nil {
		p.exit.Status = syscall.WaitStatus(status)
	} else {
		p.exit.Lost = true
	}
	if p.exit.Lost {
		_ = p.signal(syscall.SIGKILL) // its parent-death signal may still be on the way; or it is dead
	}
	p.awaitPidfd()
	_ = p.reaper.Wait() // what counts is that it ended: the executor's status came over the socket
	<-copied
	_ = p.conn.Close()
	p.pidfd.Close()
	p.exit.Output = p.output.bytes()
	close(p.done)
}

// awaitPidfd returns when the process is dead: a pidfd is readable from then on.
func (p *Process) awaitPidfd() {
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return // closed: only watch closes it
	}
	_ = raw.Read(func(fd uintptr) bool { // fails like SyscallConn
		for {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			if err != unix.EINTR {
				return n > 0 || err != nil
			}
		}
	})
}

// PID returns the process id. It may name another process once Done is closed.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process and all that it started are dead.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until the process and all that it started are dead.
func (p *Process) Wait() Exit {
	<-p.done
	return p.exit
}

// Kill ends the process and all that it started with SIGKILL. It returns at once; Done tells when they are dead.
func (p *Process) Kill() {
	p.hangup.Do(func() { _ = p.conn.CloseWrite() }) // fails when the reaper is dead, and then so is all else
}

// Signal sends a signal to the process alone; to a dead one it does nothing.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.signal(sig); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("send %s to process %d: %w", signalName(sig), p.pid, err)
	}
	return nil
}

func (p *Process) signal(sig syscall.Signal) error {
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.PidfdSendSignal(int(fd), sig, nil, 0)
	}); err != nil {
		return err
	}
	return failed
}
