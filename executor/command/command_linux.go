package command

import (
	"bytes"
	"errors"
	"fmt"
	"os"
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
	defer unix.Close(fd)
	var buf [128]byte // seven numbers
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
