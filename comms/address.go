package comms

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cascade-run/cascade/internal/flock"
	"github.com/cascade-run/cascade/internal/safedir"
)

// Endpoint is one way to reach a listener.
type Endpoint struct {
	Scheme string // inproc, ipc or tcp
	Target string // name, absolute path, or host:port
}

// String returns the endpoint as an address.
func (e Endpoint) String() string { return e.Scheme + "://" + e.Target }

// nearness orders schemes: a link takes the lowest that answers.
func (e Endpoint) nearness() int { return strings.Index("inproc ipc tcp", e.Scheme) }

// maxSocketPath is the longest path that fits sockaddr_un with its final zero.
const maxSocketPath = 107

// ParseAddress reads an address: one endpoint or several separated by commas,
// such as "inproc://controller,ipc:///run/user/1000/cascade/controller.sock".
// The result is ordered from near to far. Listen also takes a range of ports, such
// as tcp://10.0.0.5:20000-20100, of which it opens the first that is free.
func ParseAddress(addr string) ([]Endpoint, error) {
	var out []Endpoint
	for _, part := range strings.Split(addr, ",") {
		scheme, target, ok := strings.Cut(strings.TrimSpace(part), "://")
		e := Endpoint{scheme, target}
		switch {
		case !ok || target == "":
			return nil, fmt.Errorf("address %q: want inproc://name, ipc:///path or tcp://host:port, such as tcp://10.0.0.1:%s", part, DefaultPort)
		case scheme == "inproc":
		case scheme == "ipc":
			if !filepath.IsAbs(target) {
				return nil, fmt.Errorf("address %q: the path of an ipc address must be absolute (ipc:///...)", part)
			}
			if len(target) > maxSocketPath {
				return nil, fmt.Errorf("address %q: the path has %d bytes, a Unix socket takes at most %d; choose a shorter folder", part, len(target), maxSocketPath)
			}
		case scheme == "tcp":
			if _, _, err := net.SplitHostPort(target); err != nil {
				return nil, fmt.Errorf("address %q: %w", part, err)
			}
		default:
			return nil, fmt.Errorf("address %q: unknown scheme %q; there are inproc, ipc and tcp", part, scheme)
		}
		out = append(out, e)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].nearness() < out[j].nearness() })
	return out, nil
}

// DefaultPort is the TCP port of a controller where none is said.
const DefaultPort = "7420"

// TCPAddress turns what a user types for a controller, HOST, HOST:PORT or
// tcp://HOST:PORT, into an address.
func TCPAddress(s string) (string, error) {
	target := strings.TrimPrefix(s, "tcp://")
	if strings.Contains(target, "://") {
		return "", fmt.Errorf("address %q: want HOST or HOST:PORT", s)
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		host, port = strings.Trim(target, "[]"), DefaultPort
	}
	if host == "" || strings.ContainsAny(host, "/ ,") {
		return "", fmt.Errorf("address %q: want HOST or HOST:PORT", s)
	}
	return "tcp://" + net.JoinHostPort(host, cmp.Or(port, DefaultPort)), nil
}

// errInsecure explains why TCP is refused.
func errInsecure(e Endpoint) error {
	return fmt.Errorf("%s: plain TCP is refused: it is neither encrypted nor authenticated; "+
		"give Security, a certificate of the cluster, or for tests and benchmarks only InsecureTestNetwork (--insecure-test-network)", e)
}

// listenEndpoint opens one endpoint.
func listenEndpoint(e Endpoint, cfg *Config) (net.Listener, error) {
	switch e.Scheme {
	case "inproc":
		if cfg.Inproc == nil {
			return nil, fmt.Errorf("listen on %s: Config.Inproc is nil", e)
		}
		return cfg.Inproc.listen(e.Target)
	case "ipc":
		return listenUnix(e.Target)
	}
	if cfg.Security == nil && !cfg.InsecureTestNetwork {
		return nil, fmt.Errorf("listen on %w", errInsecure(e))
	}
	l, err := listenTCP(e.Target)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: %w: end the program that listens there (ss -ltnp shows it), or choose another port", e, err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen on %s: %w: it is no address of this host (ip address lists them)", e, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", e, err)
	}
	return l, nil
}

// listenTCP opens host:port, or the first free port of host:low-high.
func listenTCP(target string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	first, last, ranged := strings.Cut(port, "-")
	if !ranged {
		return net.Listen("tcp", target)
	}
	low, err := strconv.ParseUint(first, 10, 16)
	high, err2 := strconv.ParseUint(last, 10, 16)
	if err != nil || err2 != nil || low == 0 || low > high {
		return nil, fmt.Errorf("ports %q: want a range such as 20000-20100", port)
	}
	for ; low <= high; low++ {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.FormatUint(low, 10)))
		if err == nil || !errors.Is(err, unix.EADDRINUSE) {
			return l, err
		}
	}
	return nil, fmt.Errorf("every port of %s is in use", port)
}

// unixListener removes its socket and then gives up the lock that says who
// may do so.
type unixListener struct {
	*net.UnixListener
	lock *os.File
}

func (l *unixListener) Close() error { return errors.Join(l.UnixListener.Close(), l.lock.Close()) }

// listenUnix opens a Unix socket in a folder of mode 0700. A socket file that
// is left over is replaced only when no process answers there; the lock file keeps
// two starting processes from replacing each other's socket.
func listenUnix(path string) (net.Listener, error) {
	if err := safedir.Private(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("listen on ipc://%s: %w", path, err)
	}
	lock, err := flock.Open(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("listen on ipc://%s: %w", path, err)
	}
	l, err := bindUnix(path, lock)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on ipc://%s: %w", path, err), lock.Close())
	}
	return &unixListener{l, lock}, nil
}

func bindUnix(path string, lock *os.File) (*net.UnixListener, error) {
	if err := flock.TryFile(lock, flock.Exclusive); err != nil {
		return nil, fmt.Errorf("another process listens there: end it, or listen at another path: %w", err)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		return nil, errors.Join(errors.New("another process answers there: end it, or listen at another path"), c.Close())
	} else if errors.Is(err, unix.ECONNREFUSED) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the stale socket: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the path is in use: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	return l, nil
}
