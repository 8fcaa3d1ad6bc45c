package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
)

// Config says how an agent leads direct links to other hosts, and those of other hosts to processes of its own.
type Config struct {
	Self   comms.Identity // Role must be "agent"
	Listen string         // address for other agents, as comms.ParseAddress reads it
	Doors  string         // folder for the sockets of doors, of our user alone
	Inside string         // folder: the sockets below it can be reached

	Security            *comms.Security // needed for TCP; whom it expects is set to agents
	InsecureTestNetwork bool            // permits plain TCP, for tests
	Inproc              *comms.Inproc   // names that can be reached inside this process
	Silence             time.Duration   // after which a link counts as broken; default comms.DefaultSilence
	Log                 zerolog.Logger
}

// Errors of ways.
var (
	// ErrClosed says that the Reach is closed.
	ErrClosed = errors.New("ways to other hosts are closed")
	// ErrGone says that there will be no way either: the process, or its agent, has ended.
	ErrGone = errors.New("it is gone")
)

const (
	doorTime   = 10 * time.Second // for the caller to come to its door
	processDue = 2 * time.Second  // to connect to a process
	piece      = 64 << 10         // bytes of one Carried, at most
	queued     = 1 << 20          // bytes that wait on a link, at most
)

// Reach leads direct links to other hosts and back. Its methods may be called from any goroutine.
type Reach struct {
	cfg      Config
	listener *comms.Listener
	stop     context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
	doors    atomic.Uint64

	mu      sync.Mutex
	streams map[*comms.Link]*stream
	closed  bool
}

// New starts to listen.
func New(cfg Config) (*Reach, error) {
	if cfg.Security != nil {
		s := *cfg.Security
		s.Expect = []pki.Role{pki.RoleAgent}
		cfg.Security = &s
	}
	r := &Reach{cfg: cfg, streams: map[*comms.Link]*stream{}}
	r.stop, r.cancel = context.WithCancel(context.Background())
	lc := r.links()
	lc.Handler = door{r}
	lc.CheckPeer = func(peer comms.Identity, _ int) error {
		if peer.Role != "agent" {
			return fmt.Errorf("agents alone lead links to processes of another host, %s is a %s", peer.Name, peer.Role)
		}
		return nil
	}
	var err error
	if r.listener, err = comms.Listen(cfg.Listen, lc); err != nil {
		r.cancel()
		return nil, fmt.Errorf("lead links to processes of this host: %w", err)
	}
	return r, nil
}

// links returns what all our links have in common.
func (r *Reach) links() comms.Config {
	return comms.Config{
		Self: r.cfg.Self, Inproc: r.cfg.Inproc, Security: r.cfg.Security, InsecureTestNetwork: r.cfg.InsecureTestNetwork, Log: r.cfg.Log,
		MaxMessage: piece, MaxBody: piece, HeartbeatTimeout: r.cfg.Silence, QueueBytes: queued,
	}
}

// Addr returns the address that other agents are to be told.
func (r *Reach) Addr() string { return r.listener.Addr() }

// Open leads a link to a process that listens at an address on the host of an agent, which is reached at at. It returns
// the address of a door, at which one caller is awaited for some seconds. With ErrGone to ask again has no effect.
func (r *Reach) Open(ctx context.Context, agent, at, address string) (string, error) {
	if at == "" {
		return "", fmt.Errorf("%w: agent %s leads no links of other hosts to its processes", ErrGone, agent)
	}
	s := newStream(r)
	cfg := r.links()
	cfg.Handler = s
	cfg.CheckPeer = func(peer comms.Identity, _ int) error {
		if peer.Role != "agent" || peer.Name != agent {
			return fmt.Errorf("agent %s was expected, and %s %s answers", agent, peer.Role, peer.Name)
		}
		return nil
	}
	link, err := comms.Dial(ctx, at, cfg)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) { // its host answers, and nothing listens
		err = fmt.Errorf("%w: %w", ErrGone, err)
	}
	if err != nil {
		return "", fmt.Errorf("reach agent %s: %w", agent, err)
	}
	if !r.add(link, s) {
		link.Abort(ErrClosed)
		return "", ErrClosed
	}
	err = link.Send(comms.Encode(&comms.Reach{Agent: agent, Address: address}), nil)
	if err == nil {
		select {
		case err = <-s.answer:
		case <-ctx.Done():
			err = fmt.Errorf("agent %s does not answer: %w", agent, context.Cause(ctx))
		}
	}
	var path string
	if err == nil {
		path, err = r.door(s)
	}
	if err != nil {
		link.Abort(err)
		return "", err
	}
	return "ipc://" + path, nil
}

// door opens a socket for one caller.
func (r *Reach) door(s *stream) (string, error) {
	path := filepath.Join(r.cfg.Doors, fmt.Sprintf("door-%d.sock", r.doors.Add(1)))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of an agent that was killed
		return "", fmt.Errorf("open a door to another host: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return "", fmt.Errorf("open a door to another host: %w", err)
	}
	if err := l.SetDeadline(time.Now().Add(doorTime)); err != nil {
		return "", errors.Join(fmt.Errorf("open a door to another host: %w", err), l.Close())
	}
	if !r.goes(func() {
		stop := context.AfterFunc(s.over, func() { _ = l.Close() })
		c, err := l.Accept()
		stop()
		_ = l.Close() // also takes the socket away; it was closed before if the link has ended
		if err == nil {
			if err = comms.CheckUser(c); err != nil {
				_ = c.Close()
			}
		}
		if err != nil {
			s.link.Abort(fmt.Errorf("no caller came: %w", err))
			return
		}
		s.carry(c)
	}) {
		return "", errors.Join(ErrClosed, l.Close())
	}
	return path, nil
}

// dial connects to a process of this host.
func (r *Reach) dial(address string) (net.Conn, error) {
	path, ok := strings.CutPrefix(address, "ipc://")
	inside, err := filepath.Rel(r.cfg.Inside, filepath.Clean(path))
	if !ok || err != nil || !filepath.IsLocal(inside) {
		return nil, fmt.Errorf("%w: no process of this host that can be reached listens at %s", ErrGone, address)
	}
	c, err := net.DialTimeout("unix", path, processDue)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w: the process has ended", ErrGone)
	case err != nil:
		return nil, fmt.Errorf("connect to the process: %w", err)
	}
	if err := comms.CheckUser(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// add takes in a link; false: all are closed.
func (r *Reach) add(l *comms.Link, s *stream) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if s.over.Err() == nil { // else it has ended already
		r.streams[l] = s
	}
	return true
}

// goes runs f beside the caller, until which Close waits; false: all is closed.
func (r *Reach) goes(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.work.Go(f)
	return true
}

func (r *Reach) forget(l *comms.Link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, l)
}

func (r *Reach) all() map[*comms.Link]*stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[*comms.Link]*stream, len(r.streams))
	for l, s := range r.streams {
		all[l] = s
	}
	return all
}

// Recheck ends the links of agents whose certificates are revoked or have expired by now.
func (r *Reach) Recheck(now time.Time) {
	r.listener.Recheck(now)
	for l := range r.all() { // those that we dialed, too
		l.Recheck(now)
	}
}

// Close ends all links and their connections.
func (r *Reach) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	all := r.all()
	for l := range all {
		l.Abort(ErrClosed)
	}
	err := r.listener.Close()
	for l := range all {
		<-l.Done()
	}
	r.work.Wait()
	return err
}
