package doctor

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Host is what checks look at. Tests replace parts of it.
type Host struct {
	Root      string // before the paths of the kernel's files: "" or a test's folder
	Shm       string // folder of shared memory
	State     string // folder of the daemon's state
	Interface string // that is to be used; "" any
	Port      string // of a controller
	Read      func(path string) (string, error)
	Disk      func(path string) (Disk, error)
	Limit     func(resource int) (soft, hard uint64, err error)
	Addresses func() ([]Address, error)
	Listen    func(address string) error
	Clock     func() (synced bool, err error)
	Writable  func(path string) bool
	Version   func(program string, args ...string) (string, error) // exec.ErrNotFound when it is not there
}

// Disk is what a file system has.
type Disk struct {
	Total, Free uint64
	Type        int64 // statfs(2)
}

// Address is an address of this host.
type Address struct {
	Interface string
	IP        net.IP
	Up        bool
}

// ThisHost is the host of this process.
func ThisHost(state, iface, port string) *Host {
	return &Host{
		Shm: "/dev/shm", State: state, Interface: iface, Port: port,
		Read: func(path string) (string, error) {
			b, err := os.ReadFile(path)
			return strings.TrimSpace(string(b)), err
		},
		Disk:      disk,
		Limit:     limit,
		Addresses: addresses,
		Listen: func(address string) error {
			l, err := net.Listen("tcp", address)
			if err == nil {
				err = l.Close()
			}
			return err
		},
		Clock:    clock,
		Writable: func(path string) bool { return unix.Access(path, unix.W_OK) == nil },
		Version:  version,
	}
}

// disk looks at the file system that path is on, or will be.
func disk(path string) (Disk, error) {
	var st unix.Statfs_t
	err := unix.Statfs(path, &st)
	for err == unix.ENOENT && filepath.Dir(path) != path {
		path = filepath.Dir(path)
		err = unix.Statfs(path, &st)
	}
	return Disk{Total: st.Blocks * uint64(st.Bsize), Free: st.Bavail * uint64(st.Bsize), Type: st.Type}, err
}

func limit(resource int) (soft, hard uint64, err error) {
	var r unix.Rlimit
	err = unix.Getrlimit(resource, &r)
	return r.Cur, r.Max, err
}

func addresses() (out []Address, err error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addrs {
			if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
				out = append(out, Address{i.Name, ip.IP, i.Flags&net.FlagUp != 0})
			}
		}
	}
	return out, nil
}

// clock asks the kernel whether a program steers the clock (adjtimex(2)).
func clock() (bool, error) {
	var t unix.Timex
	_, err := unix.Adjtimex(&t)
	return t.Status&unix.STA_UNSYNC == 0, err
}

func version(program string, args ...string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).Output()
	return strings.TrimSpace(string(out)), err
}
