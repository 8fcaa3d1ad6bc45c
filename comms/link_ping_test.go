package comms

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
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

// rawConnect does a raw dialing side's handshake and returns the Welcome.
func rawConnect(t *testing.T, addr string, hello session.Greeting, ack uint64) (net.Conn, *rawReader, session.Envelope) {
	t.Helper()
	c := rawDial(t, addr)
	e := session.Envelope{Kind: session.Hello, Ack: ack, Greeting: &hello}
	if _, err := c.Write(join(rawGreeting, rawReady, rawFrame(0, string(e.Append(nil))))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, greetingSize)); err != nil {
		t.Fatal(err)
	}
	r := &rawReader{t, frameReader{br: bufio.NewReader(c)}}
	r.frame() // READY
	_, body := r.frame()
	welcome, err := session.Decode(body)
	if err != nil || welcome.Kind != session.Welcome {
		t.Fatalf("want Welcome, got %+v, %v", welcome, err)
	}
	return c, r, welcome
}

// When Welcome is lost, the dialing side comes back with what it knew before:
// nothing, the link of a dead listener, or a link that was forgotten. The
// listening side must not mistake its numbers for those of the new link.
func TestWelcomeIsLost(t *testing.T) {
	for name, before := range map[string]struct{ token, ack uint64 }{"nothing": {0, 0}, "another listener": {12345, 55}} {
		hub := newRecorder()
		addr := "ipc://" + socketFolder(t) + "/s"
		cfg := config(t, self("controller", "c", 2), hub)
		cfg.Replay = true
		listenTest(t, addr, cfg)
		hello := session.Greeting{ProtocolMin: 1, ProtocolMax: 1, Role: "agent", Name: "raw", Incarnation: 1, Session: 9,
			Replay: true, Resume: before.token, MaxHead: 100, MaxBody: 100}
		c, _, first := rawConnect(t, addr, hello, before.ack)
		l := hub.next(t, "up").link
		if err := l.Send([]byte("kept"), nil); err != nil {
			t.Fatal(err)
		}
		c.Close()
		hub.next(t, "down")
		_, r, second := rawConnect(t, addr, hello, before.ack)
		if up := hub.next(t, "up"); up.link != l || !up.resumed {
			t.Errorf("%s: second connection: same link %t, resumed %t", name, up.link == l, up.resumed)
		}
		if first.Greeting.Resume == 0 || second.Greeting.Resume != first.Greeting.Resume || second.Greeting.Resume == before.token || second.Ack != 0 {
			t.Errorf("%s: Welcome %+v, then %+v", name, first.Greeting, second.Greeting)
		}
		_, env := r.frame()
		if e, err := session.Decode(env); err != nil || e.Seq != 1 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// A peer that claims to have received what was never sent ends its link.
func TestImpossibleAcknowledgementEndsTheLink(t *testing.T) {
	hub := newRecorder()
	addr := "ipc://" + socketFolder(t) + "/s"
	cfg := config(t, self("controller", "c", 2), hub)
	cfg.Replay, cfg.Log = true, cfg.Log.Level(6)
	listenTest(t, addr, cfg)
	hello := session.Greeting{ProtocolMin: 1, ProtocolMax: 1, Role: "agent", Name: "raw", Incarnation: 1, Session: 9,
		Replay: true, MaxHead: 100, MaxBody: 100}
	c, _, welcome := rawConnect(t, addr, hello, 0)
	hub.next(t, "up")
	c.Close()
	hub.next(t, "down")
	hello.Resume = welcome.Greeting.Resume
	rawConnect(t, addr, hello, 7)
	if d := hub.next(t, "down"); !errors.Is(d.err, ErrClosed) || !errors.Is(d.err, session.ErrSequence) {
		t.Errorf("down: %v", d.err)
	}
}

// A peer that sends again what was received, head and body or head alone, is
// not wrong; the copies are dropped.
func TestDuplicatesAreDropped(t *testing.T) {
	hub := newRecorder()
	addr := "ipc://" + socketFolder(t) + "/s"
	listenTest(t, addr, config(t, self("controller", "c", 2), hub))
	hello := session.Greeting{ProtocolMin: 1, ProtocolMax: 1, Role: "agent", Name: "raw", Incarnation: 1, Session: 9, MaxHead: 100, MaxBody: 100}
	c, _, _ := rawConnect(t, addr, hello, 0)
	alone := join(rawFrame(frameMore, string(session.AppendData(nil, 2, 0, false))), rawFrame(0, "two"))
	one := rawData(1, []byte("one"), bytes.Repeat([]byte("x"), 100_000))
	if _, err := c.Write(join(one, one, alone, alone, one, rawData(3, []byte("three"), nil))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one", "two", "three"} {
		m := hub.next(t, "message")
		if string(m.head) != want {
			t.Errorf("got %q, want %q", m.head, want)
		}
		if n := m.link.Stats().Duplicates; want == "three" && n != 3 {
			t.Errorf("%d duplicates counted", n)
		}
	}
}

// What a handler queued goes out although the next message has begun to arrive:
// its rest may take long.
func TestAnswerDoesNotWaitForTheRestOfTheNextMessage(t *testing.T) {
	hub := newRecorder()
	hub.react = func(h happening) {
		if h.what == "message" {
			if err := h.link.Queue([]byte("answer"), nil); err != nil {
				t.Error(err)
			}
		}
	}
	addr := "ipc://" + socketFolder(t) + "/s"
	cfg := config(t, self("controller", "c", 2), hub)
	cfg.HeartbeatEvery = -1
	listenTest(t, addr, cfg)
	hello := session.Greeting{ProtocolMin: 1, ProtocolMax: 1, Role: "agent", Name: "raw", Incarnation: 1, Session: 9, MaxHead: 100, MaxBody: 100}
	c, r, _ := rawConnect(t, addr, hello, 0)
	two := rawData(2, []byte("two"), make([]byte, 1000))
	for _, part := range [][]byte{join(rawData(1, []byte("one"), nil), two[:1]), two[1:500], two[500:]} {
		if _, err := c.Write(part); err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(part, two[1:500]) {
			continue // the middle of a message is no reason to answer
		}
		r.frame()
		if _, head := r.frame(); string(head) != "answer" {
			t.Fatalf("got %q", head)
		}
	}
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
