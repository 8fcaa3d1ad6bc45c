package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// sysAttr puts the program into a session of its own and ends it with us.
func sysAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until a child has ended and leaves it a zombie.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// adopt makes this process the parent of orphans below it, and returns the
// children that it has.
func adopt() (map[int]bool, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a subreaper: %w", err)
	}
	all := map[int]bool{}
	for _, pid := range children() {
		all[pid] = true
	}
	return all, nil
}

// sweep kills and reaps all children but those that were there before. The
// children of a killed child become ours: it goes on until no new one comes.
func sweep(before map[int]bool) error {
	for {
		found := false
		for _, pid := range children() {
			if before[pid] {
				continue
			}
			found = true
			kill(pid, syscall.SIGKILL) // an unreaped child: its number cannot have been used again
			for {
				_, err := unix.Wait4(pid, nil, unix.WALL, nil)
				if err == nil {
					break
				}
				if !errors.Is(err, unix.EINTR) {
					return fmt.Errorf("end what the program left: wait for %d: %w", pid, err)
				}
			}
		}
		if !found {
			return nil
		}
	}
}

// children lists the children of this process, zombies too. Mostly there is none,
// which one call tells.
func children() (pids []int) {
	if errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD) {
		return nil
	}
	threads, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return nil
	}
	for _, t := range threads {
		b, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has ended, and its children are another's
		}
		for _, f := range bytes.Fields(b) {
			if pid, err := strconv.Atoi(string(f)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// treeMemory sums RssAnon over a process and its descendants.
func treeMemory(pid int) uint64 {
	var sum uint64
	todo := []int{pid}
	for seen := 0; len(todo) > 0 && seen < 1000; seen++ {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		sum += privateMemory(p)
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p, p))
		if err != nil {
			continue
		}
		for _, f := range bytes.Fields(b) {
			if n, err := strconv.Atoi(string(f)); err == nil {
				todo = append(todo, n)
			}
		}
	}
	return sum
}

func privateMemory(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(b, []byte("RssAnon:"))
	if !ok {
		return 0
	}
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// PrivateMemory returns this process's anonymous resident memory in bytes: what
// it holds alone. Mapped datasets and shared libraries are not in it. 0 when it
// cannot be read. It is asked between short runs, and so reads the file that
// costs the kernel least (proc_pid_statm(5): resident less shared is RssAnon).
func PrivateMemory() uint64 {
	fd, err := unix.Open("/proc/self/statm", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	var buf [128]byte                     // seven numbers
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return 0
	}
	f := bytes.Fields(buf[:n])
	if len(f) < 3 {
		return 0
	}
	resident, err1 := strconv.ParseUint(string(f[1]), 10, 64)
	shared, err2 := strconv.ParseUint(string(f[2]), 10, 64)
	if err1 != nil || err2 != nil || shared > resident {
		return 0
	}
	return (resident - shared) * uint64(os.Getpagesize())
}
