package shm

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/flock"
)

const noFollow = unix.O_NOFOLLOW | unix.O_CLOEXEC

// DefaultRoot is where segments live.
const DefaultRoot = "/dev/shm"

// reserve backs a range of a file with memory or disk. Pages that exist keep their content.
func reserve(f *os.File, off, n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, off, n)
		if !errors.Is(err, unix.EINTR) { // a signal (the Go runtime sends some) ends a long fallocate
			return err
		}
	}
}

// punch gives the memory of a file back at once, although other processes may still map it: they read
// zeros, where after a mere truncation they would get SIGBUS.
func punch(f *os.File, n int64) error {
	if n == 0 {
		return nil
	}
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, n)
	if errors.Is(err, unix.EOPNOTSUPP) { // some disk file systems; there it saves nothing but time
		return nil
	}
	return err
}

func lock(f *os.File) error {
	if err := flock.TryFile(f, flock.Exclusive); err != nil {
		return fmt.Errorf("another agent uses the folder: %w", err)
	}
	return nil
}

// viewed tells whether a reader keeps a shared lock (flock) on a file, so that its pages are the reader's, too.
// If not, no reader gets one until the file is closed.
func viewed(f *os.File) bool { return flock.TryFile(f, flock.Exclusive) != nil }

// populate makes the pages of a mapping present and writable in one call instead of one fault each. It is
// only a matter of speed, and kernels before 5.14 do not know it.
func populate(b []byte) {
	const madvPopulateWrite = 23
	_ = unix.Madvise(b, madvPopulateWrite)
}

func isCrossDevice(err error) bool { return errors.Is(err, unix.EXDEV) }

// links is the number of names that a file has.
func links(fi os.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // it has another width on arm64
	}
	return 1
}

// move gives a mapping another address, which must be reserved by this process. Page tables move with it.
func move(from unsafe.Pointer, n int64, to unsafe.Pointer) error {
	_, err := unix.MremapPtr(from, uintptr(n), to, uintptr(n), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	if err != nil {
		return fmt.Errorf("move a mapping of %d bytes: %w", n, err)
	}
	return nil
}

// leave is move that keeps the mapping where it was, too, without pages: they come back when they are used. Kernels
// before 5.13 cannot do it with shared memory.
func leave(from unsafe.Pointer, n int64, to unsafe.Pointer) error {
	_, err := unix.MremapPtr(from, uintptr(n), to, uintptr(n), unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED|unix.MREMAP_DONTUNMAP)
	if err != nil {
		return fmt.Errorf("move the pages of a mapping of %d bytes: %w", n, err)
	}
	return nil
}

// guard keeps addresses that were just unmapped from being used again, unless that has happened already.
func guard(at unsafe.Pointer, n int64) bool {
	p, err := unix.MmapPtr(-1, 0, at, uintptr(n), unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE|unix.MAP_FIXED_NOREPLACE)
	if err == nil && p != at { // a kernel before 4.17 takes the address as a hint
		err = errors.Join(unix.EEXIST, unix.MunmapPtr(p, uintptr(n)))
	}
	return err == nil
}
