package netlab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/cgroups/v3"
	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// group is the control group of a host.
type group interface {
	add(pid int) error
	freeze() error
	thaw() error
	quota(cores float64) error
	kill() error
	remove() error
}

const (
	mount  = "/sys/fs/cgroup"
	prefix = "cascade-netlab-"
	period = 100_000 // of cpu quotas, in microseconds
)

// newGroup makes the control group of the host that has a network namespace. It is
// named by that: a process may have several labs.
func newGroup(space netns.NsHandle) (group, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(space), &s); err != nil {
		return nil, fmt.Errorf("name a control group by its network namespace: %w", err)
	}
	name := fmt.Sprintf("/%s%d-%d", prefix, os.Getpid(), s.Ino)
	if cgroups.Mode() == cgroups.Unified {
		m, err := cgroup2.NewManager(mount, name, &cgroup2.Resources{})
		if err != nil {
			return nil, fmt.Errorf("make control group %s: %w", name, err)
		}
		return group2{m}, nil
	}
	c, err := cgroup1.New(cgroup1.StaticPath(name), &specs.LinuxResources{}, cgroup1.WithHierarchy(subsystems))
	if err != nil {
		return nil, fmt.Errorf("make control group %s: %w", name, err)
	}
	return group1{c}, nil
}

func subsystems() ([]cgroup1.Subsystem, error) {
	return []cgroup1.Subsystem{cgroup1.NewFreezer(mount), cgroup1.NewCpu(mount)}, nil
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
	for began := time.Now(); time.Since(began) < dying; time.Sleep(5 * time.Millisecond) {
		if n, err := members(); err != nil || n == 0 {
			return err
		}
	}
	return fmt.Errorf("killed processes are still there after %v", dying)
}

type group1 struct{ c cgroup1.Cgroup }

func (g group1) add(pid int) error { return g.c.Add(cgroup1.Process{Pid: pid}) }
func (g group1) freeze() error     { return g.c.Freeze() }
func (g group1) thaw() error       { return g.c.Thaw() }
func (g group1) remove() error     { return g.c.Delete() }

func (g group1) quota(cores float64) error {
	every, most := uint64(period), int64(-1)
	if cores > 0 {
		most = int64(cores * period)
	}
	return g.c.Update(&specs.LinuxResources{CPU: &specs.LinuxCPU{Period: &every, Quota: &most}})
}

// kill freezes the group first, so that no process can fork meanwhile.
func (g group1) kill() error {
	if err := g.c.Freeze(); err != nil {
		return err
	}
	members, err := g.c.Processes(cgroup1.Freezer, true)
	for _, p := range members {
		if e := unix.Kill(p.Pid, unix.SIGKILL); e != nil && !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	if err = errors.Join(err, g.c.Thaw()); err != nil {
		return err
	}
	return endKilled(func() (int, error) {
		left, err := g.c.Processes(cgroup1.Freezer, true)
		return len(left), err
	})
}

type group2 struct{ m *cgroup2.Manager }

func (g group2) add(pid int) error { return g.m.AddProc(uint64(pid)) }
func (g group2) freeze() error     { return g.m.Freeze() }
func (g group2) thaw() error       { return g.m.Thaw() }
func (g group2) remove() error     { return g.m.Delete() }

func (g group2) quota(cores float64) error {
	every, most := uint64(period), (*int64)(nil)
	if cores > 0 {
		q := int64(cores * period)
		most = &q
	}
	return g.m.Update(&cgroup2.Resources{CPU: &cgroup2.CPU{Max: cgroup2.NewCPUMax(most, &every)}})
}

func (g group2) kill() error {
	if err := g.m.Kill(); err != nil {
		return err
	}
	return endKilled(func() (int, error) {
		left, err := g.m.Procs(true)
		return len(left), err
	})
}
