package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/comms/pki"
	"github.com/cascade-run/cascade/dag"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func copyNo(i int) Copy {
	return Copy{Data: comms.DatasetID{DatasetRef: comms.DatasetRef{Task: dag.TaskIndex(i)}}, Attempt: 1}
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = r.Read(b) // never fails
	return b
}

func config(t testing.TB, name string) Config {
	return Config{
		Self:   comms.Identity{Role: "agent", Name: name, Incarnation: 1, PID: os.Getpid(), Build: "test"},
		Listen: "tcp://127.0.0.1:0", InsecureTestNetwork: true,
		Tuning: Tuning{Chunk: 64 << 10, Stripe: 1 << 20, Connections: 3, Backoff: time.Millisecond},
		Log:    zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.ErrorLevel),
	}
}

func exchange(t testing.TB, cfg Config) *Exchange {
	t.Helper()
	x, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func (x *Exchange) source() Source { return Source{Agent: x.cfg.Self.Name, At: x.Addr()} }

func pull(t testing.TB, x *Exchange, c Copy, into []byte, from ...Source) <-chan Ended {
	t.Helper()
	ended := make(chan Ended, 2)
	if err := x.Pull(c, into, from, func(e Ended) { ended <- e }); err != nil {
		t.Fatal(err)
	}
	return ended
}

// patience only keeps a failing test from hanging.
const patience = 4 * time.Minute

func wait[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("nothing came within %v", patience)
		panic("unreachable")
	}
}

func same(t testing.TB, who string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s has other bytes", who)
	}
}

func TestPull(t *testing.T) {
	for _, n := range []int{0, 1, 64 << 10, 64<<10 + 1, 5<<20 + 7} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			a, b := exchange(t, config(t, "a")), exchange(t, config(t, "b"))
			want, got := noise(n), make([]byte, n)
			if err := a.Offer(copyNo(1), want); err != nil {
				t.Fatal(err)
			}
			e := wait(t, pull(t, b, copyNo(1), got, a.source()))
			if e.Err != nil || e.Bytes != uint64(n) || e.Copy != copyNo(1) {
				t.Fatalf("%+v", e)
			}
			same(t, "b", got, want)
			if s := b.Stats(); s.Pulls != 1 || s.BytesIn != uint64(n) || s.Again != 0 || s.Pulling != 0 {
				t.Errorf("%+v", s)
			}
			if err := b.Offer(copyNo(1), got); !errors.Is(err, ErrBusy) {
				t.Errorf("offered twice: %v", err)
			}
		})
	}
}

// members of one cluster, by name.
func members(t testing.TB, names ...string) map[string]*comms.Security {
	t.Helper()
	a, err := pki.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*comms.Security{}
	for _, name := range names {
		m, err := a.Enrol(pki.RoleAgent, name, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = &comms.Security{Member: m}
	}
	return out
}

func TestBroadcastOverTLS(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	secure := members(t, names...)
	var xs []*Exchange
	for _, name := range names {
		cfg := config(t, name)
		cfg.InsecureTestNetwork, cfg.Security = false, secure[name]
		xs = append(xs, exchange(t, cfg))
	}
	want := noise(4 << 20)
	if err := xs[0].Offer(copyNo(1), want); err != nil {
		t.Fatal(err)
	}
	got := make([][]byte, len(xs))
	ends := make([]<-chan Ended, len(xs))
	for i, x := range xs[1:] {
		got[i] = make([]byte, len(want))
		ends[i] = pull(t, x, copyNo(1), got[i], xs[0].source())
	}
	for i := range xs[1:] {
		if e := wait(t, ends[i]); e.Err != nil {
			t.Fatal(e.Err)
		}
		same(t, names[i+1], got[i], want)
	}
	for i, x := range xs {
		if err := x.Close(); err != nil { // what the kernel has taken is counted by now
			t.Error(err)
		}
		if s := x.Stats(); s.BytesOut > uint64(len(want)) {
			t.Errorf("%s sent %d bytes of %d", names[i], s.BytesOut, len(want))
		}
	}
}

// Names are proven: an agent cannot be taken for another.
func TestWrongAgent(t *testing.T) {
	cfg := config(t, "b")
	cfg.Tuning.Tries = 1
	a, b := exchange(t, config(t, "a")), exchange(t, cfg)
	e := wait(t, pull(t, b, copyNo(1), make([]byte, 8), Source{Agent: "c", At: a.Addr()}))
	if !errors.Is(e.Err, ErrNoSource) || !strings.Contains(e.Err.Error(), "agent c was expected at "+a.Addr()+", and agent a answers") {
		t.Error(e.Err)
	}
}

// cutting breaks links of an Exchange.
func (x *Exchange) cut() int {
	x.mu.Lock()
	var links []*comms.Link
	for _, c := range x.conns {
		links = append(links, c.link)
	}
	x.mu.Unlock()
	for _, l := range links {
		l.Abort(errors.New("cut"))
	}
	return len(links)
}

// What arrived before a break is not asked for again.
func TestResume(t *testing.T) {
	cfg := config(t, "b")
	cfg.Tuning.Tries = 100
	a, b := exchange(t, config(t, "a")), exchange(t, cfg)
	const n = 64 << 20
	want, got := noise(n), make([]byte, n)
	if err := a.Offer(copyNo(1), want); err != nil {
		t.Fatal(err)
	}
	ended := pull(t, b, copyNo(1), got, a.source())
	for cuts := 0; cuts < 3; {
		if s := b.Stats(); s.BytesIn > uint64(cuts)*n/8 && s.Pulls == 0 {
			cuts++
			b.cut()
		} else if s.Pulls > 0 {
			break
		}
	}
	e := wait(t, ended)
	if e.Err != nil || e.Bytes != n {
		t.Fatalf("%+v", e)
	}
	same(t, "b", got, want)
}

func TestCancel(t *testing.T) {
	a, b, c := exchange(t, config(t, "a")), exchange(t, config(t, "b")), exchange(t, config(t, "c"))
	const n = 64 << 20
	want, got, gotC := noise(n), make([]byte, n), make([]byte, n)
	if err := a.Offer(copyNo(1), want); err != nil {
		t.Fatal(err)
	}
	ended := pull(t, b, copyNo(1), got, a.source())
	for b.Stats().BytesIn == 0 {
		time.Sleep(time.Millisecond)
	}
	behind := pull(t, c, copyNo(1), gotC, a.source()) // from b, as far as b lives
	order := make(chan string, 2)
	b.Withdraw(copyNo(1), func() { order <- "released" })
	e := wait(t, ended)
	if e.Err != nil && !errors.Is(e.Err, ErrCancelled) {
		t.Fatal(e.Err)
	}
	wait(t, order)
	clear(got) // nobody looks any more: the race detector would tell
	if e := wait(t, behind); e.Err != nil {
		t.Fatal(e.Err)
	}
	same(t, "c", gotC, want)
	b.Withdraw(copyNo(9), func() { order <- "nothing" })
	if got := wait(t, order); got != "nothing" {
		t.Error(got)
	}
}

// An offer's memory is free once it is withdrawn, though somebody is in the middle
// of fetching it, who then hears why it failed.
func TestWithdraw(t *testing.T) {
	a, b := exchange(t, config(t, "a")), exchange(t, config(t, "b"))
	want, got := noise(32<<20), make([]byte, 32<<20)
	if err := a.Offer(copyNo(1), want); err != nil {
		t.Fatal(err)
	}
	ended := pull(t, b, copyNo(1), got, a.source())
	for b.Stats().BytesIn == 0 {
		time.Sleep(time.Millisecond)
	}
	released := make(chan struct{})
	a.Withdraw(copyNo(1), func() { close(released) })
	wait(t, released)
	clear(want)
	if e := wait(t, ended); e.Err != nil && !strings.Contains(e.Err.Error(), "a: it ") { // gave it up, or has none when asked again
		t.Error(e.Err)
	}
}

func TestCloseEndsPulls(t *testing.T) {
	a, b := exchange(t, config(t, "a")), exchange(t, config(t, "b"))
	want := noise(32 << 20)
	if err := a.Offer(copyNo(1), want); err != nil {
		t.Fatal(err)
	}
	ended := pull(t, b, copyNo(1), make([]byte, len(want)), a.source())
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	select {
	case e := <-ended:
		if e.Err != nil && !errors.Is(e.Err, ErrClosed) {
			t.Error(e.Err)
		}
	default:
		t.Error("Close returned before done was called")
	}
	if err := b.Pull(copyNo(2), nil, nil, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// liar serves a copy whose bytes are wrong in the n-th piece that it sends, or of
// which the n-th piece is cut.
type liar struct {
	bytes []byte
	wrong int
	cut   int
	keeps int          // bytes of the piece that is cut
	sent  atomic.Int64 // pieces; the reader of an old link may still be at work when the next link is up
}

func (*liar) Up(*comms.Link, comms.Identity, bool) {}
func (*liar) Credit(*comms.Link)                   {}
func (*liar) Down(*comms.Link, error)              {}

func (s *liar) Message(l *comms.Link, head, _ []byte) {
	m, err := comms.Decode(head)
	if err != nil {
		panic(err)
	}
	switch m := m.(type) {
	case *comms.Want:
		s.send(l, &comms.Serve{Transfer: m.Transfer}, nil)
		s.piece(l, m.Transfer, m.First, m.Bytes)
	case *comms.Pull:
		s.piece(l, m.Transfer, m.Offset, m.Bytes)
	}
}

func (s *liar) piece(l *comms.Link, transfer, offset, n uint64) {
	body := bytes.Clone(s.bytes[offset : offset+n])
	p := &comms.Piece{Transfer: transfer, Offset: offset, Sum: sum(body)}
	sent := int(s.sent.Add(1))
	if sent == s.wrong {
		body[0]++
	}
	if sent == s.cut {
		body = body[:s.keeps]
		p.Sum = sum(body)
	}
	s.send(l, p, body)
}

func (s *liar) send(l *comms.Link, m comms.Message, body []byte) {
	if err := l.Send(comms.Encode(m), body); err != nil && !errors.Is(err, comms.ErrClosed) {
		panic(err)
	}
}

// startLiar makes a source of l, and the configuration of who asks it.
func startLiar(t *testing.T, l *liar) (Source, Config) {
	cfg := config(t, "liar")
	ln, err := comms.Listen(cfg.Listen, comms.Config{Self: cfg.Self, Handler: l, InsecureTestNetwork: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
	})
	asker := config(t, "b")
	asker.Log = zerolog.Nop()
	asker.Tuning.Stripe = 1 << 30 // the liar is no match for two links
	return Source{Agent: "liar", At: ln.Addr()}, asker
}

// A piece of another size than was asked for ends the link, and is asked for again over the next.
func TestWrongSize(t *testing.T) {
	for _, keeps := range []int{0, 100} {
		t.Run(fmt.Sprintf("%d bytes", keeps), func(t *testing.T) {
			want := noise(1 << 20)
			lies, cfg := startLiar(t, &liar{bytes: want, cut: 3, keeps: keeps})
			got := make([]byte, len(want))
			b := exchange(t, cfg)
			if e := wait(t, pull(t, b, copyNo(1), got, lies)); e.Err != nil {
				t.Fatal(e.Err)
			}
			same(t, "b", got, want)
			if s := b.Stats(); s.Again == 0 || s.Corrupt != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A piece with a wrong checksum is fetched again: from another source, or the same if there is none.
func TestWrongChecksum(t *testing.T) {
	for _, other := range []bool{true, false} {
		t.Run(fmt.Sprintf("other source %t", other), func(t *testing.T) {
			want := noise(1 << 20)
			lies, cfg := startLiar(t, &liar{bytes: want, wrong: 3})
			a, b := exchange(t, config(t, "a")), exchange(t, cfg)
			if err := a.Offer(copyNo(1), want); err != nil {
				t.Fatal(err)
			}
			from := []Source{lies}
			if other {
				from = append(from, a.source())
			}
			got := make([]byte, len(want))
			if e := wait(t, pull(t, b, copyNo(1), got, from...)); e.Err != nil {
				t.Fatal(e.Err)
			}
			same(t, "b", got, want)
			if s := b.Stats(); s.Corrupt != 1 && !other || s.Corrupt > 1 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Only agents may ask.
func TestStrangers(t *testing.T) {
	a := exchange(t, config(t, "a"))
	_, err := comms.Dial(context.Background(), a.Addr(), comms.Config{
		Self: comms.Identity{Role: "client", Name: "c", Incarnation: 1}, Handler: &liar{}, InsecureTestNetwork: true})
	if !errors.Is(err, comms.ErrRefused) {
		t.Error(err)
	}
	cfg := config(t, "b")
	cfg.Self.Role = "client"
	if _, err := New(cfg); err == nil {
		t.Error("a client moves datasets")
	}
}

// Who is revoked while he is served is served no more.
func TestRevokedIsServedNoMore(t *testing.T) {
	secure := members(t, "a", "b")
	var revoked atomic.Bool
	secure["a"].Revoked = func(string) bool { return revoked.Load() }
	var xs []*Exchange
	for _, name := range []string{"a", "b"} {
		cfg := config(t, name)
		cfg.InsecureTestNetwork, cfg.Security = false, secure[name]
		xs = append(xs, exchange(t, cfg))
	}
	want, got := noise(1000), make([]byte, 1000)
	for i := range 2 {
		if err := xs[0].Offer(copyNo(i), want); err != nil {
			t.Fatal(err)
		}
	}
	if e := wait(t, pull(t, xs[1], copyNo(0), got, xs[0].source())); e.Err != nil {
		t.Fatal(e.Err)
	}
	revoked.Store(true)
	xs[0].Recheck(time.Now())
	for began := time.Now(); xs[0].Stats().Links > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("the link stays")
		}
	}
	if e := wait(t, pull(t, xs[1], copyNo(1), got, xs[0].source())); e.Err == nil {
		t.Error("who is revoked was served")
	}
}

// Who is revoked while others fetch from him is asked no more: his side was dialed,
// and its certificate is looked at again all the same.
func TestRevokedIsAskedNoMore(t *testing.T) {
	secure := members(t, "a", "b")
	var revoked atomic.Bool
	secure["b"].Revoked = func(string) bool { return revoked.Load() }
	var xs []*Exchange
	for _, name := range []string{"a", "b"} {
		cfg := config(t, name)
		cfg.InsecureTestNetwork, cfg.Security = false, secure[name]
		xs = append(xs, exchange(t, cfg))
	}
	if err := xs[0].Offer(copyNo(0), noise(1000)); err != nil {
		t.Fatal(err)
	}
	if e := wait(t, pull(t, xs[1], copyNo(0), make([]byte, 1000), xs[0].source())); e.Err != nil {
		t.Fatal(e.Err)
	}
	if n := xs[1].Stats().Links; n == 0 {
		t.Fatal("there is no link to look at")
	}
	revoked.Store(true)
	xs[1].Recheck(time.Now())
	for began := time.Now(); xs[1].Stats().Links > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("the link to him stays")
		}
	}
}
