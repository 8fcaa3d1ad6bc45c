//go:build linux

package chaos

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
)

// markVar is in the environment of every process of a test and of all that they start.
const markVar = "CHAOS_MARK"

// Host is a host of its own for one test: folders, a journal, and the processes
// that the test starts. When the test ends the daemons are stopped in good order,
// and nothing may be left of them.
type Host struct {
	Dir     string   // working folder: job files and outputs
	State   string   // state folder of `cascade run`; those of the daemons are controller and agent in it
	Sockets string   // folder of sockets
	Journal *Journal // what tasks say
	Env     []string // NAME=value for processes that are started from now on

	Programs string // folder of the programs of daemons that are started from now on; "": those of this tree

	Begin func(*exec.Cmd) error // starts processes from now on, on another host of a lab; nil: on this one

	Patience time.Duration // how long the test waits for the end of a job that is submitted from now on; New sets it

	tb     testing.TB
	mark   string
	before []string // arguments before the program's own of daemons that are started from now on

	mu        sync.Mutex
	processes []*Process // in the order of their starts
}

// New makes a host. In short mode it skips the test: programs must be built, and
// many processes started.
func New(tb testing.TB) *Host {
	tb.Helper()
	if testing.Short() {
		tb.Skip("builds programs and starts many processes")
	}
	h := &Host{tb: tb, Dir: tb.TempDir(), State: tb.TempDir(), Patience: patience}
	// Paths of sockets are short, and the test's folder may not be.
	sockets, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		tb.Fatal(err)
	}
	h.Sockets, h.mark = sockets, filepath.Base(sockets)
	tb.Cleanup(func() { os.RemoveAll(sockets) })
	h.Journal = newJournal(tb, filepath.Join(h.Dir, "journal"))
	tb.Cleanup(h.end)
	return h
}

// end stops what runs, cleans up after what was killed, and looks for what is left.
func (h *Host) end() {
	for i := len(h.processes) - 1; i >= 0; i-- {
		p := h.processes[i]
		if !p.Ended() && h.tb.Failed() {
			p.Signal(syscall.SIGTERM)
			p.Signal(syscall.SIGTERM)
			p.Wait()
		}
		if !p.Ended() {
			p.Stop()
		}
	}
	if h.tb.Failed() {
		for _, p := range h.processes {
			h.tb.Logf("%s said:\n%s", p.name, tail(p.Output(), 8<<10))
		}
	}
	if h.killed() && !h.tb.Failed() {
		h.Clean()
	}
	if h.tb.Failed() {
		h.sweep()
		return
	}
	for _, left := range h.Left() {
		h.tb.Errorf("left behind: %s", left)
	}
	h.sweep()
}

// killed tells whether the last process of a daemon was killed, so that only
// `cascade clean` can remove what it had.
func (h *Host) killed() bool {
	last := map[string]bool{} // by command line: there may be two agents
	for _, p := range h.processes {
		if p.name == "cascade-agent" || p.name == "cascade-controller" || p.name == "cascade run" {
			last[strings.Join(p.cmd.Args, " ")] = p.cmd.ProcessState.ExitCode() < 0
		}
	}
	return slices.Contains(slices.Collect(maps.Values(last)), true)
}

// Clean runs `cascade clean` on the state folders and returns what it said.
func (h *Host) Clean(args ...string) string {
	h.tb.Helper()
	said := ""
	for _, of := range []string{"lock", "controller/store/lock", "agent/agent.lock", "agent2/agent.lock", "agent3/agent.lock", "agent4/agent.lock"} {
		if _, err := os.Stat(filepath.Join(h.State, of)); err != nil {
			continue
		}
		dir := h.State
		if part, _, inside := strings.Cut(of, "/"); inside {
			dir = filepath.Join(h.State, part)
		}
		c := h.Command("clean", append([]string{"--state", dir}, args...)...)
		if code := c.Wait(); code != 0 {
			h.tb.Errorf("cascade clean ended with %d:\n%s", code, c.Output())
		}
		said += c.Output()
		if of == "lock" {
			break // the others are parts of it
		}
	}
	return said
}

// Left lists what there still is of the test: processes, sockets, shared memory.
func (h *Host) Left() []string {
	var all []string
	for _, pid := range h.living() {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		all = append(all, fmt.Sprintf("process %d: %s", pid, bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})))
	}
	_ = filepath.WalkDir(h.Sockets, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&os.ModeSocket != 0 {
			all = append(all, "socket "+path)
		}
		return nil
	})
	return append(all, h.SharedMemory()...)
}

// SharedMemory lists the files that agents of this host have in shared memory.
func (h *Host) SharedMemory() []string {
	var dirs []string
	for _, agent := range []string{"agent", "agent2", "agent3", "agent4"} {
		sum := fnv.New32a()
		sum.Write([]byte(filepath.Join(h.State, agent)))
		found, _ := filepath.Glob(fmt.Sprintf("/dev/shm/cascade-*-%08x*", sum.Sum32()))
		dirs = append(dirs, found...)
	}
	all := dirs
	for _, d := range dirs {
		files, _ := filepath.Glob(d + "/*")
		all = append(all, files...)
	}
	return all
}

// sweep ends what a failed test left, so that it cannot disturb others.
func (h *Host) sweep() {
	for _, pid := range h.living() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, f := range h.SharedMemory() {
		os.RemoveAll(f)
	}
}

// living lists the processes with the test's mark.
func (h *Host) living() []int { return h.marked(func([]byte) bool { return true }) }

// Executors lists the executors that live, in no order. Those that have just
// been started and are not yet their own program are not among them.
func (h *Host) Executors() []int {
	return h.marked(func(environ []byte) bool {
		return bytes.Contains(environ, []byte("\x00CASCADE_EXECUTOR_ADDR=")) && !bytes.Contains(environ, []byte("\x00CASCADE_REAPER="))
	})
}

// Reapers lists the reapers of executors that live.
func (h *Host) Reapers() []int {
	return h.marked(func(environ []byte) bool { return bytes.Contains(environ, []byte("\x00CASCADE_REAPER=")) })
}

func (h *Host) marked(match func(environ []byte) bool) []int {
	mark := []byte("\x00" + markVar + "=" + h.mark + "\x00")
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, f := range files {
		environ, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended, or belongs to another user
		}
		environ = append([]byte{0}, environ...)
		if !bytes.Contains(environ, mark) || !match(environ) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err == nil && !ended(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ended tells whether a process is dead, a zombie, or on its way there: then the kernel has taken its memory, and
// it runs nothing more.
func ended(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || !bytes.Contains(status, []byte("\nVmSize:"))
}

// start starts a command of this host.
func (h *Host) start(name, program string, args ...string) *Process {
	h.tb.Helper()
	return h.startWith(h.Env, name, program, args...)
}

// startWith is like start with other variables than h.Env.
func (h *Host) startWith(env []string, name, program string, args ...string) *Process {
	h.tb.Helper()
	p := &Process{tb: h.tb, name: name, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Dir = h.Dir
	p.cmd.Env = append(os.Environ(), markVar+"="+h.mark, journalVar+"="+h.Journal.Path, "XDG_RUNTIME_DIR="+h.Sockets,
		"CASCADE_STATE="+h.State, "CASCADE_TO=", "GOTRACEBACK=all")
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = 5 * time.Second // what inherited its output must not keep us
	begin := h.Begin
	if begin == nil {
		begin = (*exec.Cmd).Start
	}
	if err := begin(p.cmd); err != nil {
		h.tb.Fatalf("start %s: %v", name, err)
	}
	h.mu.Lock()
	h.processes = append(h.processes, p)
	h.mu.Unlock()
	go func() {
		_ = p.cmd.Wait() // ProcessState says how it ended
		close(p.done)
	}()
	return p
}

// Address is where the controller listens.
func (h *Host) Address() string { return "ipc://" + filepath.Join(h.Sockets, "controller.sock") }

// daemon starts a daemon behind h.before.
func (h *Host) daemon(name string, args []string) *Process {
	h.tb.Helper()
	program := filepath.Join(h.Programs, name)
	if h.Programs == "" {
		program = Program(h.tb, name)
	}
	line := append(append(append([]string(nil), h.before...), program), args...)
	return h.start(name, line[0], line[1:]...)
}

// Controller starts a cascade-controller and waits until it is ready.
func (h *Host) Controller(args ...string) *Process {
	h.tb.Helper()
	p := h.StartController(args...)
	p.Await("ipc://")
	return p
}

// StartController is like Controller and does not wait.
func (h *Host) StartController(args ...string) *Process {
	h.tb.Helper()
	return h.daemon("cascade-controller", h.controllerArgs(args...))
}

func (h *Host) controllerArgs(more ...string) []string {
	return append([]string{"--state", filepath.Join(h.State, "controller"), "--listen", h.Address(), "--durability=crash"}, more...)
}

// Agent starts a cascade-agent with two cores whose executors are the test's own
// binary, and waits until the controller has it.
func (h *Host) Agent(args ...string) *Process {
	h.tb.Helper()
	p := h.StartAgent(args...)
	p.Await("controller is there")
	return p
}

// SecondAgent is like Agent: another agent on this host, beside the first.
func (h *Host) SecondAgent(args ...string) *Process {
	h.tb.Helper()
	return h.Agent(append(h.apart("2"), args...)...)
}

// ThirdAgent is like SecondAgent, beside that.
func (h *Host) ThirdAgent(args ...string) *Process {
	h.tb.Helper()
	return h.Agent(append(h.apart("3"), args...)...)
}

// apart are the flags of another agent on this host.
func (h *Host) apart(n string) []string {
	return []string{"--name", "a" + n, "--state", filepath.Join(h.State, "agent"+n), "--runtime", filepath.Join(h.Sockets, "a"+n)}
}

// StartAgent is like Agent and does not wait.
func (h *Host) StartAgent(args ...string) *Process {
	h.tb.Helper()
	self, err := os.Executable()
	if err != nil {
		h.tb.Fatal(err)
	}
	return h.daemon("cascade-agent", append([]string{
		"--state", filepath.Join(h.State, "agent"), "--controller", h.Address(), "--name", "a1", "--runtime", h.Sockets,
		"--executor", self, "--cpu", "2", "--memory", "1GiB", "--store", "256MiB"}, args...))
}

// Run starts `cascade run` with two cores.
func (h *Host) Run(file string, args ...string) *Process {
	h.tb.Helper()
	return h.start("cascade run", Program(h.tb, "cascade"), append([]string{"run", file, "--cpu", "2", "--memory", "1GiB", "--store", "256MiB"}, args...)...)
}

// Command starts another command of cascade, on the state folder of `cascade run`
// unless --to or --state is among the arguments.
func (h *Host) Command(name string, args ...string) *Process {
	h.tb.Helper()
	return h.start("cascade "+name, Program(h.tb, "cascade"), append([]string{name}, args...)...)
}

// Write writes a file into the working folder.
func (h *Host) Write(name, text string) {
	h.tb.Helper()
	if err := os.WriteFile(filepath.Join(h.Dir, name), []byte(text), 0o600); err != nil {
		h.tb.Fatal(err)
	}
}

// Read returns the text of a file in the working folder, "" when there is none.
func (h *Host) Read(name string) string {
	b, err := os.ReadFile(filepath.Join(h.Dir, name))
	if err != nil && !os.IsNotExist(err) {
		h.tb.Fatal(err)
	}
	return string(b)
}

// Pipe makes a named pipe in the working folder and returns its path.
func (h *Host) Pipe(name string) string {
	h.tb.Helper()
	path := filepath.Join(h.Dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		h.tb.Fatal(err)
	}
	return path
}

// Client returns a client of the controller that ends with the test. It is as patient
// as the test is: a controller that dies again and again may be away for long.
func (h *Host) Client() *cascade.Client {
	h.tb.Helper()
	ctx, cancel := context.WithTimeout(h.tb.Context(), patience)
	defer cancel()
	dial := func() (*cascade.Client, error) {
		return cascade.Dial(ctx, h.Address(), cascade.WithPatience(patience), cascade.WithInsecureTestNetwork()) // of agents on hosts of the test's own
	}
	c, err := dial()
	for err != nil && ctx.Err() == nil { // the controller may die of its failpoint meanwhile
		c, err = dial()
	}
	if err != nil {
		h.tb.Fatal(err)
	}
	h.tb.Cleanup(func() { _ = c.Close() }) // its cluster may be dead
	return c
}

// ReadyClient is like Client, and returns when so many agents can be given work:
// a job that is submitted before is planned for fewer.
func (h *Host) ReadyClient(agents int) *cascade.Client {
	h.tb.Helper()
	c := h.Client()
	ctx, cancel := context.WithTimeout(h.tb.Context(), patience)
	defer cancel()
	if err := c.Ready(ctx, agents); err != nil {
		h.tb.Fatal(err)
	}
	return c
}

func tail(text string, n int) string {
	if len(text) > n {
		return "..." + text[len(text)-n:]
	}
	return text
}
