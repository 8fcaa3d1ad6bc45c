//go:build linux

package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/testing/smallfs"
)

// The test binary plays an agent that starts a shell and lives until it is killed.
func TestMain(m *testing.M) {
	if script := os.Getenv("PROCESS_TEST_AGENT"); script != "" {
		p, err := Start(shell(script))
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
		p.Wait()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// patience only keeps a failing test from hanging.
const patience = 4 * time.Minute

func shell(script string) Command {
	return Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

func TestExit(t *testing.T) {
	for _, c := range []struct{ script, want, output string }{
		{"exit 0", "ended with status 0", ""},
		{"echo out; echo err >&2; exit 7", "ended with status 7", "out\nerr\n"},
		{"kill -SEGV $$", "ended by SIGSEGV", ""},
		{"head -c 10000000 /dev/zero | tr '\\0' x; echo end", "ended with status 0", strings.Repeat("x", 64<<10-4) + "end\n"},
	} {
		p, err := Start(shell(c.script))
		if err != nil {
			t.Fatal(err)
		}
		if exit := p.Wait(); exit.String() != c.want || string(exit.Output) != c.output {
			t.Errorf("%s: %s, output of %d bytes; want %s, %d bytes", c.script, exit, len(exit.Output), c.want, len(c.output))
		}
	}
}

func TestStartFails(t *testing.T) {
	_, err := Start(Command{Path: "/does/not/exist"})
	if err == nil || !strings.Contains(err.Error(), "/does/not/exist: no such file") {
		t.Fatalf("error %v", err)
	}
}

func TestStartNamesTheFolderThatIsGone(t *testing.T) {
	dir := t.TempDir() + "/gone"
	if _, err := Start(Command{Path: "/bin/true", Dir: dir}); err == nil || !strings.Contains(err.Error(), "working folder") || !strings.Contains(err.Error(), dir) {
		t.Errorf("it says %v", err)
	}
}

func TestOOMScore(t *testing.T) {
	c := shell("cat /proc/self/oom_score_adj")
	c.OOMScoreAdj = 500
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if exit := p.Wait(); string(exit.Output) != "500\n" {
		t.Errorf("output %q", exit.Output)
	}
}

// mayMount tells whether a process of ours may have mounts of its own, tried in a thread that ends.
func mayMount(t *testing.T) bool {
	t.Helper()
	dir, tried := t.TempDir(), make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine, and its namespace with it
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "")
		}
		if err == nil {
			err = unix.Mount(dir, dir, "", unix.MS_BIND, "")
		}
		tried <- err
	}()
	err := <-tried
	if err != nil {
		t.Logf("no mounts here: %v", err)
	}
	return err == nil
}

// Root cannot write to folders that are shared with others, nor move them; and sees them from within too. Others see no mount.
// A folder that cannot be mounted keeps neither the program nor the other folders from it.
func TestReadOnly(t *testing.T) {
	root := os.Geteuid() == 0
	if root && !mayMount(t) {
		t.Skip("root may not mount here")
	}
	for _, more := range []string{"", "/no/such/folder"} {
		dir, free := t.TempDir(), t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "data"), []byte("data"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o500); err != nil { // for users other than root
			t.Fatal(err)
		}
		c := shell("cat data; echo x 2>&1 > left; rm -f data; rm -rf " + dir + "; echo y > " + free + "/made; exec 2>&1; grep -c ' " + dir + " ' /proc/self/mounts")
		c.Dir, c.ReadOnly = dir, []string{dir}
		if more != "" {
			c.ReadOnly = []string{more, dir}
		}
		p, err := Start(c)
		if err != nil {
			t.Fatal(err)
		}
		exit := p.Wait()
		if root && !strings.HasSuffix(string(exit.Output), "\n1\n") {
			t.Errorf("it is not mounted: %s", exit.Output)
		}
		if why := p.Writable(); (why != "") != (root && more != "") || !strings.Contains(why, more) {
			t.Errorf("with %q it can write because of %q", more, why)
		}
		found, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(found) != 1 || filepath.Base(found[0]) != "data" {
			t.Errorf("the folder has %v, %v", found, err)
		}
		if _, err := os.Stat(filepath.Join(free, "made")); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(string(exit.Output), "data") {
			t.Errorf("output %s", exit.Output)
		}
		if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), dir) {
			t.Errorf("the mount is seen outside, %v", err)
		}
	}
}

// What a file system does not permit is not permitted either where it is mounted read-only.
func TestReadOnlyKeepsFlags(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's folders are mounted")
	}
	if !smallfs.Enter(t) {
		return
	}
	dir := t.TempDir()
	smallfs.Mount(t, "tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=1m")
	c := shell("grep ' " + dir + " ' /proc/self/mounts | tail -n 1")
	c.ReadOnly = []string{dir}
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if exit := p.Wait(); p.Writable() != "" || !strings.Contains(string(exit.Output), " ro,nosuid,nodev,noexec") {
		t.Errorf("it is mounted as %s; %s", exit.Output, p.Writable())
	}
}

// daemonise starts a process that left session, group and parent, and prints its id to a FIFO.
const daemonise = `setsid sh -c 'setsid sh -c "echo \$\$ > %[1]s; exec sleep 1000" &' ; `

func TestNothingIsLeftBehind(t *testing.T) {
	type started struct {
		process *Process
		agent   *exec.Cmd
		pid     int
	}
	for _, c := range []struct {
		name string
		tail string // what the shell does after it has started the daemon
		end  func(t *testing.T, s started)
	}{
		{"the executor ends by itself", "cat " + "%[2]s", func(t *testing.T, s started) {}},
		{"the agent asks", "sleep 1000", func(t *testing.T, s started) { s.process.Kill() }},
		{"the executor is killed", "sleep 1000", func(t *testing.T, s started) { s.process.Signal(syscall.SIGKILL) }},
		{"the agent is killed", "sleep 1000", func(t *testing.T, s started) { s.agent.Process.Kill() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "daemon")
			gate := filepath.Join(t.TempDir(), "gate")
			for _, f := range []string{fifo, gate} {
				if err := syscall.Mkfifo(f, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			script := fmt.Sprintf(daemonise+c.tail, fifo, gate)
			var s started
			if c.name == "the agent is killed" {
				s.agent, s.pid = startAgent(t, script)
			} else {
				p, err := Start(shell(script))
				if err != nil {
					t.Fatal(err)
				}
				s.process, s.pid = p, p.PID()
			}
			line, err := os.ReadFile(fifo)
			if err != nil {
				t.Fatal(err)
			}
			daemon, err := strconv.Atoi(strings.TrimSpace(string(line)))
			if err != nil {
				t.Fatal(err)
			}
			fds := []int{pidfd(t, daemon), pidfd(t, s.pid)}
			if strings.HasPrefix(c.tail, "cat") {
				os.WriteFile(gate, []byte("go"), 0)
			}
			c.end(t, s)
			for _, fd := range fds {
				awaitDeath(t, fd)
			}
			if s.process != nil {
				s.process.Wait()
			}
			if s.agent != nil {
				s.agent.Wait()
			}
		})
	}
}

func TestReaperKilled(t *testing.T) {
	p, err := Start(shell("exec sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	p.reaper.Process.Kill()
	if exit := p.Wait(); !exit.Lost {
		t.Errorf("%s", exit)
	}
}

func startAgent(t *testing.T, script string) (*exec.Cmd, int) {
	t.Helper()
	agent := exec.Command(os.Args[0])
	agent.Env = append(os.Environ(), "PROCESS_TEST_AGENT="+script)
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("agent says %q", line)
	}
	return agent, pid
}

func pidfd(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	return fd
}

// awaitDeath waits for the end of the process; the limit only keeps a failing test from hanging.
func awaitDeath(t *testing.T, fd int) {
	t.Helper()
	defer unix.Close(fd)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n != 1 {
			t.Fatal("the process still lives")
		}
		return
	}
}

// TestEndHolders: what was started with a hold is waited for, and killed when nobody else does it.
func TestEndHolders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alive")
	if err := EndHolders(path, 0); err != nil {
		t.Errorf("without a file: %v", err)
	}
	start := func(script string) *Process {
		t.Helper()
		hold, err := Hold(path)
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		c := shell(script)
		c.Hold = hold
		p, err := Start(c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// Its command, too, which the shell waits for; and one that neither listens nor runs.
	nested, frozen := start("sleep 1000; true"), start("kill -STOP $$")
	if err := EndHolders(path, 0); err == nil || !strings.Contains(err.Error(), strconv.Itoa(nested.PID())) || !strings.Contains(err.Error(), strconv.Itoa(frozen.PID())) {
		t.Errorf("while they live: %v", err)
	}
	if err := EndHolders(path, patience); err != nil {
		t.Error(err)
	}
	for _, p := range []*Process{nested, frozen} {
		select {
		case <-p.Done():
		case <-time.After(patience):
			t.Errorf("process %d lives", p.PID())
		}
	}
	if err := EndHolders(path, 0); err != nil {
		t.Errorf("after their end: %v", err)
	}
}
