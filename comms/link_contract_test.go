package comms

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/cascade-run/cascade/comms/memnet"
)

// The contract of links, checked on the real link and on the in-memory
// network alike. Node 0 dials, node 1 listens. Messages carry who sent them
// (incarnation) and their number among what that sender's sends accepted.

// world is something that carries messages between two nodes.
type world interface {
	send(side int, v uint64) error
	cut()
	restart(side int)
	settle() // returns when both are linked and nothing is under way
	log(side int) []logged
	close()
}

// logged is an event as a node's current incarnation saw it.
type logged struct {
	what    string // up, message, down
	resumed bool
	v       uint64
}

func TestContract(t *testing.T) {
	for name, build := range map[string]func() world{"link": newLinkWorld, "memnet": newMemWorld} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkContract(t, build()) })
		})
	}
}

func checkContract(t *rapid.T, w world) {
	defer w.close()
	incarnation, accepted := [2]uint64{1, 1}, [2]uint64{}
	restarts := 0
	send := func(side int) error {
		err := w.send(side, incarnation[side]<<32|(accepted[side]+1))
		if err == nil {
			accepted[side]++
		} else if !errors.Is(err, ErrFull) && !errors.Is(err, ErrClosed) {
			t.Fatalf("send: %v", err)
		}
		return err
	}
	w.settle()
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		switch rapid.SampledFrom([]string{"send", "send", "cut", "restart", "settle"}).Draw(t, "step") {
		case "send":
			side := rapid.IntRange(0, 1).Draw(t, "side")
			for range rapid.IntRange(1, 40).Draw(t, "messages") {
				if send(side) != nil {
					break
				}
			}
		case "cut":
			w.cut()
		case "restart":
			side := rapid.IntRange(0, 1).Draw(t, "side")
			checkLog(t, w.log(side), incarnation[1-side])
			w.restart(side)
			restarts++
			incarnation[side]++
			accepted[side] = 0
		case "settle":
			w.settle()
		}
	}
	w.settle()
	for side := range 2 {
		if err := send(side); err != nil {
			t.Fatalf("side %d, with all settled: %v", side, err)
		}
	}
	w.settle()
	for side := range 2 {
		log, peer := w.log(side), 1-side
		checkLog(t, log, incarnation[peer])
		count, last := uint64(0), uint64(0)
		for _, e := range log {
			if e.what == "message" {
				count, last = count+1, e.v
			}
		}
		if want := incarnation[peer]<<32 | accepted[peer]; last != want {
			t.Fatalf("side %d: last message %x, want %x", side, last, want)
		}
		if restarts == 0 && count != accepted[peer] {
			t.Fatalf("side %d: %d messages, %d were accepted", side, count, accepted[peer])
		}
	}
}

// checkLog checks what one incarnation of a node saw.
func checkLog(t *rapid.T, log []logged, newest uint64) {
	up, fresh, last := false, false, uint64(0)
	for i, e := range log {
		switch e.what {
		case "up":
			if up || (i == 0 && e.resumed) {
				t.Fatalf("event %d: up while up, or resumed from nothing", i)
			}
			up, fresh = true, fresh || !e.resumed
		case "down":
			up = false
		case "message":
			switch {
			case !up:
				t.Fatalf("event %d: message %x on a link that is down", i, e.v)
			case e.v <= last:
				t.Fatalf("event %d: message %x after %x", i, e.v, last)
			case !fresh && e.v != last+1:
				t.Fatalf("event %d: message %x after %x: a gap without a new incarnation", i, e.v, last)
			case e.v>>32 > newest:
				t.Fatalf("event %d: message of incarnation %d, which never was", i, e.v>>32)
			}
			last, fresh = e.v, false
		}
	}
}

// linkWorld is the real link, over inproc.
type linkWorld struct {
	inproc *Inproc
	nodes  [2]*linkNode
	ln     *Listener
}

// linkNode is one incarnation of a node.
type linkNode struct {
	cfg  Config
	mu   sync.Mutex
	seen []logged
	link *Link
}

func (n *linkNode) add(l *Link, e logged) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link = l
	n.seen = append(n.seen, e)
}

func (n *linkNode) Up(l *Link, _ Identity, resumed bool) {
	n.add(l, logged{what: "up", resumed: resumed})
}
func (n *linkNode) Message(l *Link, head, _ []byte) {
	n.add(l, logged{what: "message", v: binary.BigEndian.Uint64(head)})
}
func (n *linkNode) Credit(*Link)          {}
func (n *linkNode) Down(l *Link, _ error) { n.add(l, logged{what: "down"}) }

func (n *linkNode) current() *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.link
}

func newLinkWorld() world {
	w := &linkWorld{inproc: NewInproc()}
	w.start(1, 1)
	w.start(0, 1)
	return w
}

func (w *linkWorld) start(side int, incarnation uint64) {
	n := &linkNode{}
	n.cfg = Config{Self: self("node", fmt.Sprint(side), incarnation), Handler: n, Inproc: w.inproc, Replay: true,
		QueueMessages: 30, AckDelay: time.Millisecond, RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond, Log: zerolog.New(io.Discard)}
	w.nodes[side] = n
	var err error
	if side == 1 {
		w.ln, err = Listen("inproc://contract", n.cfg)
	} else {
		var l *Link
		l, err = Dial(context.Background(), "inproc://contract", n.cfg)
		n.mu.Lock()
		n.link = l
		n.mu.Unlock()
	}
	if err != nil {
		panic(err)
	}
}

func (w *linkWorld) send(side int, v uint64) error {
	l := w.nodes[side].current()
	if l == nil {
		return ErrClosed // nobody has dialed this incarnation yet
	}
	return l.Send(binary.BigEndian.AppendUint64(nil, v), nil)
}

func (w *linkWorld) cut() { cut(w.nodes[0].current()) }

func (w *linkWorld) restart(side int) {
	n := w.nodes[side]
	if side == 1 {
		if err := crash(w.ln); err != nil {
			panic(err)
		}
	} else {
		l := n.current()
		l.end(ErrClosed)
		<-l.Done()
	}
	w.start(side, n.cfg.Self.Incarnation+1)
}

func (w *linkWorld) settle() {
	for !w.quiet() {
		time.Sleep(100 * time.Microsecond) // polls a state that has no event of its own
	}
}

// quiet says whether both ends hold the same connection and nothing unacknowledged.
func (w *linkWorld) quiet() bool {
	a, b := w.nodes[0].current(), w.nodes[1].current()
	if a == nil || b == nil || a.session != b.session {
		return false
	}
	var held [2]int
	var peers [2]uint64
	for i, l := range []*Link{a, b} {
		l.mu.Lock()
		if l.wire == nil || l.ended != nil {
			held[i]++
		}
		held[i] += l.out.Len()
		peers[i] = l.peer.Incarnation
		l.mu.Unlock()
	}
	for i, n := range w.nodes {
		n.mu.Lock()
		if len(n.seen) == 0 || n.seen[len(n.seen)-1].what == "down" {
			held[i]++
		}
		n.mu.Unlock()
	}
	return held == [2]int{} && peers == [2]uint64{w.nodes[1].cfg.Self.Incarnation, w.nodes[0].cfg.Self.Incarnation}
}

func (w *linkWorld) log(side int) []logged {
	n := w.nodes[side]
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]logged(nil), n.seen...)
}

func (w *linkWorld) close() {
	l := w.nodes[0].current()
	l.end(ErrClosed)
	<-l.Done()
	if err := crash(w.ln); err != nil {
		panic(err)
	}
}

// memWorld is the in-memory network.
type memWorld struct {
	net  *memnet.Net[uint64]
	now  time.Duration
	seen [2][]logged
}

func newMemWorld() world {
	net, err := memnet.New(memnet.Config[uint64]{
		Seed: 7, Replay: true, QueueMessages: 30, Window: 5, MinDelay: time.Millisecond, MaxDelay: 50 * time.Millisecond,
		Encode: func(v uint64) ([]byte, []byte, error) { return binary.BigEndian.AppendUint64(nil, v), nil, nil },
		Decode: func(head, _ []byte) (uint64, error) { return binary.BigEndian.Uint64(head), nil },
	})
	if err != nil {
		panic(err)
	}
	w := &memWorld{net: net}
	net.Start(0, "1")
	net.Start(0, "0")
	w.connect()
	return w
}

func (w *memWorld) connect() {
	if err := w.net.Connect(w.now, "0", "1"); err != nil {
		panic(err)
	}
}

func (w *memWorld) send(side int, v uint64) error {
	w.run(w.now + time.Millisecond)
	err := w.net.Send(w.now, fmt.Sprint(side), fmt.Sprint(1-side), v)
	if errors.Is(err, memnet.ErrNoLink) {
		return ErrClosed
	}
	return err
}

func (w *memWorld) cut() { w.net.Cut(w.now, "0", "1") }

func (w *memWorld) restart(side int) {
	w.net.Restart(w.now, fmt.Sprint(side))
	w.seen[side] = nil
	if side == 0 {
		w.connect()
	}
}

func (w *memWorld) settle() {
	for !w.net.Idle() {
		w.run(w.now + time.Millisecond)
	}
}

// run records what happens until a time.
func (w *memWorld) run(until time.Duration) {
	for {
		at, d, ok := w.net.Next(until)
		w.now = at
		if !ok {
			return
		}
		if d.Err != nil || strings.Contains(d.Kind.String(), "kind") {
			panic(fmt.Sprint("delivery ", d))
		}
		if d.Kind != memnet.Credit {
			side := int(d.To[0] - '0')
			w.seen[side] = append(w.seen[side], logged{d.Kind.String(), d.Resumed, d.Msg})
		}
	}
}

func (w *memWorld) log(side int) []logged { return w.seen[side] }
func (w *memWorld) close()                {}
