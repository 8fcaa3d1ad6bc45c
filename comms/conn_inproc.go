package comms

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Inproc is the registry of names that can be dialed inside one process. Share
// one value among the parts that are to see each other.
type Inproc struct {
	mu    sync.Mutex
	names map[string]*inprocListener
}

// NewInproc makes an empty registry.
func NewInproc() *Inproc { return &Inproc{names: map[string]*inprocListener{}} }

func (p *Inproc) listen(name string) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names[name] != nil {
		return nil, fmt.Errorf("listen on inproc://%s: the name is taken in this process", name)
	}
	l := &inprocListener{home: p, name: name, queue: make(chan net.Conn, 64), closed: make(chan struct{})}
	p.names[name] = l
	return l, nil
}

// has says whether a listener has the name.
func (p *Inproc) has(name string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.names[name] != nil
}

func (p *Inproc) dial(name string) (net.Conn, error) {
	p.mu.Lock()
	l := p.names[name]
	p.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial inproc://%s: no listener in this process", name)
	}
	near, far := newInprocPair(name)
	select {
	case l.queue <- far:
	case <-l.closed:
	}
	select {
	case <-l.closed: // perhaps after its queue was emptied
		return nil, fmt.Errorf("dial inproc://%s: no listener in this process", name)
	default:
		return near, nil
	}
}

type inprocListener struct {
	home   *Inproc
	name   string
	queue  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *inprocListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *inprocListener) Close() error {
	l.once.Do(func() {
		l.home.mu.Lock()
		delete(l.home.names, l.name)
		l.home.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.queue:
				_ = c.Close() // an in-memory pipe closes without error
				continue
			default:
			}
			return
		}
	})
	return nil
}

func (l *inprocListener) Addr() net.Addr { return inprocAddr(l.name) }

type inprocAddr string

func (inprocAddr) Network() string  { return "inproc" }
func (a inprocAddr) String() string { return string(a) }

// inprocConn is one end of a buffered pipe in memory.
type inprocConn struct {
	name    string
	in, out *ring
}

func newInprocPair(name string) (*inprocConn, *inprocConn) {
	a, b := newRing(), newRing()
	return &inprocConn{name, a, b}, &inprocConn{name, b, a}
}

func (c *inprocConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *inprocConn) Write(p []byte) (int, error) { return c.out.write([][]byte{p}, true) }

func (c *inprocConn) writeVec(vec [][]byte, wait bool) (int, error) {
	n, err := c.out.write(vec, wait)
	advance(vec, n)
	return n, err
}

// Close ends both directions; what was written before can still be read.
func (c *inprocConn) Close() error {
	c.out.close(false)
	c.in.close(true)
	return nil
}

func (c *inprocConn) LocalAddr() net.Addr  { return inprocAddr(c.name) }
func (c *inprocConn) RemoteAddr() net.Addr { return inprocAddr(c.name) }

func (c *inprocConn) SetDeadline(t time.Time) error {
	c.in.readDeadline.set(c.in, t)
	c.out.writeDeadline.set(c.out, t)
	return nil
}

func (c *inprocConn) SetReadDeadline(t time.Time) error {
	c.in.readDeadline.set(c.in, t)
	return nil
}

func (c *inprocConn) SetWriteDeadline(t time.Time) error {
	c.out.writeDeadline.set(c.out, t)
	return nil
}

const (
	ringStart = 4 << 10
	ringMax   = 256 << 10
)

// ring is one direction: a circular buffer that grows to ringMax.
type ring struct {
	mu       sync.Mutex
	changed  sync.Cond // one reader and one writer at most wait here
	buf      []byte
	from, n  int // n bytes from index from
	ended    bool
	readGone bool

	readDeadline, writeDeadline deadline
}

func newRing() *ring {
	r := &ring{buf: make([]byte, ringStart)}
	r.changed.L = &r.mu
	return r
}

func (r *ring) read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.n == 0 {
		switch {
		case r.readGone:
			return 0, net.ErrClosed
		case r.readDeadline.passed:
			return 0, os.ErrDeadlineExceeded
		case r.ended:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		r.changed.Wait()
	}
	total := 0
	for r.n > 0 && total < len(p) {
		k := copy(p[total:], r.buf[r.from:min(r.from+r.n, len(r.buf))])
		total += k
		r.n -= k
		if r.from += k; r.from == len(r.buf) {
			r.from = 0
		}
	}
	r.changed.Broadcast()
	return total, nil
}

func (r *ring) write(vec [][]byte, wait bool) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	total := 0
	for _, p := range vec {
		for len(p) > 0 {
			switch {
			case r.ended || r.readGone:
				return total, net.ErrClosed
			case r.writeDeadline.passed:
				return total, os.ErrDeadlineExceeded
			}
			k := r.put(p)
			p = p[k:]
			if total += k; k > 0 {
				r.changed.Broadcast()
				continue
			}
			if !wait {
				return total, nil
			}
			r.changed.Wait()
		}
	}
	return total, nil
}

// put copies what fits of p.
func (r *ring) put(p []byte) int {
	for len(r.buf)-r.n < len(p) && len(r.buf) < ringMax {
		grown := make([]byte, 2*len(r.buf))
		k := copy(grown, r.buf[r.from:min(r.from+r.n, len(r.buf))])
		copy(grown[k:], r.buf[:r.n-k])
		r.buf, r.from = grown, 0
	}
	total := 0
	for total < len(p) && r.n < len(r.buf) {
		at := (r.from + r.n) % len(r.buf)
		end := len(r.buf)
		if at < r.from {
			end = r.from
		}
		k := copy(r.buf[at:end], p[total:])
		total += k
		r.n += k
	}
	return total
}

func (r *ring) close(byReader bool) {
	r.mu.Lock()
	r.ended = true
	r.readGone = r.readGone || byReader
	if byReader {
		r.n = 0
	}
	r.mu.Unlock()
	r.changed.Broadcast()
	r.readDeadline.set(r, time.Time{})
	r.writeDeadline.set(r, time.Time{})
}

// deadline wakes a ring when it passes. Its fields belong to the ring's lock.
type deadline struct {
	timer  *time.Timer
	passed bool
}

func (d *deadline) set(r *ring, t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.passed = false
	if t.IsZero() {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		d.passed = true
		r.changed.Broadcast()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		r.mu.Lock()
		if d.timer == timer {
			d.passed = true
		}
		r.mu.Unlock()
		r.changed.Broadcast()
	})
	d.timer = timer
}
