package comms

import (
	"bufio"
	"bytes"
	"io"
	"testing"

	"github.com/cascade-run/cascade/comms/internal/session"
)

// rawReader reads a link's frames as they are on the wire.
type rawReader struct {
	t  *testing.T
	in frameReader
}

func (r *rawReader) frame() (flags byte, body []byte) {
	r.t.Helper()
	flags, n, err := r.in.header()
	if err == nil {
		body, err = r.in.bytes(int(n))
	}
	if err != nil {
		r.t.Fatalf("read frame: %v", err)
	}
	return flags, body
}

// A PING is answered between messages, never inside one, although it arrives
// between the frames of the peer's message and while ours is being written.
func TestPingInTheMiddle(t *testing.T) {
	hub := newRecorder()
	addr := "ipc://" + socketFolder(t) + "/s"
	listenTest(t, addr, config(t, self("controller", "c", 1), hub))
	c := rawDial(t, addr)
	ping := rawCommand("\x04PING\x00\x00abc")
	pong := []byte("\x04PONGabc")
	write := func(parts ...[]byte) {
		t.Helper()
		if _, err := c.Write(join(parts...)); err != nil {
			t.Fatal(err)
		}
	}
	write(rawGreeting, rawReady, ping, rawHello(func(e *session.Envelope) { e.Greeting.MaxBody = 64 << 20 }))
	if _, err := io.ReadFull(c, make([]byte, greetingSize)); err != nil {
		t.Fatal(err)
	}
	r := &rawReader{t, frameReader{br: bufio.NewReader(c)}}
	if flags, body := r.frame(); flags != frameCommand || !bytes.HasPrefix(body, []byte("\x05READY")) {
		t.Fatalf("want READY, got %q", body)
	}
	if _, body := r.frame(); body[3] != byte(session.Welcome) {
		t.Fatalf("want Welcome, got %q", body)
	}
	if flags, body := r.frame(); flags != frameCommand || !bytes.Equal(body, pong) {
		t.Fatalf("want PONG to the early PING, got %q", body)
	}
	l := hub.next(t, "up").link

	// Between our frames.
	d := rawFrame(frameMore, string(session.AppendData(nil, 1, 0, false)))
	write(d, ping, rawFrame(frameMore, "head"), ping, rawFrame(0, "body"))
	if m := hub.next(t, "message"); string(m.head) != "head" || string(m.body) != "body" {
		t.Errorf("message %q %q", m.head, m.body)
	}
	for range 2 {
		if _, body := r.frame(); !bytes.Equal(body, pong) {
			t.Fatalf("want PONG, got %q", body)
		}
	}

	// While 16 MiB wait in the kernel and behind it.
	if err := l.Send([]byte("big"), make([]byte, 16<<20)); err != nil {
		t.Fatal(err)
	}
	write(ping)
	write(rawData(2, []byte("after the ping"), nil))
	hub.next(t, "message") // so the PING was read
	for i, want := range []struct {
		flags byte
		size  int
	}{{frameMore, 4}, {frameMore, 3}, {0, 16 << 20}} {
		flags, body := r.frame()
		if flags != want.flags || (i > 0 && len(body) != want.size) {
			t.Fatalf("frame %d: flags %#x, %d bytes", i, flags, len(body))
		}
	}
	if flags, body := r.frame(); flags != frameCommand || !bytes.Equal(body, pong) {
		t.Fatalf("want PONG behind the message, got %q", body)
	}
	// A flood of PINGs whose answers are never read costs nothing.
	before := allocated()
	flood := bytes.Repeat(ping, 1000)
	for range 200 {
		write(flood)
	}
	if grown := allocated() - before; grown > 64<<20 {
		t.Errorf("200,000 PINGs allocated %d bytes", grown)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.wire.pongs); n > maxPongs {
		t.Errorf("%d answers wait", n)
	}
}
