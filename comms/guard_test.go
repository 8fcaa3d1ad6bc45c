package comms

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms/internal/session"
)

// Bytes of a peer that is not ours.
var (
	rawGreeting = func() []byte {
		b := make([]byte, greetingSize)
		b[0], b[9], b[10] = 0xff, 0x7f, 3
		copy(b[12:], "NULL")
		return b
	}()
	rawReady = rawCommand("\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER")
)

func rawFrame(flags byte, body string) []byte {
	return append(appendFrameHeader(nil, flags, len(body)), body...)
}

func rawCommand(body string) []byte { return rawFrame(frameCommand, body) }

// rawLength is a long frame header that claims size bytes.
func rawLength(flags byte, size uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{flags | frameLong}, size)
}

func rawHello(change func(*session.Envelope)) []byte {
	e := session.Envelope{Kind: session.Hello, Greeting: &session.Greeting{ProtocolMin: 1, ProtocolMax: 1,
		Role: "agent", Name: "raw", Incarnation: 1, Session: 1, MaxHead: 1 << 20, MaxBody: 1 << 20}}
	if change != nil {
		change(&e)
	}
	return rawFrame(0, string(e.Append(nil)))
}

func rawData(seq uint64, head, body []byte) []byte {
	b := rawFrame(frameMore, string(session.AppendData(nil, seq, 0, false)))
	b = append(b, appendFrameHeader(nil, frameMore, len(head))...)
	b = append(append(b, head...), appendFrameHeader(nil, 0, len(body))...)
	return append(b, body...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// attacks are byte streams that must end in a refusal.
func attacks() map[string][]byte {
	hello := join(rawGreeting, rawReady, rawHello(nil))
	deep := append(rawHello(nil)[:3:3], bytes.Repeat([]byte{0x91}, 250)...)
	return map[string][]byte{
		"not zmtp":                 []byte("GET / HTTP/1.1\r\n\r\n"),
		"zeros":                    make([]byte, 200),
		"old version":              append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 2}, make([]byte, 53)...),
		"wrong mechanism":          bytes.Replace(join(rawGreeting, rawReady), []byte("NULL"), []byte("CURV"), 1),
		"handshake 2^63":           join(rawGreeting, rawLength(frameCommand, 1<<63)),
		"handshake 2^62":           join(rawGreeting, rawLength(frameCommand, 1<<62)),
		"handshake 8 GiB":          join(rawGreeting, rawLength(frameCommand, 8<<30)),
		"handshake 4 KiB + 1":      join(rawGreeting, rawLength(frameCommand, handshakeFrameMax+1)),
		"handshake message":        join(rawGreeting, rawFrame(0, "hello")),
		"handshake flags":          join(rawGreeting, []byte{0xff, 1, 0}),
		"empty command":            join(rawGreeting, rawCommand("")),
		"short command":            join(rawGreeting, rawCommand("\xc8x")),
		"other command":            join(rawGreeting, rawCommand("\x04PING\x00\x00")),
		"error command":            join(rawGreeting, rawCommand("\x05ERROR\x04nope")),
		"metadata name too long":   join(rawGreeting, rawCommand("\x05READY\xffab")),
		"metadata without value":   join(rawGreeting, rawCommand("\x05READY\x01a")),
		"metadata value too long":  join(rawGreeting, rawCommand("\x05READY\x01a\xff\xff\xff\xff")),
		"metadata empty name":      join(rawGreeting, rawCommand("\x05READY\x00\x00\x00\x00\x00")),
		"no socket type":           join(rawGreeting, rawCommand("\x05READY")),
		"socket type in capitals":  join(rawGreeting, rawCommand("\x05READY\x0bSOCKET-TYPE\x00\x00\x00\x03PUB")),
		"two socket types":         join(rawGreeting, rawCommand("\x05READY"+strings.Repeat("\x0bSocket-Type\x00\x00\x00\x06DEALER", 2))),
		"wrong socket type":        join(rawGreeting, rawCommand("\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB")),
		"hello 2^63":               join(rawGreeting, rawReady, rawLength(0, 1<<63)),
		"hello 8 GiB":              join(rawGreeting, rawReady, rawLength(0, 8<<30)),
		"hello is garbage":         join(rawGreeting, rawReady, rawFrame(0, "\xc1\xc1\xc1")),
		"hello nested":             join(rawGreeting, rawReady, deep),
		"hello is data":            join(rawGreeting, rawReady, rawData(1, []byte("x"), nil)),
		"hello with more":          join(rawGreeting, rawReady, rawFrame(frameMore, string(rawHello(nil)[2:]))),
		"hello of the future":      join(rawGreeting, rawReady, rawHello(func(e *session.Envelope) { e.Greeting.ProtocolMin, e.Greeting.ProtocolMax = 7, 9 })),
		"data 2^63":                join(hello, rawFrame(frameMore, string(session.AppendData(nil, 1, 0, false))), rawLength(0, 1<<63)),
		"data 2^64-1":              join(hello, rawFrame(frameMore, string(session.AppendData(nil, 1, 0, false))), rawLength(0, 1<<64-1)),
		"data 8 GiB":               join(hello, rawFrame(frameMore, string(session.AppendData(nil, 1, 0, false))), rawLength(0, 8<<30)),
		"body 8 GiB":               join(hello, rawFrame(frameMore, string(session.AppendData(nil, 1, 0, false))), rawFrame(frameMore, "head"), rawLength(0, 8<<30)),
		"four frames":              join(hello, rawFrame(frameMore, string(session.AppendData(nil, 1, 0, false))), rawFrame(frameMore, "a"), rawFrame(frameMore, "b"), rawFrame(0, "c")),
		"command 8 GiB":            join(hello, rawLength(frameCommand, 8<<30)),
		"command with more":        join(hello, rawFrame(frameCommand|frameMore, "\x04PING\x00\x00")),
		"ping with long context":   join(hello, rawCommand("\x04PING\x00\x00"+strings.Repeat("x", 17))),
		"ping without ttl":         join(hello, rawCommand("\x04PING")),
		"gap":                      join(hello, rawData(2, []byte("x"), nil)),
		"data alone":               join(hello, rawFrame(0, string(session.AppendData(nil, 1, 0, false)))),
		"ack with more":            join(hello, rawFrame(frameMore, "\x93\x04\x00\x00"), rawFrame(0, "x")),
		"second hello":             join(hello, rawHello(nil)),
		"unknown flags":            join(hello, []byte{0x80, 0}),
		"envelope above its limit": join(hello, rawFrame(frameMore, strings.Repeat("x", session.MaxEnvelope+1))),
	}
}

// rawDial connects without any protocol.
func rawDial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", strings.TrimPrefix(addr, "ipc://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// allocated is what the process has ever allocated, in bytes.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Each attack ends with its connection closed, allocates little, and leaves an
// honest link as it was.
func TestAttacksEndTheirOwnConnectionOnly(t *testing.T) {
	hub, leaf := newRecorder(), newRecorder()
	addr := "ipc://" + socketFolder(t) + "/s"
	cfg := config(t, self("controller", "c", 1), hub)
	cfg.Log = cfg.Log.Level(6) // refusals are expected here
	listenTest(t, addr, cfg)
	honest := dialTest(t, addr, config(t, self("agent", "honest", 1), leaf))
	hub.next(t, "up")
	for name, bytes := range attacks() {
		before := allocated()
		c := rawDial(t, addr)
		if _, err := c.Write(bytes); err != nil && !strings.Contains(err.Error(), "broken pipe") {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: the connection stays open: %v", name, err)
		}
		if grown := allocated() - before; grown > 2<<20 {
			t.Errorf("%s: allocated %d bytes", name, grown)
		}
		if err := honest.Send([]byte(name), nil); err != nil {
			t.Fatalf("%s: honest link: %v", name, err)
		}
		for {
			if m := hub.next(t, "message"); m.link.Peer().Name == "honest" {
				break
			}
		}
	}
}

// A frame may claim what is allowed and never send it: memory follows the
// bytes, not the claim.
func TestClaimedSizeIsNotAllocated(t *testing.T) {
	hub := newRecorder()
	addr := "ipc://" + socketFolder(t) + "/s"
	listenTest(t, addr, config(t, self("controller", "c", 1), hub))
	before := allocated()
	for range 20 {
		c := rawDial(t, addr)
		claim := join(rawGreeting, rawReady, rawHello(nil), rawFrame(frameMore, string(session.AppendData(nil, 1, 0, false))), rawLength(0, 60<<20))
		if _, err := c.Write(append(claim, make([]byte, 100_000)...)); err != nil {
			t.Fatal(err)
		}
		hub.next(t, "up")
	}
	if grown := allocated() - before; grown > 20*(1<<20) {
		t.Errorf("20 connections that claim 60 MiB each allocated %d bytes", grown)
	}
}

// The same attacks from the listening side.
func TestDialerSurvivesHostileListener(t *testing.T) {
	for name, bytes := range attacks() {
		path := socketFolder(t) + "/s"
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = c.Write(bytes)         // the dialer may hang up first
			_, _ = io.Copy(io.Discard, c) // until it does
		}()
		cfg := config(t, self("agent", "a", 1), newRecorder())
		if link, err := Dial(t.Context(), "ipc://"+path, cfg); err == nil {
			t.Errorf("%s: dial succeeded", name)
			link.Close()
		}
		l.Close()
		<-served
	}
}

func TestSilentConnectionsDelayNobody(t *testing.T) {
	hub, leaf := newRecorder(), newRecorder()
	addr := "ipc://" + socketFolder(t) + "/s"
	cfg := config(t, self("controller", "c", 1), hub)
	cfg.HandshakeTimeout, cfg.Log = time.Hour, cfg.Log.Level(6) // only the bound on their number helps
	listenTest(t, addr, cfg)
	for i := range 1000 {
		c := rawDial(t, addr)
		part := [][]byte{nil, rawGreeting[:11], join(rawGreeting, rawReady[:5])}[i%3]
		if _, err := c.Write(part); err != nil && !strings.Contains(err.Error(), "broken pipe") {
			t.Fatal(err)
		}
	}
	l := dialTest(t, addr, config(t, self("agent", "a", 1), leaf))
	if err := l.Send([]byte("x"), nil); err != nil {
		t.Fatal(err)
	}
	hub.next(t, "message")
}

func TestSlowHandshakeMeetsItsDeadline(t *testing.T) {
	ready := rawCommand("\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x01x\x00\x00\x0e\x00" + strings.Repeat("x", 0xe00))
	drip := join(rawGreeting, ready, rawHello(nil))
	patient, hasty := newRecorder(), newRecorder()
	cfg := config(t, self("controller", "c", 1), patient)
	addr := "ipc://" + socketFolder(t) + "/s"
	listenTest(t, addr, cfg)
	if _, err := rawDial(t, addr).Write(drip); err != nil {
		t.Fatal(err)
	}
	patient.next(t, "up") // it is a good handshake
	cfg.Handler, cfg.HandshakeTimeout, cfg.Log = hasty, 100*time.Millisecond, cfg.Log.Level(6)
	addr = "ipc://" + socketFolder(t) + "/s"
	listenTest(t, addr, cfg)
	c := rawDial(t, addr)
	dripped := 0
	for ; dripped < len(drip); dripped++ { // one byte each few milliseconds: all of them take a hundred times as long as there is
		if _, err := c.Write(drip[dripped : dripped+1]); err != nil {
			break
		}
		time.Sleep(3 * time.Millisecond)
	}
	if dripped == len(drip) {
		t.Error("the slow peer got through")
	}
}

func TestSilentHandshakeInProcessMeetsItsDeadline(t *testing.T) {
	cfg := config(t, self("controller", "c", 1), newRecorder())
	cfg.Inproc, cfg.HandshakeTimeout, cfg.Log = NewInproc(), 20*time.Millisecond, cfg.Log.Level(6)
	listenTest(t, "inproc://x", cfg)
	c, err := cfg.Inproc.dial("x")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.Copy(io.Discard, c); err != nil { // ends when the listener hangs up
		t.Error(err)
	}
	if err := c.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("write after the end")
	}
}

func TestSilentPeerIsGivenUp(t *testing.T) {
	hub := newRecorder()
	addr := "ipc://" + socketFolder(t) + "/s"
	cfg := config(t, self("controller", "c", 1), hub)
	cfg.HeartbeatEvery, cfg.HeartbeatTimeout = 10*time.Millisecond, 50*time.Millisecond
	listenTest(t, addr, cfg)
	c := rawDial(t, addr)
	if _, err := c.Write(join(rawGreeting, rawReady, rawHello(nil))); err != nil {
		t.Fatal(err)
	}
	if d := hub.next(t, "down"); !strings.Contains(d.err.Error(), ErrSilent.Error()) {
		t.Errorf("down: %v", d.err)
	}
	all, err := io.ReadAll(c)
	if err != nil || !bytes.Contains(all, []byte("\x04PING")) {
		t.Errorf("no PING before (%v)", err)
	}
}

// A client that has no thread to answer with is sent no PING and may be silent, while
// others are given up, agents above all.
func TestQuietPeerIsLeftAlone(t *testing.T) {
	hub := newRecorder()
	addr := "ipc://" + socketFolder(t) + "/s"
	cfg := config(t, self("controller", "c", 1), hub)
	cfg.HeartbeatEvery, cfg.HeartbeatTimeout = 10*time.Millisecond, 50*time.Millisecond
	listenTest(t, addr, cfg)
	connect := func(role, name string, features ...string) net.Conn {
		c := rawDial(t, addr)
		hello := rawHello(func(e *session.Envelope) {
			e.Greeting.Role, e.Greeting.Name, e.Greeting.Features = role, name, features
		})
		if _, err := c.Write(join(rawGreeting, rawReady, hello)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	quiet := connect("client", "quiet", FeatureQuiet)
	connect("client", "other")
	connect("agent", "a1", FeatureQuiet) // that it knows of quiet clients makes it none
	down := map[string]bool{}
	for range 2 {
		down[hub.next(t, "down").link.Peer().Name] = true
	}
	if !down["other"] || !down["a1"] {
		t.Errorf("given up: %v", down)
	}
	if _, err := quiet.Write(rawData(1, []byte("still here"), nil)); err != nil {
		t.Fatal(err)
	}
	l := hub.next(t, "message").link
	if err := l.Send([]byte("the end"), nil); err != nil {
		t.Fatal(err)
	}
	l.Abort(errors.New("enough"))
	all, err := io.ReadAll(quiet)
	if err != nil || bytes.Contains(all, []byte("\x04PING")) {
		t.Errorf("it was sent %q (%v)", all, err)
	}
}

// FuzzHandshake feeds arbitrary bytes to the guard in front of zmq4 and to the
// link behind it.
func FuzzHandshake(f *testing.F) {
	for _, a := range attacks() {
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		near, far := newInprocPair("fuzz")
		if len(data) > 200<<10 {
			return
		}
		if _, err := far.Write(data); err != nil {
			t.Fatal(err)
		}
		far.out.close(false) // nothing more comes
		if openZMTP(near, true) != nil {
			return
		}
		w := newWire(near)
		if _, err := w.greeting(session.Hello); err != nil {
			return
		}
		l := newLink(Config{MaxMessage: 1 << 20, MaxBody: 1 << 20, QueueMessages: 1, QueueBytes: 1, Handler: newRecorder()}, false, 1)
		w.l = l
		if err := l.read(w); err == nil {
			t.Error("read ended without an error")
		}
		l.cancel()
	})
}
