package smallfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/testing/rerun"
)

// enteredVar names, in the process that Enter started, the test that it runs.
const enteredVar = "CASCADE_TEST_NAMESPACE"

// Enter tells whether this process has mounts of its own. In the test process it
// has not: then Enter runs the calling test again in a process that has, reports
// how it ended, and returns false. The test must be a top-level one. Root gets a
// mount namespace, others a user namespace too, in which they can mount a tmpfs.
func Enter(t *testing.T) bool {
	t.Helper()
	if rerun.Here(t, enteredVar) {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", rerun.Args(t)...)
	cmd.Args[0] = os.Args[0]
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN},
			Pdeathsig:   syscall.SIGKILL,
		}
	}
	if err := rerun.Run(t, cmd, enteredVar, "in namespaces of its own"); err != nil {
		t.Skipf("a process with mounts of its own cannot be started: %v", err)
	}
	return false
}

// Tmpfs mounts an empty tmpfs of so many bytes on dir, until the test ends, and returns dir.
func Tmpfs(t *testing.T, dir string, size int64) string {
	t.Helper()
	Mount(t, "tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=0700", size))
	return dir
}

// Mount mounts source on dir until the test ends. It skips the test where that is not permitted.
func Mount(t *testing.T, source, dir, kind string, flags uintptr, options string) {
	t.Helper()
	if err := mount(t, source, dir, kind, flags, options); err != nil {
		t.Skipf("mount %s on %s: %v", kind, dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

func mount(t *testing.T, source, dir, kind string, flags uintptr, options string) error {
	t.Helper()
	if top, _, _ := strings.Cut(t.Name(), "/"); os.Getenv(enteredVar) != top {
		t.Fatal("scratchfs.Enter must come first: this process shares its mounts with others")
	}
	return unix.Mount(source, dir, kind, flags, options)
}

// ReadOnly makes a folder read-only for everybody, root included, until the test ends.
func ReadOnly(t *testing.T, dir string) {
	t.Helper()
	Mount(t, dir, dir, "", unix.MS_BIND, "")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatalf("make %s read-only: %v", dir, err)
	}
}

// Fill takes all space of a file system but the last keep bytes with a file, and
// returns a function that releases it.
func Fill(t *testing.T, dir string, keep int64) (release func()) {
	t.Helper()
	file, err := os.CreateTemp(dir, "filler-")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	// Large steps first: the free bytes that a file system tells are an estimate.
	var size int64
	for step := int64(64 << 20); step >= 4096; {
		left := freeBytes(t, dir) - keep
		if left < step {
			step /= 2
			continue
		}
		if err := unix.Fallocate(int(file.Fd()), 0, size, step); err != nil {
			step /= 2
			continue
		}
		size += step
	}
	return func() {
		if err := os.Remove(file.Name()); err != nil {
			t.Errorf("give space back: %v", err)
		}
	}
}

func freeBytes(t *testing.T, dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// Image is an ext4 file system in a file, mounted on Dir.
type Image struct {
	Dir string

	t    *testing.T
	file string
}

// Ext4 makes an ext4 file system of so many bytes and mounts it on dir. It needs
// root, mkfs.ext4 and loop devices, and skips the test without.
func Ext4(t *testing.T, dir string, size int64) *Image {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a loop device needs root")
	}
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Skipf("make an image: %v", err)
	}
	im := &Image{Dir: dir, t: t, file: filepath.Join(t.TempDir(), "image")}
	if err := os.WriteFile(im.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(im.file, size); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), mkfs, "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0", im.file).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
	im.mount()
	t.Cleanup(im.unmount)
	return im
}

func (im *Image) mount() {
	im.t.Helper()
	device, release := im.loop()
	defer release() // from here on the mount alone holds the device
	if err := mount(im.t, device, im.Dir, "ext4", unix.MS_NOATIME, ""); err != nil {
		im.t.Skipf("mount ext4: %v", err)
	}
}

// loop puts the image behind a loop device, which ends when it is neither open nor mounted.
func (im *Image) loop() (device string, release func()) {
	im.t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		im.t.Skipf("loop devices: %v", err)
	}
	defer control.Close()
	image, err := os.OpenFile(im.file, os.O_RDWR, 0)
	if err != nil {
		im.t.Fatal(err)
	}
	defer image.Close()
	for range 16 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			im.t.Skipf("find a free loop device: %v", err)
		}
		device = fmt.Sprintf("/dev/loop%d", n)
		dev, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			im.t.Skipf("loop device: %v", err)
		}
		config := unix.LoopConfig{Fd: uint32(image.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		if err = unix.IoctlLoopConfigure(int(dev.Fd()), &config); err == nil {
			return device, func() { dev.Close() }
		}
		dev.Close() // another process was faster
		if !errors.Is(err, unix.EBUSY) {
			im.t.Skipf("configure %s: %v", device, err)
		}
	}
	im.t.Skip("every loop device is taken")
	return "", nil
}

func (im *Image) unmount() {
	if err := unix.Unmount(im.Dir, 0); err != nil {
		im.t.Errorf("unmount %s: %v", im.Dir, err)
		_ = unix.Unmount(im.Dir, unix.MNT_DETACH) // the test has failed already
	}
}

// goingNoLogFlush is EXT4_GOING_FLAGS_NOLOGFLUSH: not even the journal is written out.
const goingNoLogFlush = 2

// Cut ends all writes to the file system at once, as a power loss does: what was
// not synced, data and journal, never reaches the image, and every later
// operation fails (EXT4_IOC_SHUTDOWN of Linux, which file system tests use for
// this). It does not show what a disk loses that confirms a flush it has not done.
//
// The processes are those that write to it: they are stopped first, for ever, as the power
// is lost to them too. Without that ext4 lets a sync succeed that was under way, of
// which nothing is on disk, and they would tell others of that.
func (im *Image) Cut(processes ...int) {
	im.t.Helper()
	for _, pid := range processes {
		if err := stop(pid); err != nil {
			im.t.Fatal(err)
		}
	}
	dir, err := os.Open(im.Dir)
	if err != nil {
		im.t.Fatal(err)
	}
	defer dir.Close()
	const shutdown = 2<<30 | 4<<16 | 'X'<<8 | 125 // _IOR('X', 125, __u32)
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), shutdown, goingNoLogFlush); err != nil {
		im.t.Skipf("EXT4_IOC_SHUTDOWN: %v", err)
	}
}

// stopPatience is how long the threads of a process may take to stop.
const stopPatience = time.Minute

// stop stops a process: when it returns none of its threads does anything more outside
// the kernel. One that syncs a file goes on with that: it is not waited for.
func stop(pid int) error {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	late := time.Now().Add(stopPatience)
	for begun := false; ; time.Sleep(100 * time.Microsecond) { // the kernel tells a parent only when the syncs have ended, too
		states, err := threadStates(pid)
		if err != nil {
			return fmt.Errorf("stop process %d: %w", pid, err)
		}
		// With one that has stopped all others must, before they leave the kernel: then those
		// count that are in the midst of a sync (D).
		if begun && strings.Trim(states, "TDZX") == "" {
			return nil
		}
		if begun = begun || strings.Contains(states, "T"); time.Now().After(late) {
			return fmt.Errorf("stop process %d: after %v its threads are in the states %s", pid, stopPatience, states)
		}
	}
}

// threadStates returns a letter for each thread of a process: see proc_pid_stat(5).
func threadStates(pid int) (string, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err == nil && len(files) == 0 {
		err = os.ErrProcessDone
	}
	if err != nil {
		return "", fmt.Errorf("list its threads: %w", err)
	}
	var states strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // the thread has ended
		}
		if err != nil {
			return "", fmt.Errorf("look at a thread: %w", err)
		}
		_, rest, ok := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ") // after the name, which may be any
		if !ok || rest == "" {
			return "", fmt.Errorf("look at a thread: %s is %q", f, text)
		}
		states.WriteByte(rest[0])
	}
	return states.String(), nil
}

// Restart mounts the image again, as after the power is back. Nothing may have a
// file of it open.
func (im *Image) Restart() {
	im.t.Helper()
	if err := unix.Unmount(im.Dir, 0); err != nil {
		im.t.Fatalf("unmount %s: %v", im.Dir, err)
	}
	im.mount()
}
