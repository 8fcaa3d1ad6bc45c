package netlab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	mount  = "/sys/fs/cgroup"
	prefix = "cascade-netlab-"
	period = 100_000 // of cpu quotas, in microseconds
)

// group is the control group of a host, by the files of either version.
type group struct {
	dirs           []string // one, or of version 1 those of the freezer and of the cpu
	freezer        string   // file
	frozen, thawed string   // what it holds
}

// newGroup makes the control group of the host that has a network namespace. It is
// named by that: a process may have several labs.
func newGroup(space netns.NsHandle) (*group, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(space), &s); err != nil {
		return nil, fmt.Errorf("name a control group by its network namespace: %w", err)
	}
	name := fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), s.Ino)
	g := &group{dirs: []string{filepath.Join(mount, name)}, freezer: "cgroup.freeze", frozen: "1", thawed: "0"}
	if !unified() {
		g = &group{dirs: []string{filepath.Join(mount, "freezer", name), filepath.Join(mount, "cpu", name)}, freezer: "freezer.state", frozen: "FROZEN", thawed: "THAWED"}
	}
	for _, dir := range g.dirs {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make control group: %w", err)
		}
	}
	return g, nil
}

// unified tells whether the host's control groups are those of version 2.
func unified() bool {
	_, err := os.Stat(filepath.Join(mount, "cgroup.controllers"))
	return err == nil
}

func (g *group) add(pid int) error {
	for _, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) freeze() error { return g.setFreezer(g.frozen) }
func (g *group) thaw() error   { return g.setFreezer(g.thawed) }

// setFreezer says a state until the group has it: a process that forks keeps version 1 freezing.
func (g *group) setFreezer(state string) error {
	file := filepath.Join(g.dirs[0], g.freezer)
	return within(dying, time.Millisecond, func() (bool, error) {
		if err := os.WriteFile(file, []byte(state), 0); err != nil {
			return false, err
		}
		is, err := os.ReadFile(file)
		return strings.TrimSpace(string(is)) == state, err
	})
}

func (g *group) quota(cores float64) error {
	most := strconv.Itoa(int(cores * period))
	dir := g.dirs[len(g.dirs)-1]
	if unified() {
		if cores <= 0 {
			most = "max"
		}
		return os.WriteFile(filepath.Join(dir, "cpu.max"), fmt.Appendf(nil, "%s %d", most, period), 0)
	}
	if cores <= 0 {
		most = "-1"
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "cpu.cfs_period_us"), []byte(strconv.Itoa(period)), 0),
		os.WriteFile(filepath.Join(dir, "cpu.cfs_quota_us"), []byte(most), 0))
}

// members are the processes of the group and of those below it.
func (g *group) members() (pids []int, err error) {
	err = filepath.WalkDir(g.dirs[0], func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, field := range strings.Fields(string(text)) {
			pid, e := strconv.Atoi(field)
			pids, err = append(pids, pid), errors.Join(err, e)
		}
		return err
	})
	return pids, err
}

// kill freezes the group first, so that nothing can fork meanwhile.
func (g *group) kill() error {
	if err := g.freeze(); err != nil {
		return err
	}
	members, err := g.members()
	for _, pid := range members {
		if e := unix.Kill(pid, unix.SIGKILL); e != nil && !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	if err = errors.Join(err, g.thaw()); err != nil {
		return err
	}
	return endKilled(func() (int, error) {
		left, err := g.members()
		return len(left), err
	})
}

// remove removes the group and those below it, when nothing is left in them.
func (g *group) remove() error {
	var errs []error
	for _, dir := range g.dirs {
		var all []string
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return err
		})
		for _, one := range slices.Backward(all) {
			err = errors.Join(err, within(time.Second, 10*time.Millisecond, func() (bool, error) {
				err := os.Remove(one)
				if errors.Is(err, unix.EBUSY) { // the last process is about to be gone
					return false, nil
				}
				return true, err
			}))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeStale removes the groups of processes that are gone, and kills what these have
// left in them, be it frozen.
func removeStale() error {
	var errs []error
	for _, pattern := range []string{mount + "/" + prefix + "*", mount + "/*/" + prefix + "*"} {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("look for old control groups: %w", err)
		}
		for _, dir := range dirs {
			owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
			pid, err := strconv.Atoi(owner)
			if err != nil || pid <= 0 || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
				continue
			}
			if err := endKilled(func() (int, error) { return killLeft(dir) }); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", dir, err))
			}
			if err := os.Remove(dir); !errors.Is(err, unix.EBUSY) && !errors.Is(err, os.ErrNotExist) { // another Lab removes it too
				errs = append(errs, err)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove old control groups: %w", err)
	}
	return nil
}

// killLeft kills the processes of a group and thaws it, so that they die. It returns how
// many there were. Those of other process namespaces, whose number is 0 here, stay: whether
// their owner is gone cannot be known.
func killLeft(dir string) (n int, err error) {
	text, err := os.ReadFile(dir + "/cgroup.procs")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return 0, nil // the group is gone
	}
	for _, field := range strings.Fields(string(text)) {
		pid, e := strconv.Atoi(field)
		if e == nil && pid <= 0 {
			continue
		}
		n++
		if e == nil {
			e = unix.Kill(pid, unix.SIGKILL)
		}
		if !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	if n == 0 || err != nil {
		return n, err
	}
	for file, thawed := range map[string]string{"freezer.state": "THAWED", "cgroup.freeze": "0"} { // of either version
		file = filepath.Join(dir, file)
		if _, e := os.Stat(file); e == nil {
			e = os.WriteFile(file, []byte(thawed), 0)
			if !errors.Is(e, os.ErrNotExist) && !errors.Is(e, unix.ENODEV) { // another Lab has removed it
				err = errors.Join(err, e)
			}
		}
	}
	return n, err
}

// dying is how long killed processes may take to be gone. They end when they get to run.
const dying = 2 * time.Minute

// endKilled waits until a group is empty: the kernel has no event for it that
// both versions of control groups share.
func endKilled(members func() (int, error)) error {
	return within(dying, 5*time.Millisecond, func() (bool, error) {
		n, err := members()
		return n == 0, err
	})
}

// within tries until it is done, or fails.
func within(most, pause time.Duration, try func() (done bool, err error)) error {
	for began := time.Now(); time.Since(began) < most; time.Sleep(pause) {
		if done, err := try(); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("a control group is not as it should be after %v", most)
}
