package process

import (
	"io"
	"sync"
)

// tail keeps the last max bytes of a stream.
type tail struct {
	mu   sync.Mutex
	max  int
	buf  []byte // a ring once it is full
	next int    // where the ring's next byte goes
}

func (t *tail) write(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(b) > t.max {
		b = b[len(b)-t.max:]
	}
	if room := t.max - len(t.buf); room > 0 {
		n := min(room, len(b))
		t.buf = append(t.buf, b[:n]...)
		b = b[n:]
	}
	for len(b) > 0 {
		n := copy(t.buf[t.next:], b)
		t.next = (t.next + n) % t.max
		b = b[n:]
	}
}

// bytes returns a copy of what is kept, oldest first.
func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.buf) == 0 {
		return nil
	}
	out := make([]byte, 0, len(t.buf))
	return append(append(out, t.buf[t.next:]...), t.buf[:t.next]...)
}

// drain reads r to its end, so that a program that writes a lot never blocks on us.
func (t *tail) drain(r io.Reader, tee io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		t.write(buf[:n])
		if tee != nil && n > 0 {
			if _, err := tee.Write(buf[:n]); err != nil {
				tee = nil
			}
		}
		if err != nil {
			return
		}
	}
}
