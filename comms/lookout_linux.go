package comms

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lookout spares a process that wakes often and works briefly the wakes of the Go
// runtime's monitor thread. The monitor sleeps while nothing runs, and the first
// system call after that wakes it: 5 us before each message that a sleeping process
// gets, and five naps of 20 us of the monitor after it, a third of the cpu time of an
// executor with short tasks. It is needed where a goroutine works for long: only the
// monitor preempts it. So calls that never wait are made without the runtime's
// knowledge, as long as a timer is set: the monitor sleeps no longer than to the next
// timer, and whoever sets it first wakes the monitor.
//
//	read, write ─▶ the timer is set? ── yes ─▶ call
//	                     └── no ─▶ set it, wake the monitor ─▶ call
//	timer ─▶ any call since it was set? ── yes ─▶ set it again, wake the monitor
//	                     └── no ─▶ the next call sets it
//
// See sysmon and entersyscall in the runtime's proc.go.
type lookout struct {
	set   atomic.Bool
	used  atomic.Bool
	timer atomic.Pointer[time.Timer]
	iov   []unix.Iovec // the writer's
}

const (
	lookEvery = 5 * time.Millisecond
	quickMost = 64 << 10 // bytes of a call that the runtime need not know of: some ten microseconds
)

// pass is called before each call that the runtime does not know of.
func (o *lookout) pass() {
	if !o.used.Load() {
		o.used.Store(true)
	}
	if o.set.Load() || !o.set.CompareAndSwap(false, true) {
		return
	}
	if t := o.timer.Load(); t != nil {
		t.Reset(lookEvery)
	} else {
		o.timer.Store(time.AfterFunc(lookEvery, o.look))
	}
	wakeMonitor()
}

// look is the end of the timer.
func (o *lookout) look() {
	t := o.timer.Load()
	if !o.used.Swap(false) || t == nil { // nil: who makes it has not had its turn since
		o.rest()
		return
	}
	t.Reset(lookEvery)
	wakeMonitor()
}

// rest lets the next call set the timer. One that came before the timer counted as
// not set has found it set, and relies on it.
func (o *lookout) rest() {
	o.set.Store(false)
	if o.used.Load() {
		o.pass()
	}
}

// wakeMonitor makes a system call that the runtime knows of.
func wakeMonitor() { _, _, _ = syscall.Syscall(unix.SYS_GETPID, 0, 0, 0) }

// read is read(2) of a descriptor that does not make it wait.
func (o *lookout) read(fd int, p []byte) (int, error) {
	if len(p) > quickMost {
		return unix.Read(fd, p)
	}
	o.pass()
	n, _, errno := syscall.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// writev is writev(2) of a descriptor that does not make it wait.
func (o *lookout) writev(fd int, vec [][]byte) (int, error) {
	o.iov = o.iov[:0]
	size := 0
	for _, p := range vec {
		v := unix.Iovec{Base: unsafe.SliceData(p)}
		v.SetLen(len(p))
		o.iov = append(o.iov, v)
		size += len(p)
	}
	defer clear(o.iov) // do not keep the messages alive
	if size > quickMost {
		return unix.Writev(fd, vec)
	}
	o.pass()
	call, at, count := uintptr(unix.SYS_WRITEV), unsafe.Pointer(unsafe.SliceData(o.iov)), len(o.iov)
	if count == 1 {
		call, at, count = unix.SYS_WRITE, unsafe.Pointer(o.iov[0].Base), size
	}
	n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(at), uintptr(count))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
