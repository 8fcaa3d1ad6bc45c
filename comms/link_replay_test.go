package comms

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cascade-run/cascade/comms/internal/session"
)

// pair is a listener and a dialed link with replay, on a Unix socket.
type pair struct {
	hub, leaf   *recorder
	hubCfg, cfg Config
	addr        string
	ln          *Listener
	near, far   *Link // dialed and accepted
}

func newPair(t *testing.T, change func(hub, leaf *Config)) *pair {
	t.Helper()
	p := &pair{hub: newRecorder(), leaf: newRecorder(), addr: "ipc://" + socketFolder(t) + "/s"}
	p.hubCfg, p.cfg = config(t, self("controller", "c", 1), p.hub), config(t, self("agent", "a", 1), p.leaf)
	p.hubCfg.Replay, p.cfg.Replay = true, true
	if change != nil {
		change(&p.hubCfg, &p.cfg)
	}
	p.ln = listenTest(t, p.addr, p.hubCfg)
	p.near = dialTest(t, p.addr, p.cfg)
	p.far = p.hub.next(t, "up").link
	p.leaf.next(t, "up")
	return p
}

// cut breaks the connection under a link, as a network would.
func cut(l *Link) {
	l.mu.Lock()
	w := l.wire
	l.mu.Unlock()
	if w != nil {
		w.fail(errors.New("cut by the test"))
	}
}

// crash ends a listener and its links without a word to their peers.
func crash(ln *Listener) error {
	return ln.shut(func(l *Link) error {
		l.end(ErrClosed)
		<-l.Done()
		return nil
	})
}

// numbers checks that messages 1, 2, 3 ... arrive, each once.
type numbers struct {
	t    *testing.T
	last uint64
	end  uint64
	done chan struct{}
}

func (n *numbers) take(h happening) {
	if h.what != "message" {
		return
	}
	v := binary.BigEndian.Uint64(h.head)
	if v != n.last+1 {
		n.t.Errorf("message %d after %d", v, n.last)
	}
	if n.last = v; v == n.end {
		close(n.done)
	}
}

// sendNumbers sends 1 to end, waiting for credit when the queue is full.
func sendNumbers(l *Link, credit <-chan struct{}, end uint64) {
	r := rand.New(rand.NewPCG(1, end))
	for v := uint64(1); v <= end; {
		var body []byte
		if r.IntN(50) == 0 {
			body = make([]byte, r.IntN(100_000))
		}
		send := l.Send
		if r.IntN(3) == 0 && v != end {
			send = l.Queue
		}
		if send(binary.BigEndian.AppendUint64(nil, v), body) == nil {
			v++
			continue
		}
		l.Flush()
		<-credit
	}
}

func TestEachMessageOnceThroughBreaks(t *testing.T) {
	const end = 20_000
	credit := map[*recorder]chan struct{}{}
	var both []*numbers
	p := newPair(t, func(hub, leaf *Config) {
		hub.QueueMessages, leaf.QueueMessages = 200, 300
		for _, c := range []*Config{hub, leaf} {
			r, n, ch := c.Handler.(*recorder), &numbers{t: t, end: end, done: make(chan struct{})}, make(chan struct{}, 1)
			both, credit[r] = append(both, n), ch
			r.react = func(h happening) {
				n.take(h)
				if h.what == "credit" {
					select {
					case ch <- struct{}{}:
					default:
					}
				}
			}
		}
	})
	var senders sync.WaitGroup
	senders.Go(func() { sendNumbers(p.near, credit[p.leaf], end) })
	senders.Go(func() { sendNumbers(p.far, credit[p.hub], end) })
	for i := range 20 {
		p.hub.count(t, "message", 200)
		cut([]*Link{p.near, p.far}[i%2])
		if up := p.hub.next(t, "up"); !up.resumed || up.link != p.far {
			t.Errorf("break %d: resumed %t", i, up.resumed)
		}
	}
	senders.Wait()
	for _, n := range both {
		<-n.done
	}
	s := p.near.Stats()
	if s.Connections < 20 {
		t.Errorf("stats %+v", s)
	}
	t.Logf("dialing side: %+v", s)
}

func TestQueuedWhileBrokenArrivesLater(t *testing.T) {
	p := newPair(t, nil)
	p.leaf.react = func(h happening) {
		if h.what == "down" { // between the break and the reconnect
			if err := h.link.Send([]byte("meanwhile"), nil); err != nil {
				t.Error(err)
			}
		}
	}
	cut(p.near)
	if m := p.hub.next(t, "message"); string(m.head) != "meanwhile" {
		t.Errorf("got %q", m.head)
	}
	if up := p.leaf.next(t, "up"); !up.resumed {
		t.Error("not resumed")
	}
}

func TestNewListenerIncarnationStartsAnew(t *testing.T) {
	p := newPair(t, nil)
	if err := crash(p.ln); err != nil {
		t.Fatal(err)
	}
	p.leaf.next(t, "down")
	if err := p.near.Send([]byte("to the dead"), nil); err != nil {
		t.Fatal(err)
	}
	p.hubCfg.Self.Incarnation = 2
	listenTest(t, p.addr, p.hubCfg)
	if up := p.leaf.next(t, "up"); up.resumed || up.peer.Incarnation != 2 {
		t.Errorf("leaf: %+v", up)
	}
	if up := p.hub.next(t, "up"); up.resumed || up.link == p.far {
		t.Errorf("hub: %+v", up)
	}
	if err := p.near.QueueIn(1, []byte("meant for the dead"), nil); !errors.Is(err, ErrEpoch) {
		t.Errorf("message of an old epoch: %v", err)
	}
	if err := p.near.QueueIn(p.near.Epoch(), []byte("to the living"), nil); err != nil {
		t.Fatal(err)
	}
	p.near.Flush()
	if m := p.hub.next(t, "message"); string(m.head) != "to the living" {
		t.Errorf("got %q", m.head)
	}
}

func TestNewDialerIncarnationSupersedes(t *testing.T) {
	p := newPair(t, nil)
	if err := p.far.Send([]byte("for the old one"), nil); err != nil {
		t.Fatal(err)
	}
	p.cfg.Self.Incarnation = 5
	second := dialTest(t, p.addr, p.cfg)
	if d := p.hub.next(t, "down"); !errors.Is(d.err, ErrClosed) || !errors.Is(d.err, ErrSuperseded) || d.link != p.far {
		t.Errorf("old link: %v", d.err)
	}
	if up := p.hub.next(t, "up"); up.resumed || up.peer.Incarnation != 5 {
		t.Errorf("new link: %+v", up)
	}
	// The old process tries to come back and is refused for good.
	for {
		d := p.leaf.next(t, "down")
		if errors.Is(d.err, ErrClosed) {
			if d.link != p.near || !errors.Is(d.err, ErrRefused) || !strings.Contains(d.err.Error(), "newer process") {
				t.Errorf("old dialer: %v", d.err)
			}
			break
		}
	}
	if err := second.Send([]byte("new"), nil); err != nil {
		t.Error(err)
	}
	p.hub.next(t, "message")
}

func TestOneProcessMayHaveSeveralLinks(t *testing.T) {
	p := newPair(t, nil)
	second := dialTest(t, p.addr, p.cfg)
	p.hub.next(t, "up")
	for _, l := range []*Link{p.near, second} {
		if err := l.Send([]byte("x"), nil); err != nil {
			t.Error(err)
		}
		p.hub.next(t, "message")
	}
}

func TestPeerThatNeverReturnsExpires(t *testing.T) {
	p := newPair(t, func(hub, _ *Config) { hub.ResumeWindow = 50 * time.Millisecond })
	p.near.end(ErrClosed) // without a farewell
	if d := p.hub.next(t, "down"); errors.Is(d.err, ErrClosed) {
		t.Errorf("break: %v", d.err)
	}
	if d := p.hub.next(t, "down"); !errors.Is(d.err, ErrClosed) || !strings.Contains(d.err.Error(), "did not come back") {
		t.Errorf("expiry: %v", d.err)
	}
	<-p.far.Done()
}

func TestBreakWithoutReplayIsFinal(t *testing.T) {
	p := newPair(t, func(hub, leaf *Config) { hub.Replay, leaf.Replay = false, false })
	cut(p.far)
	for _, r := range []*recorder{p.hub, p.leaf} {
		if d := r.next(t, "down"); !errors.Is(d.err, ErrClosed) {
			t.Errorf("down: %v", d.err)
		}
	}
	<-p.near.Done()
	<-p.far.Done()
	if err := p.near.Send(nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("send: %v", err)
	}
}

func TestAbortEndsBothSides(t *testing.T) {
	p := newPair(t, nil)
	p.near.Abort(errors.New("nonsense received"))
	if d := p.leaf.next(t, "down"); !errors.Is(d.err, ErrClosed) || !strings.Contains(d.err.Error(), "nonsense") {
		t.Errorf("own side: %v", d.err)
	}
	<-p.near.Done()
	p.hub.next(t, "down")
	p.far.Abort(errors.New("gave up")) // while it waits for its peer
	if d := p.hub.next(t, "down"); !errors.Is(d.err, ErrClosed) {
		t.Errorf("waiting side: %v", d.err)
	}
}

// A link whose peer is connected is not ended as broken; one that waits for its peer is.
func TestAbortBroken(t *testing.T) {
	p := newPair(t, nil)
	if p.far.AbortBroken(errors.New("gone")) || p.near.AbortBroken(errors.New("gone")) {
		t.Fatal("a link that has a connection was ended as broken")
	}
	p.near.Abort(errors.New("its process ends"))
	p.hub.next(t, "down")
	if !p.far.AbortBroken(errors.New("gone")) {
		t.Fatal("a broken link was not ended")
	}
	if d := p.hub.next(t, "down"); !errors.Is(d.err, ErrClosed) || !strings.Contains(d.err.Error(), "gone") {
		t.Errorf("waiting side: %v", d.err)
	}
	if p.far.AbortBroken(errors.New("gone")) {
		t.Error("a link was ended twice")
	}
}

func TestRefusals(t *testing.T) {
	p := newPair(t, func(hub, _ *Config) {
		hub.CheckPeer = func(id Identity, uid int) error {
			if id.Name == "mallory" {
				return errors.New("mallory is not welcome")
			}
			if uid < 0 {
				return errors.New("no uid")
			}
			return nil
		}
	})
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"by name":  {func(c *Config) { c.Self.Name = "mallory" }, "not welcome"},
		"by kind":  {func(c *Config) { c.Replay = false }, "different kinds of link"},
		"no name":  {func(c *Config) { c.Self.Name = "" }, "must not be empty"},
		"no hands": {func(c *Config) { c.Handler = nil }, "Handler is nil"},
	} {
		cfg := p.cfg
		c.change(&cfg)
		if _, err := Dial(t.Context(), p.addr, cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestFullQueueRefusesAndGivesCredit(t *testing.T) {
	for _, replay := range []bool{false, true} {
		gate := make(chan struct{})
		var once sync.Once
		p := newPair(t, func(hub, leaf *Config) {
			hub.Replay, leaf.Replay = replay, replay
			leaf.QueueMessages, leaf.HeartbeatEvery, hub.HeartbeatEvery = 50, -1, -1
			hub.Handler.(*recorder).react = func(h happening) {
				if h.what == "message" {
					once.Do(func() { <-gate }) // the peer does not read
				}
			}
		})
		sent, body := 0, make([]byte, 64<<10)
		var err error
		for err == nil {
			if err = p.near.Send([]byte("x"), body); err == nil {
				sent++
			}
		}
		if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		if s := p.near.Stats(); s.Queued > 50 || sent > 100 {
			t.Errorf("replay %t: %d sent, %+v", replay, sent, s)
		}
		close(gate)
		p.leaf.next(t, "credit")
		if err := p.near.Send([]byte("x"), body); err != nil {
			t.Errorf("after credit: %v", err)
		}
		p.hub.count(t, "message", sent+1)
	}
}

func TestCloseDrains(t *testing.T) {
	for _, replay := range []bool{false, true} {
		p := newPair(t, func(hub, leaf *Config) {
			hub.Replay, leaf.Replay = replay, replay
			hub.CloseTimeout, leaf.CloseTimeout = patience, patience
		})
		const n = 2000
		for range n {
			if err := p.near.Queue(make([]byte, 5000), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.near.Close(); err != nil {
			t.Errorf("replay %t: %v", replay, err)
		}
		p.hub.count(t, "message", n)
		if d := p.hub.next(t, "down"); !errors.Is(d.err, ErrClosed) {
			t.Errorf("down: %v", d.err)
		}
	}
}

// What a peer sent before it died is received, although writing to it fails.
func TestLastWordsAreHeard(t *testing.T) {
	for range 20 {
		p := newPair(t, func(hub, leaf *Config) { hub.Replay, leaf.Replay = false, false })
		const n = 100
		for range n {
			if err := p.near.Queue([]byte("last words"), nil); err != nil {
				t.Fatal(err)
			}
		}
		written(p.near)
		p.near.end(ErrClosed) // as a process that exits
		for p.far.Send([]byte("are you there?"), nil) == nil {
			if p.far.Stats().Queued > 0 {
				break // the break is noticed
			}
		}
		p.hub.count(t, "message", n)
		p.hub.next(t, "down")
	}
}

// written flushes until the kernel has all: Flush alone leaves it to whoever
// writes at that moment.
func written(l *Link) {
	for busy := true; busy; runtime.Gosched() {
		l.Flush()
		l.mu.Lock()
		busy = l.wire.writing || l.out.Unsent() > 0
		l.mu.Unlock()
	}
}

func TestStuckPeerDelaysNobody(t *testing.T) {
	p := newPair(t, nil)
	_, _, _ = rawConnect(t, p.addr, session.Greeting{ProtocolMin: 1, ProtocolMax: 1, Role: "agent", Name: "stuck", Incarnation: 1,
		Session: 1, Replay: true, MaxHead: 1 << 20, MaxBody: 1 << 20}, 0) // and never reads again
	stuck := p.hub.next(t, "up").link
	before := allocated()
	big := make([]byte, 1<<20)
	for stuck.Send(nil, big) == nil {
	}
	for range 1000 {
		if err := stuck.Send(nil, big); !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		if err := p.far.Send([]byte("ping"), nil); err != nil {
			t.Fatal(err)
		}
		p.leaf.next(t, "message")
	}
	if grown := allocated() - before; grown > 16<<20 {
		t.Errorf("allocated %d bytes", grown)
	}
}

func TestDialGivesUpWithItsContext(t *testing.T) {
	path := socketFolder(t) + "/s"
	l, err := net.Listen("unix", path) // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, "ipc://"+path, config(t, self("agent", "a", 1), newRecorder())); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial: %v", err)
	}
}

func TestTooLargeIsRefusedBeforeItIsSent(t *testing.T) {
	p := newPair(t, func(hub, _ *Config) { hub.MaxMessage, hub.MaxBody = 1000, 2000 })
	if err := p.near.Send(make([]byte, 1001), nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("head: %v", err)
	}
	if err := p.near.Send(nil, make([]byte, 2001)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("body: %v", err)
	}
	if err := p.near.Send(make([]byte, 1000), make([]byte, 2000)); err != nil {
		t.Error(err)
	}
	p.hub.next(t, "message")
}

func TestBodiesLandWhereTheReceiverSays(t *testing.T) {
	lease := make([]byte, 1<<20)
	p := newPair(t, func(hub, _ *Config) {
		hub.BodyBuffer = func(_ *Link, head []byte, size int) []byte {
			if string(head) == "leased" {
				return lease
			}
			return nil
		}
	})
	for _, head := range []string{"leased", "free"} {
		if err := p.near.Send([]byte(head), []byte("0123456789")); err != nil {
			t.Fatal(err)
		}
		m := p.hub.next(t, "message")
		if string(m.body) != "0123456789" || (&m.body[0] == &lease[0]) != (head == "leased") {
			t.Errorf("%s: body %q", head, m.body)
		}
	}
}

// Another process is killed: its link goes down at once, and with it nothing else.
func TestKilledProcess(t *testing.T) {
	hub := newRecorder()
	addr := "ipc://" + socketFolder(t) + "/s"
	listenTest(t, addr, config(t, self("agent", "a", 1), hub))
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CASCADE_LINK_CHILD="+addr)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	up := hub.next(t, "up")
	if up.peer.PID != cmd.Process.Pid {
		t.Errorf("peer says it is process %d, it is %d", up.peer.PID, cmd.Process.Pid)
	}
	if err := up.link.Send([]byte("hello"), nil); err != nil {
		t.Error(err)
	}
	hub.next(t, "message")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if d := hub.next(t, "down"); !errors.Is(d.err, ErrClosed) {
		t.Errorf("down: %v", d.err)
	}
	_ = cmd.Wait() // it was killed
}
