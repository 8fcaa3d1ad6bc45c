package doctor

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"golang.org/x/sys/unix"
)

// Examine runs every check, in the order in which a reader wants them.
func (h *Host) Examine() []Line {
	return []Line{
		h.shm(), h.disk(), h.socket(),
		h.limit("open files", unix.RLIMIT_NOFILE, 1024, 8192, "LimitNOFILE=65536 in the unit, or: ulimit -n 65536"),
		h.limit("processes", unix.RLIMIT_NPROC, 64, 1024, "LimitNPROC=infinity in the unit, or: ulimit -u unlimited"),
		h.memlock(), h.maps(),
		h.cgroup(), h.clock(), h.network(), h.port(),
		h.program("go", "go", "functions of go: environments are built with it: install Go 1.26 or later (go.dev/dl)", "version"),
		h.program("python", "python3", "python: environments are made with it: install Python 3 with venv (Debian: apt-get install python3-venv)", "--version"),
	}
}

func size(n uint64) string { return units.BytesSize(float64(n)) }

const (
	shmFail = 64 << 20
	shmWarn = 1 << 30
)

func (h *Host) shm() Line {
	d, err := h.Disk(h.Shm)
	if err != nil {
		return Line{"shared memory", Fail, err.Error(), "mount -t tmpfs tmpfs " + h.Shm}
	}
	l := ok("shared memory", "%s of %s free in %s", size(d.Free), size(d.Total), h.Shm)
	mend := "datasets live there: mount -o remount,size=50%% %s (in a container: --shm-size=8g)"
	l = l.or(d.Free < shmWarn, Warn, mend, h.Shm).or(d.Free < shmFail, Fail, mend, h.Shm)
	return l.or(d.Type != unix.TMPFS_MAGIC, Warn, "it is no tmpfs, so that datasets go through a disk: mount -t tmpfs tmpfs %s", h.Shm)
}

const (
	diskFail = 320 << 20 // the controller's --min-free and its reserve
	diskWarn = 4 << 30
)

func (h *Host) disk() Line {
	d, err := h.Disk(h.State)
	if err != nil {
		return unseen("state folder", err)
	}
	mend := "make room, or choose a folder on another disk (--state)"
	l := ok("state folder", "%s free for %s", size(d.Free), h.State).or(d.Free < diskWarn, Warn, "%s", mend).or(d.Free < diskFail, Fail, "%s", mend)
	switch d.Type {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, 0x0bd00bd0: // the last is Lustre's
		l = l.or(true, Warn, "it is on a network file system, which is slow to sync and may lose locks: choose a folder on a disk of this host (--state)")
	}
	return l
}

// maxSocket is the longest path of a Unix socket (unix(7)).
const maxSocket = 107

func (h *Host) socket() Line {
	longest := filepath.Join(h.State, "run", "controller.sock")
	return ok("socket paths", "%d of %d bytes", len(longest), maxSocket).
		or(len(longest) > maxSocket, Fail, "the kernel takes no longer path than %d bytes: choose a shorter state folder (--state), or --runtime for an agent", maxSocket)
}

func (h *Host) limit(check string, resource int, least, good uint64, mend string) Line {
	soft, hard, err := h.Limit(resource)
	if err != nil {
		return unseen(check, err)
	}
	return ok(check, "%s (at most %s)", amount(soft), amount(hard)).
		or(hard < good, Warn, "many executors and links need more: %s", mend).
		or(hard < least, Fail, "too few to start: %s", mend)
}

func amount(n uint64) string {
	if n == unix.RLIM_INFINITY {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

func (h *Host) memlock() Line {
	soft, _, err := h.Limit(unix.RLIMIT_MEMLOCK)
	if err != nil {
		return unseen("locked memory", err)
	}
	found := amount(soft)
	if soft != unix.RLIM_INFINITY {
		found = size(soft)
	}
	return ok("locked memory", "%s", found).
		or(soft < 8<<20, Warn, "Cascade locks none, but tasks that use RDMA or GPUs do: LimitMEMLOCK=infinity in the unit, or: ulimit -l unlimited")
}

func (h *Host) maps() Line {
	text, err := h.Read(h.Root + "/proc/sys/vm/max_map_count")
	n, err2 := strconv.ParseUint(text, 10, 64)
	if err = errors.Join(err, err2); err != nil {
		return unseen("memory maps", err)
	}
	return ok("memory maps", "%d for each process", n).
		or(n < 65530, Warn, "an executor maps every large dataset that it reads: sysctl -w vm.max_map_count=262144")
}

// cgroup tells whether the kernel can bound the memory of tasks: a cgroup v2 with
// the memory controller that is ours.
func (h *Host) cgroup() Line {
	const mend = "memory of tasks is then watched by the agent instead of limited by the kernel: Delegate=yes in the unit, or " +
		"systemd-run --user --scope -p Delegate=yes cascade-agent …"
	own, err := h.Read(h.Root + "/proc/self/cgroup")
	if err != nil {
		return unseen("cgroup", err)
	}
	path := ""
	for _, line := range strings.Split(own, "\n") {
		if rest, v2 := strings.CutPrefix(line, "0::"); v2 {
			path = rest
		}
	}
	dir := filepath.Join(h.Root, "/sys/fs/cgroup", path)
	controllers, err := h.Read(filepath.Join(dir, "cgroup.controllers"))
	switch {
	case path == "" || err != nil:
		return ok("cgroup", "no cgroup v2").or(true, Warn, mend)
	case !strings.Contains(" "+controllers+" ", " memory "):
		return ok("cgroup", "%s has no memory controller", dir).or(true, Warn, mend)
	}
	return ok("cgroup", "%s", dir).or(!h.Writable(filepath.Join(dir, "cgroup.procs")), Warn, "it is not ours; "+mend)
}

func (h *Host) clock() Line {
	synced, err := h.Clock()
	if err != nil {
		return unseen("clock", err)
	}
	found := "synchronised"
	if !synced {
		found = "not synchronised (no NTP)"
	}
	return ok("clock", "%s", found).
		or(!synced, Warn, "certificates are refused when hosts differ by more than five minutes: timedatectl set-ntp true (in a virtual machine the host may do it)")
}

// network says which address others would reach this host at.
func (h *Host) network() Line {
	all, err := h.Addresses()
	if err != nil {
		return unseen("interface", err)
	}
	var usable []string
	var down string
	for _, a := range all {
		switch {
		case h.Interface != "" && a.Interface != h.Interface && !a.IP.Equal(net.ParseIP(h.Interface)):
		case h.Interface == "" && a.IP.IsLoopback():
		case !a.Up:
			down = a.Interface
		default:
			usable = append(usable, fmt.Sprintf("%s %s", a.Interface, a.IP))
		}
	}
	switch {
	case len(usable) == 0 && h.Interface != "":
		return Line{"interface", Fail, fmt.Sprintf("%s has no address that is up", h.Interface), "choose one that `ip -br address` lists as UP"}
	case len(usable) == 0:
		l := ok("interface", "only the loopback").or(true, Warn, "other hosts cannot reach this one: connect it to a network")
		return l.or(down != "", Warn, "ip link set %s up", down)
	}
	return ok("interface", "%s", strings.Join(usable, ", ")).
		or(len(usable) > 1 && h.Interface == "", OK, "the daemons take the address towards the controller; --interface chooses another")
}

func (h *Host) port() Line {
	host := ""
	if net.ParseIP(h.Interface) != nil {
		host = h.Interface
	}
	if err := h.Listen(net.JoinHostPort(host, h.Port)); err != nil {
		return Line{"port", Warn, err.Error(), "a controller that runs here already is no fault; else choose another port (--ports, also a range such as 7420-7440)"}
	}
	return ok("port", "%s is free", h.Port)
}

func (h *Host) program(check, program, mend string, args ...string) Line {
	found, err := h.Version(program, args...)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return Line{check, Warn, "not found", mend}
	case err != nil:
		return Line{check, Warn, err.Error(), mend}
	}
	return ok(check, "%s", found)
}
