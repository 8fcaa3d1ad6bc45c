package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// leaf is the cgroup into which Open moves this process.
const leaf = "cascade-agent"

// Where the kernel tells of cgroups; arguments of Open.
const (
	Mount = "/sys/fs/cgroup"
	Self  = "/proc/self/cgroup"
)

// ErrNotDelegated says that this process has no part of the hierarchy to itself.
var ErrNotDelegated = errors.New("no cgroup is delegated")

// Tree is the delegated part.
type Tree struct{ dir string }

// Open takes the cgroup in which this process is, if it is ours alone, and makes
// ready for groups in it. The error tells what is missing and matches ErrNotDelegated.
func Open(mount, self string) (*Tree, error) {
	t, err := open(mount, self)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotDelegated, err)
	}
	return t, nil
}

func open(mount, self string) (*Tree, error) {
	path, err := ownPath(self)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(mount, path)
	inLeaf := filepath.Base(dir) == leaf
	if inLeaf { // another Tree of this process moved it
		dir = filepath.Dir(dir)
	}
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read its controllers (is cgroup v2 mounted on %s?): %w", mount, err)
	case !slices.Contains(strings.Fields(string(controllers)), "memory"):
		return nil, fmt.Errorf("%s has no memory controller; it may belong to cgroup v1", dir)
	}
	if _, err := os.Stat(filepath.Join(dir, "memory.max")); err != nil {
		return nil, fmt.Errorf("%s is the root of the hierarchy", dir)
	}
	for _, f := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
		if err := unix.Access(filepath.Join(dir, f), unix.W_OK); err != nil {
			return nil, fmt.Errorf("%s is not ours to write: %w", filepath.Join(dir, f), err)
		}
	}
	t := &Tree{dir}
	if inLeaf {
		return t, nil
	}
	if err := t.alone(); err != nil {
		return nil, err
	}
	return t, t.settle()
}

// ownPath returns this process's cgroup in the v2 hierarchy.
func ownPath(self string) (string, error) {
	text, err := os.ReadFile(self)
	if err != nil {
		return "", fmt.Errorf("find the own cgroup: %w", err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s names no cgroup v2", self)
}

// alone requires that no other process is in the cgroup: it could not stay there.
func (t *Tree) alone() error {
	text, err := os.ReadFile(filepath.Join(t.dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range strings.Fields(string(text)) {
		if pid != strconv.Itoa(os.Getpid()) {
			return fmt.Errorf("process %s is in %s, too; start this one with: systemd-run --user --scope -p Delegate=yes", pid, t.dir)
		}
	}
	return nil
}

// settle moves this process into its leaf and gives the memory controller to children.
func (t *Tree) settle() error {
	if err := os.Mkdir(filepath.Join(t.dir, leaf), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := t.moveTo(filepath.Join(t.dir, leaf)); err != nil {
		return err
	}
	if err := t.set("cgroup.subtree_control", "+memory"); err != nil {
		return errors.Join(err, t.restore())
	}
	return nil
}

func (t *Tree) moveTo(dir string) error {
	return write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(os.Getpid()))
}

func (t *Tree) set(name, value string) error { return write(filepath.Join(t.dir, name), value) }

// Dir returns the cgroup's folder.
func (t *Tree) Dir() string { return t.dir }

// Close undoes Open, when no other Tree of this process has groups.
func (t *Tree) Close() error {
	entries, err := os.ReadDir(t.dir)
	if err != nil {
		return fmt.Errorf("give the cgroup back: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != leaf {
			return nil
		}
	}
	if err := errors.Join(t.set("cgroup.subtree_control", "-memory"), t.restore()); err != nil {
		return fmt.Errorf("give the cgroup back: %w", err)
	}
	return nil
}

func (t *Tree) restore() error {
	if err := t.moveTo(t.dir); err != nil {
		return err
	}
	return removeDir(filepath.Join(t.dir, leaf))
}

// RemoveStale removes groups with the given prefix that a process left which was killed.
func (t *Tree) RemoveStale(prefix string) error {
	dirs, err := filepath.Glob(filepath.Join(t.dir, prefix+"*"))
	for _, d := range dirs {
		err = errors.Join(err, removeDir(d))
	}
	return err
}

// Group is a cgroup for the processes of one executor.
type Group struct {
	dir  string
	file *os.File
}

// New makes a group without a limit.
func (t *Tree) New(name string) (*Group, error) {
	g := &Group{dir: filepath.Join(t.dir, name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	err := g.set("memory.oom.group", "1")
	if _, e := os.Stat(filepath.Join(g.dir, "memory.swap.max")); err == nil && e == nil {
		err = g.set("memory.swap.max", "0") // swapped memory is no less too much, only slower
	}
	if err == nil {
		g.file, err = os.OpenFile(g.dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("make cgroup: %w", errors.Join(err, removeDir(g.dir)))
	}
	return g, nil
}

// File is the group's open folder: a process is started into it (CLONE_INTO_CGROUP).
func (g *Group) File() *os.File { return g.file }

// Limit sets how many bytes the group's processes may have; 0 means no limit. When
// they have more already, the kernel takes page cache, and then ends them all.
func (g *Group) Limit(bytes int64) error {
	text := "max"
	if bytes > 0 {
		text = strconv.FormatInt(bytes, 10)
	}
	return g.set("memory.max", text)
}

// Peak returns the most bytes that the group had, page cache included; 0 where
// the kernel does not tell (before Linux 5.19).
func (g *Group) Peak() int64 {
	text, err := os.ReadFile(filepath.Join(g.dir, "memory.peak"))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Killed tells whether the kernel ended a process because of the limit.
func (g *Group) Killed() bool {
	text, err := os.ReadFile(filepath.Join(g.dir, "memory.events"))
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(text), "\n") {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			return n != "0"
		}
	}
	return false
}

// Remove removes the group. Its processes must be dead.
func (g *Group) Remove() error {
	if err := errors.Join(g.file.Close(), removeDir(g.dir)); err != nil {
		return fmt.Errorf("remove cgroup: %w", err)
	}
	return nil
}

func (g *Group) set(name, value string) error { return write(filepath.Join(g.dir, name), value) }

// write writes a control file in one call, as the kernel wants it.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// removeDir removes a cgroup. The kernel may count a process that has just died for a moment.
func removeDir(dir string) error {
	var err error
	for range 50 {
		if err = unix.Rmdir(dir); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
