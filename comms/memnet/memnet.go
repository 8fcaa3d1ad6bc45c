package memnet

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cascade-run/cascade/comms/internal/session"
	"github.com/cascade-run/cascade/internal/eventqueue"
)

// Errors of Send.
var (
	// ErrFull says that the link's outbound bound is reached; Credit follows.
	ErrFull = session.ErrFull
	// ErrNoLink says that there is no link, or that it has ended.
	ErrNoLink = errors.New("no such link")
)

// Config describes a network. Times are virtual.
type Config[M any] struct {
	Seed   uint64
	Encode func(M) (head, body []byte, err error)
	Decode func(head, body []byte) (M, error)

	Replay        bool          // as in comms.Config
	QueueMessages int           // bound of a link's outbound queue; 0 means 16384
	QueueBytes    int           // bound of a link's outbound queue; 0 means 32 MiB
	Window        int           // messages in flight on one link and direction; 0 means 64
	MinDelay      time.Duration // of a message, a handshake, or the news of a break
	MaxDelay      time.Duration // 0 means MinDelay
	ResumeWindow  time.Duration // how long the listening side waits for a broken link; 0 means 60 s
	BreakEvery    time.Duration // mean time between random breaks of one link; 0 means none
	Silence       time.Duration // after which a side that hears nothing breaks the connection; 0 means 10 s
}

// Kind says what a Delivery is.
type Kind uint8

// The kinds of delivery; they mirror the methods of comms.Handler.
const (
	Up Kind = iota + 1
	Message
	Credit
	Down
)

// String returns the kind's name.
func (k Kind) String() string {
	if names := [...]string{"none", "up", "message", "credit", "down"}; int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Delivery is one event at node To about its link with node From.
type Delivery[M any] struct {
	Kind        Kind
	To, From    string
	Incarnation uint64 // Up: of From
	Resumed     bool   // Up: both go on where they were
	Final       bool   // Down: the link has ended
	Msg         M      // Message
	Err         error  // Message: it could not be decoded
}

// Net is the network. Use it from one goroutine.
type Net[M any] struct {
	cfg      Config[M]
	random   *rand.Rand
	now      time.Duration
	nodes    map[string]*node
	links    []*link // in order of creation
	byPair   map[[2]string]*link
	agenda   eventqueue.Agenda[step]
	sessions uint64        // how many began
	ready    []Delivery[M] // visible now, before anything on the agenda
}

type node struct {
	incarnation uint64
	running     bool
}

// link joins two nodes. ends[0] dialed, ends[1] listens.
type link struct {
	ends    [2]end
	blocked bool // no handshake succeeds
	muted   [2]mute
	session uint64
	trying  bool // a handshake is on the agenda
}

// end is one side of a link.
type end struct {
	name    string
	out     session.Outbox
	in      session.Inbox
	conn    *conn  // what this side believes in, nil when it knows of the break
	session uint64 // of the last handshake, 0 before
	peerInc uint64 // incarnation of the peer at that handshake
	acked   uint64
	ackDue  bool
	downs   uint64 // counts breaks, so that an old expiry does nothing
}

// mute says whether what one side sends arrives.
type mute struct {
	on    bool
	times uint64 // it was, so that the end of an earlier silence does nothing
}

// conn is one connection.
type conn struct {
	broken   bool
	inFlight [2]int
	latest   [2]time.Duration // arrival of the last frame to each end
	held     [2][]frame       // of each side, that would have arrived, had it not been muted
	unheard  [2]int           // frames of each side that have arrived, of which the other's word did not come back
}

// New makes a network without nodes.
func New[M any](cfg Config[M]) (*Net[M], error) {
	if cfg.Encode == nil || cfg.Decode == nil {
		return nil, errors.New("memnet: Encode and Decode must be set")
	}
	cfg.QueueMessages = cmp.Or(cfg.QueueMessages, 16384)
	cfg.QueueBytes = cmp.Or(cfg.QueueBytes, 32<<20)
	cfg.Window = cmp.Or(cfg.Window, 64)
	cfg.MaxDelay = max(cfg.MaxDelay, cfg.MinDelay)
	cfg.ResumeWindow = cmp.Or(cfg.ResumeWindow, time.Minute)
	cfg.Silence = cmp.Or(cfg.Silence, 10*time.Second)
	return &Net[M]{cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 0)), nodes: map[string]*node{}, byPair: map[[2]string]*link{}}, nil
}

// Start makes a node run, as a new incarnation.
func (n *Net[M]) Start(now time.Duration, name string) {
	n.advance(now)
	nd := n.nodes[name]
	if nd == nil {
		nd = &node{}
		n.nodes[name] = nd
	}
	if !nd.running {
		nd.running = true
		nd.incarnation++
	}
}

// Stop ends a node's process without a word: what it had queued is gone, and
// its peers notice after a while. Nothing is delivered to it any more.
func (n *Net[M]) Stop(now time.Duration, name string) {
	n.advance(now)
	nd := n.nodes[name]
	if nd == nil || !nd.running {
		return
	}
	nd.running = false
	kept := n.ready[:0]
	for _, d := range n.ready {
		if d.To != name {
			kept = append(kept, d)
		}
	}
	n.ready = kept
	for _, l := range n.links {
		for side := range l.ends {
			if l.ends[side].name != name {
				continue
			}
			c := l.ends[side].conn
			l.ends[side] = end{name: name}
			if c != nil {
				n.breakConn(l, c)
			}
			if side == 0 {
				l.session = 0 // neither side dials again
			}
		}
	}
}

// Restart is Stop and Start. Links that the node had dialed must be connected
// again; those that it had accepted come back by themselves.
func (n *Net[M]) Restart(now time.Duration, name string) {
	n.Stop(now, name)
	n.Start(now, name)
}

// Connect makes node from dial node to. The link is up when both have their Up.
func (n *Net[M]) Connect(now time.Duration, from, to string) error {
	n.advance(now)
	if nd := n.nodes[from]; nd == nil || !nd.running {
		return fmt.Errorf("memnet: connect %s to %s: %s does not run", from, to, from)
	}
	if from == to {
		return fmt.Errorf("memnet: connect %s to itself", from)
	}
	l, side := n.find(from, to)
	switch {
	case l == nil:
		l = &link{ends: [2]end{{name: from}, {name: to}}}
		n.links = append(n.links, l)
		n.byPair[pair(from, to)] = l
	case side != 0:
		return fmt.Errorf("memnet: connect %s to %s: they are linked the other way", from, to)
	case l.session != 0:
		return fmt.Errorf("memnet: connect %s to %s: they are linked", from, to)
	}
	n.sessions++
	l.session = n.sessions
	l.ends[0].out = n.outbox()
	n.tryLater(l)
	if n.cfg.BreakEvery > 0 {
		n.breakLater(l, l.session)
	}
	return nil
}

// Send queues a message from one node to another.
func (n *Net[M]) Send(now time.Duration, from, to string, msg M) error {
	n.advance(now)
	head, body, err := n.cfg.Encode(msg)
	if err != nil {
		return fmt.Errorf("memnet: %s to %s: encode: %w", from, to, err)
	}
	l, side := n.find(from, to)
	if l == nil || l.ends[side].session == 0 {
		return fmt.Errorf("memnet: %s to %s: %w", from, to, ErrNoLink)
	}
	if err := l.ends[side].out.Push(head, body); err != nil {
		return err
	}
	n.pump(l, side)
	return nil
}

// Break ends the connection of two nodes and keeps them apart until Heal.
func (n *Net[M]) Break(now time.Duration, a, b string) {
	n.advance(now)
	if l, _ := n.find(a, b); l != nil {
		l.blocked = true
		n.cut(l)
	}
}

// Heal lets two nodes connect again.
func (n *Net[M]) Heal(now time.Duration, a, b string) {
	n.advance(now)
	if l, _ := n.find(a, b); l != nil {
		l.blocked = false
	}
}

// Cut ends the connection of two nodes; the dialing side connects again by itself.
func (n *Net[M]) Cut(now time.Duration, a, b string) {
	n.advance(now)
	if l, _ := n.find(a, b); l != nil {
		n.cut(l)
	}
}

// Mute keeps the messages of one node from arriving at another until Unmute. Those of the
// other arrive, up to a window of them, as no acknowledgement comes back. As with TCP nothing
// in the middle is missing and nothing is out of order: it is late, or, when the silence
// has ended the connection, replayed on the next one or lost. There is no handshake meanwhile.
func (n *Net[M]) Mute(now time.Duration, from, to string) {
	n.advance(now)
	if l, side := n.find(from, to); l != nil && !l.muted[side].on {
		n.mute(l, side)
	}
}

// Unmute ends Mute.
func (n *Net[M]) Unmute(now time.Duration, from, to string) {
	n.advance(now)
	if l, side := n.find(from, to); l != nil && l.muted[side].on {
		n.unmute(l, side)
	}
}

// Next returns the next delivery that happens at or before until, with its
// time. False means that there is none: time is then until, and later calls
// must not be earlier.
func (n *Net[M]) Next(until time.Duration) (at time.Duration, d Delivery[M], ok bool) {
	for len(n.ready) == 0 {
		if due, ok := n.agenda.Due(); !ok || due > until {
			break
		}
		at, s := n.agenda.Take()
		n.now = max(n.now, at)
		s.do()
	}
	if len(n.ready) == 0 {
		n.now = max(n.now, until)
		return n.now, d, false
	}
	d, n.ready = n.ready[0], n.ready[1:]
	return n.now, d, true
}

// When returns the time of the next step, from which a delivery may come; false
// means that nothing is planned. A caller with an agenda of its own asks it, so
// that Next is never called for a time that its agenda has not reached.
func (n *Net[M]) When() (time.Duration, bool) {
	if len(n.ready) > 0 {
		return n.now, true
	}
	if due, ok := n.agenda.Due(); ok {
		return max(n.now, due), true
	}
	return 0, false
}

// Idle says that nothing will happen without a further call, random breaks and
// attempts to reach stopped nodes aside.
func (n *Net[M]) Idle() bool {
	for s := range n.agenda.All() {
		if s.background == nil || !s.background() {
			return false
		}
	}
	return len(n.ready) == 0
}

// Linked says whether from has a link to to, up or waiting to be resumed.
func (n *Net[M]) Linked(from, to string) bool {
	l, side := n.find(from, to)
	return l != nil && l.ends[side].session != 0
}

// Queued returns how many messages from holds for to.
func (n *Net[M]) Queued(from, to string) int {
	if l, side := n.find(from, to); l != nil {
		return l.ends[side].out.Len()
	}
	return 0
}

func (n *Net[M]) advance(now time.Duration) { n.now = max(n.now, now) }

func (n *Net[M]) outbox() session.Outbox {
	return session.NewOutbox(n.cfg.Replay, n.cfg.QueueBytes, n.cfg.QueueMessages)
}

// find returns the link of two nodes and the side that is a's.
func (n *Net[M]) find(a, b string) (*link, int) {
	l := n.byPair[pair(a, b)]
	if l == nil || l.ends[0].name == a {
		return l, 0
	}
	return l, 1
}

func pair(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

func (n *Net[M]) delay() time.Duration {
	return n.cfg.MinDelay + time.Duration(n.random.Int64N(int64(n.cfg.MaxDelay-n.cfg.MinDelay)+1))
}

func (n *Net[M]) emit(d Delivery[M]) {
	if nd := n.nodes[d.To]; nd != nil && nd.running {
		n.ready = append(n.ready, d)
	}
}
