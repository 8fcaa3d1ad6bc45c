package process

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// reaperVar makes a binary with this package a reaper; its value is the
// oom_score_adj of what it starts. The socket to the agent is descriptor 3.
const reaperVar = "CASCADE_REAPER"

// cgroupVar tells a reaper the descriptor of the cgroup in which to start the program.
const cgroupVar = "CASCADE_REAPER_CGROUP"

// readOnlyVar tells a reaper the folders that the program must not write to, with \x1f between them.
const readOnlyVar = "CASCADE_REAPER_READONLY"

// init is the entry of a reaper process: see the package comment. It runs on the
// main thread, to which the executor's parent-death signal is tied.
func init() { //nolint:gochecknoinits // it must run before main, in programs that know nothing of reapers
	score, ok := os.LookupEnv(reaperVar)
	if root, rooted := os.LookupEnv(rootVar); rooted && !ok {
		fmt.Fprintln(os.Stderr, "cascade-reaper:", becomeRooted(root, os.Args))
		syscall.Exit(1)
	}
	if !ok {
		return
	}
	runtime.LockOSThread()
	err := os.Unsetenv(reaperVar)
	if err == nil {
		err = reap(os.Args[1:], score)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cascade-reaper:", err)
		syscall.Exit(1)
	}
	syscall.Exit(0) // not os.Exit: in a -race build that waits a second
}

// reap starts args, waits for its end, and ends all that it left behind.
func reap(args []string, score string) error {
	agent, err := agentSocket()
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return tell(agent, "error", fmt.Sprintf("become a subreaper: %v", err))
	}
	// The reaper must outlive signals sent to everybody. Notify, not Ignore:
	// the executor would inherit an ignored signal.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	if score != "0" {
		// Where it is refused the executor is as likely a victim as the agent, no worse.
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte(score), 0)
	}
	pidfd := -1
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL, PidFD: &pidfd}
	if fd, err := strconv.Atoi(os.Getenv(cgroupVar)); err == nil {
		unix.CloseOnExec(fd)
		attr.UseCgroupFD, attr.CgroupFD = true, fd
		if err := os.Unsetenv(cgroupVar); err != nil {
			return err
		}
	}
	writable := "" // why a folder of readOnlyVar is
	if list, ok := os.LookupEnv(readOnlyVar); ok {
		if err := os.Unsetenv(readOnlyVar); err != nil {
			return err
		}
		if err := protect(strings.Split(list, "\x1f")); err != nil {
			writable = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
	}
	program := args[0]
	if _, rooted := os.LookupEnv(rootVar); rooted { // this binary, in its other role, becomes the program
		Root{}.attr(attr)
		program = "/proc/self/exe"
	}
	child, err := os.StartProcess(program, args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Env:   os.Environ(),
		Sys:   attr,
	})
	if err != nil {
		return tell(agent, "error", err.Error())
	}
	if pidfd < 0 {
		return errors.Join(child.Kill(), tell(agent, "error", "the kernel has no pidfds: Linux 5.4 or newer is needed"))
	}
	if _, _, err := agent.WriteMsgUnix(fmt.Appendf(nil, "pid %d %.3000s", child.Pid, writable), unix.UnixRights(pidfd), nil); err != nil {
		return fmt.Errorf("tell the agent the process id: %w", errors.Join(err, child.Kill()))
	}
	go func() {
		_, _ = agent.Read(make([]byte, 1)) // the agent writes nothing: this is its end, or its wish to kill
		_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
	}()
	status, err := awaitChild(child.Pid)
	if err != nil {
		return err
	}
	if err := sweep(); err != nil {
		return err
	}
	_, _ = agent.Write(fmt.Appendf(nil, "exit %d", uint32(status))) // fails when the agent is dead: it is not needed then
	return nil
}

// protect mounts folders read-only, in a namespace that this thread and its children have to themselves. It does what
// the host permits: an error says what it could not do, and the program runs without that.
func protect(folders []string) error {
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working folder: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace: %w", err)
	}
	// Mounts of the host are seen here, and none of ours there: without this there must be none.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separate the mounts from the host's: %w", err)
	}
	var failed []error
	for _, folder := range folders {
		if err := mountReadOnly(folder); err != nil {
			failed = append(failed, fmt.Errorf("mount %s read-only: %w", folder, err))
		}
	}
	if err := os.Chdir(dir); err != nil { // it may be in one of them: it is what is mounted from now on
		failed = append(failed, fmt.Errorf("use the working folder: %w", err))
	}
	return errors.Join(failed...)
}

// mountReadOnly mounts a folder on itself. In a user namespace the kernel refuses a mount that lacks flags of the
// folder's own.
func mountReadOnly(folder string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return err
	}
	kept := uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC) // ST_ flags have the same bits
	if err := unix.Mount(folder, folder, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Mount("", folder, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|kept, ""); err != nil {
		return errors.Join(err, unix.Unmount(folder, unix.MNT_DETACH))
	}
	return nil
}

func agentSocket() (*net.UnixConn, error) {
	file := os.NewFile(3, "agent")
	conn, err := net.FileConn(file)
	file.Close()
	if err != nil {
		return nil, fmt.Errorf("use descriptor 3 as socket to the agent: %w", err)
	}
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("descriptor 3 is not a Unix socket: " + reaperVar + " is for the agent's own use")
	}
	return unixConn, nil
}

func tell(agent *net.UnixConn, word, text string) error {
	if _, err := agent.Write([]byte(word + " " + text)); err != nil {
		return fmt.Errorf("tell the agent %q: %w", text, err)
	}
	return nil
}

// awaitChild reaps whatever dies below until pid has died.
func awaitChild(pid int) (syscall.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, fmt.Errorf("wait for process %d: %w", pid, err)
		case got == pid:
			return syscall.WaitStatus(status), nil
		}
	}
}

// sweep kills and reaps until there is no child left. The children of a killed
// child become ours, so the loop reaches everything.
func sweep() error {
	for {
		got, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case errors.Is(err, unix.EINTR) || got > 0:
			continue
		case err != nil:
			return fmt.Errorf("reap what the executor left: %w", err)
		}
		children, err := childrenOf(os.Getpid())
		if err != nil {
			return err
		}
		for _, pid := range children {
			_ = unix.Kill(pid, unix.SIGKILL) // they are unreaped children: the id cannot have been reused
		}
		if _, err := unix.Wait4(-1, nil, 0, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("reap what the executor left: %w", err)
		}
	}
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var children []int
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it ended meanwhile
		}
		if parentIn(stat) == pid {
			children = append(children, id)
		}
	}
	return children, nil
}

// parentIn returns the parent's id in the text of /proc/PID/stat: the second
// field after the program's name, which is in parentheses and may hold any byte.
func parentIn(stat []byte) int {
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) < 2 {
		return -1
	}
	parent, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return -1
	}
	return parent
}
