package doctor_test

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/doctor"
)

// fit is a host on which all is well.
func fit() *doctor.Host {
	files := map[string]string{
		"/proc/sys/vm/max_map_count":                   "65530",
		"/proc/self/cgroup":                            "0::/user/agent",
		"/sys/fs/cgroup/user/agent/cgroup.controllers": "cpu memory pids",
	}
	return &doctor.Host{
		Shm: "/dev/shm", State: "/var/lib/cascade", Port: "7420",
		Read: func(path string) (string, error) {
			if text, ok := files[path]; ok {
				return text, nil
			}
			return "", fmt.Errorf("open %s: no such file or directory", path)
		},
		Disk: func(path string) (doctor.Disk, error) {
			if path == "/dev/shm" {
				return doctor.Disk{Total: 8 << 30, Free: 7 << 30, Type: unix.TMPFS_MAGIC}, nil
			}
			return doctor.Disk{Total: 100 << 30, Free: 50 << 30, Type: unix.EXT4_SUPER_MAGIC}, nil
		},
		Limit: func(int) (uint64, uint64, error) { return 64 << 20, unix.RLIM_INFINITY, nil },
		Addresses: func() ([]doctor.Address, error) {
			return []doctor.Address{{"lo", net.IPv4(127, 0, 0, 1), true}, {"eth0", net.IPv4(10, 0, 0, 5), true}}, nil
		},
		Listen:   func(string) error { return nil },
		Clock:    func() (bool, error) { return true, nil },
		Writable: func(string) bool { return true },
		Version:  func(p string, _ ...string) (string, error) { return p + " 1.2", nil },
	}
}

func TestExamine(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*doctor.Host)
		check  string
		state  doctor.State
		want   string // in what was found or in the mend
	}{
		{"small shared memory", func(h *doctor.Host) {
			h.Disk = func(string) (doctor.Disk, error) {
				return doctor.Disk{Total: 64 << 20, Free: 60 << 20, Type: unix.TMPFS_MAGIC}, nil
			}
		}, "shared memory", doctor.Fail, "mount -o remount,size=50% /dev/shm (in a container: --shm-size=8g)"},
		{"shared memory on a disk", func(h *doctor.Host) {
			h.Disk = func(string) (doctor.Disk, error) {
				return doctor.Disk{Total: 64 << 30, Free: 60 << 30, Type: unix.EXT4_SUPER_MAGIC}, nil
			}
		}, "shared memory", doctor.Warn, "no tmpfs"},
		{"no shared memory", func(h *doctor.Host) {
			h.Disk = func(string) (doctor.Disk, error) { return doctor.Disk{}, unix.ENOENT }
		}, "shared memory", doctor.Fail, "mount -t tmpfs"},
		{"state on NFS", func(h *doctor.Host) {
			h.Disk = func(string) (doctor.Disk, error) {
				return doctor.Disk{Total: 64 << 30, Free: 60 << 30, Type: unix.NFS_SUPER_MAGIC}, nil
			}
		}, "state folder", doctor.Warn, "network file system"},
		{"a full disk", func(h *doctor.Host) {
			h.Disk = func(string) (doctor.Disk, error) {
				return doctor.Disk{Total: 64 << 30, Free: 1 << 20, Type: unix.TMPFS_MAGIC}, nil
			}
		}, "state folder", doctor.Fail, "make room"},
		{"a long path", func(h *doctor.Host) { h.State = "/" + strings.Repeat("x", 100) }, "socket paths", doctor.Fail, "shorter state folder"},
		{"few files", func(h *doctor.Host) {
			h.Limit = func(r int) (uint64, uint64, error) { return 256, 512, nil }
		}, "open files", doctor.Fail, "ulimit -n 65536"},
		{"some files", func(h *doctor.Host) {
			h.Limit = func(r int) (uint64, uint64, error) { return 1024, 4096, nil }
		}, "open files", doctor.Warn, "LimitNOFILE"},
		{"few processes", func(h *doctor.Host) {
			h.Limit = func(r int) (uint64, uint64, error) { return 30, 30, nil }
		}, "processes", doctor.Fail, "ulimit -u"},
		{"little locked memory", func(h *doctor.Host) {
			h.Limit = func(r int) (uint64, uint64, error) { return 65536, 65536, nil }
		}, "locked memory", doctor.Warn, "RDMA"},
		{"few maps", func(h *doctor.Host) { h.Read = reads(h, "/proc/sys/vm/max_map_count", "1000") }, "memory maps", doctor.Warn, "sysctl -w"},
		{"a limit that is not told", func(h *doctor.Host) {
			h.Limit = func(int) (uint64, uint64, error) { return 0, 0, unix.EPERM }
		}, "open files", doctor.Warn, "operation not permitted"},
		{"cgroup v1", func(h *doctor.Host) { h.Read = reads(h, "/proc/self/cgroup", "1:memory:/") }, "cgroup", doctor.Warn, "no cgroup v2"},
		{"no memory controller", func(h *doctor.Host) {
			h.Read = reads(h, "/sys/fs/cgroup/user/agent/cgroup.controllers", "cpu")
		}, "cgroup", doctor.Warn, "no memory controller"},
		{"another's cgroup", func(h *doctor.Host) { h.Writable = func(string) bool { return false } }, "cgroup", doctor.Warn, "Delegate=yes"},
		{"a free clock", func(h *doctor.Host) { h.Clock = func() (bool, error) { return false, nil } }, "clock", doctor.Warn, "set-ntp"},
		{"no network", func(h *doctor.Host) { h.Addresses = func() ([]doctor.Address, error) { return nil, nil } }, "interface", doctor.Warn, "only the loopback"},
		{"a link that is down", func(h *doctor.Host) {
			h.Addresses = func() ([]doctor.Address, error) { return []doctor.Address{{"eth0", net.IPv4(10, 0, 0, 5), false}}, nil }
		}, "interface", doctor.Warn, "ip link set eth0 up"},
		{"the interface asked for", func(h *doctor.Host) { h.Interface = "eth0" }, "interface", doctor.OK, "eth0 10.0.0.5"},
		{"an interface that is not there", func(h *doctor.Host) { h.Interface = "ib0" }, "interface", doctor.Fail, "ib0 has no address"},
		{"a port in use", func(h *doctor.Host) { h.Listen = func(string) error { return unix.EADDRINUSE } }, "port", doctor.Warn, "--ports"},
		{"no Go", without("go"), "go", doctor.Warn, "go.dev"},
		{"no Python", without("python3"), "python", doctor.Warn, "venv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := fit()
			c.change(h)
			for _, l := range h.Examine() {
				if l.Check != c.check {
					continue
				}
				if l.State != c.state || !strings.Contains(l.Found+" "+l.Mend, c.want) {
					t.Errorf("%+v, want %s and %q", l, c.state, c.want)
				}
				if (l.State == doctor.OK) != (l.Mend == "") {
					t.Errorf("%+v: a mend belongs to a fault", l)
				}
				return
			}
			t.Errorf("there is no check %q", c.check)
		})
	}
}

func reads(h *doctor.Host, path, text string) func(string) (string, error) {
	old := h.Read
	return func(p string) (string, error) {
		if p == path {
			return text, nil
		}
		return old(p)
	}
}

func without(program string) func(*doctor.Host) {
	return func(h *doctor.Host) {
		h.Version = func(p string, _ ...string) (string, error) {
			if p == program {
				return "", &exec.Error{Name: p, Err: exec.ErrNotFound}
			}
			return p, nil
		}
	}
}

func TestAllIsWell(t *testing.T) {
	for _, l := range fit().Examine() {
		if l.State != doctor.OK || l.Found == "" || l.Mend != "" {
			t.Errorf("%+v", l)
		}
	}
}

// On this host every check comes to an end, and those of the kernel's files can be made.
func TestThisHost(t *testing.T) {
	lines := doctor.ThisHost(t.TempDir(), "", "0").Examine()
	if len(lines) != len(fit().Examine()) {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		t.Logf("%-5s %s: %s", l.State, l.Check, l.Found)
		if l.Check == "memory maps" && strings.Contains(l.Mend, "could not be read") {
			t.Error(errors.New(l.Found))
		}
	}
}
