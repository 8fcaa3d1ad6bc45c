package process

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Root is a file system that a program sees in place of the host's. All else is the
// host's: processes, network, users, devices. The program is the process that was
// started, as without a root. Files that it writes outside of Binds lie in memory, take at
// most writtenBytes, are its own, and end with it.
//
// It takes root, or a kernel that permits user namespaces.
type Root struct {
	Dir   string   // its files, which are not written
	Work  string   // an empty folder of the host, to mount at
	Binds []string // absolute paths of the host that are seen in it, at the same places
}

// rootVar makes a binary with this package enter a root and become the program in
// its arguments; its value is the Root in JSON.
const rootVar = "CASCADE_REAPER_ROOT"

// Bounds of what a program writes outside of Binds. The kernel's own would be half of the
// host's memory for each program. A cgroup counts it too: it may end the program before.
const (
	writtenBytes = 1 << 30
	writtenFiles = 1 << 17 // and folders
)

// hostFolder is where the host is seen in the root while mounts are made.
const hostFolder = "/.cascade-host"

// env tells the entering process of the root.
func (r *Root) env() []string {
	if r == nil {
		return nil
	}
	spec, err := json.Marshal(r)
	if err != nil {
		panic("process: encode texts: " + err.Error())
	}
	return []string{rootVar + "=" + string(spec)}
}

// attr is what the entering process is started with: a mount namespace, and a user
// namespace in which it may mount when it is not root.
func (Root) attr(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= unix.CLONE_NEWNS
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		// Kept over the exec of a user that is not root in there. The overlay makes folders that their owner may not enter.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER}
	}
}

// becomeRooted enters the root that rootVar says and becomes the program. It returns
// only when that failed.
func becomeRooted(spec string, args []string) error {
	runtime.LockOSThread()
	var r Root
	err := errors.Join(json.Unmarshal([]byte(spec), &r), os.Unsetenv(rootVar))
	if err != nil {
		return fmt.Errorf("read what root to enter: %w", err)
	}
	dir, err := os.Getwd()
	if err == nil {
		err = r.enter()
	}
	if err != nil {
		return fmt.Errorf("enter the root %s: %w", r.Dir, err)
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("use the working folder in the root %s: %w", r.Dir, err)
	}
	if filepath.Base(args[0]) == args[0] { // a name
		if args[0], err = exec.LookPath(args[0]); err != nil {
			return fmt.Errorf("find the program in the root %s: %w", r.Dir, err)
		}
	}
	err = syscall.Exec(args[0], args, os.Environ())
	if loader := loaderOf(args[0]); errors.Is(err, fs.ErrNotExist) && loader != "" {
		return fmt.Errorf("start %s in the root %s: it is linked to a C library that is not there (%s): built with CGO_ENABLED=0 a Go program needs none", args[0], r.Dir, loader)
	}
	return fmt.Errorf("start %s in the root %s: %w", args[0], r.Dir, err)
}

// loaderOf returns which program loads the libraries of another, "" when that has none or
// cannot be read.
func loaderOf(program string) string {
	file, err := elf.Open(program)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // it was only read
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz <= unix.PathMax {
			name, _ := io.ReadAll(p.Open()) // a file that is cut off has no loader
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}

// shown is Binds without those that are below others, each once.
func (r Root) shown() (all []string) {
	sorted := slices.Clone(r.Binds)
	for i := range sorted {
		sorted[i] = filepath.Clean(sorted[i])
	}
	slices.Sort(sorted) // what is below a folder comes behind it
	for _, path := range sorted {
		below := func(folder string) bool {
			return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
		}
		if !slices.ContainsFunc(all, below) {
			all = append(all, path)
		}
	}
	return all
}

// enter makes the root that of this process, which has a mount namespace of its own.
func (r Root) enter() error {
	binds := r.shown()
	sources := make([]string, len(binds))
	for i, path := range binds { // links are the host's: followed before its root is elsewhere
		source, err := filepath.EvalSymlinks(path)
		if err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
		sources[i] = source
	}
	root, upper, work := filepath.Join(r.Work, "root"), filepath.Join(r.Work, "upper"), filepath.Join(r.Work, "work")
	layers := "lowerdir=" + overlayPath(r.Dir) + ",upperdir=" + overlayPath(upper) + ",workdir=" + overlayPath(work)
	memory := fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", writtenBytes, writtenFiles)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"keep mounts to itself", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, "") }},
		{"mount memory for what is written", func() error { return unix.Mount("tmpfs", r.Work, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, memory) }},
		{"make folders", func() error {
			return errors.Join(os.Mkdir(root, 0o755), os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755))
		}},
		{"mount its files (overlay)", func() error { return unix.Mount("overlay", root, "overlay", unix.MS_NODEV, layers) }},
		{"make a folder for the host", func() error { return os.Mkdir(root+hostFolder, 0o700) }},
		{"change the root", func() error { return unix.PivotRoot(root, root+hostFolder) }},
		{"go there", func() error { return os.Chdir("/") }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	for i, path := range binds { // all before the first is mounted: nothing is made on the host
		if err := place(hostFolder+sources[i], path); err != nil {
			return fmt.Errorf("make place for %s: %w", path, err)
		}
	}
	for i, path := range binds {
		if err := unix.Mount(hostFolder+sources[i], path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
	}
	if err := unix.Unmount(hostFolder, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the host: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("give up what mounting took: %w", err)
	}
	return os.Remove(hostFolder)
}

// place makes the folder or file at a path on which a source is mounted.
func place(source, path string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
		return nil
	}
	if err := os.RemoveAll(path); err != nil { // a link, which may lead nowhere
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

// overlayPath writes a path as an option of overlay has it.
func overlayPath(path string) string {
	return strings.NewReplacer(`\`, `\\`, ":", `\:`, ",", `\,`).Replace(path)
}
