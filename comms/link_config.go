package comms

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/cascade-run/cascade/comms/internal/session"
	"github.com/cascade-run/cascade/comms/pki"
)

// The range of link protocols that this build speaks.
const (
	LinkProtocolMin = 1
	LinkProtocolMax = 1
)

// Errors of links.
var (
	// ErrFull says that a link's outbound bound is reached. Nothing was queued;
	// a Credit event follows when there is room.
	ErrFull = session.ErrFull
	// ErrClosed says that the link has ended and will not come back.
	ErrClosed = errors.New("link closed")
	// ErrTooLarge says that a message is larger than one of the two ends accepts.
	ErrTooLarge = errors.New("message too large")
	// ErrEpoch says that the peer is no longer the one that a message was for.
	ErrEpoch = errors.New("the peer has changed")
	// ErrSilent says that a peer was quiet for longer than HeartbeatTimeout.
	ErrSilent = errors.New("peer is silent")
	// ErrRefused says that one side will not talk to the other; trying again is useless.
	ErrRefused = errors.New("link refused")
	// errPeerClosed says that the peer closed in good order.
	errPeerClosed = errors.New("closed by the peer")
	// ErrSuperseded says that a newer process of the peer's name took over.
	ErrSuperseded = errors.New("superseded")
)

// Identity says who is at one end of a link. It travels in Hello and Welcome.
type Identity struct {
	Role        string // client, controller, agent or executor
	Name        string // unique within the role, such as the agent's ID
	Incarnation uint64 // of this process; must grow with every start of the same name
	PID         int
	Build       string   // version of the program
	Features    []string // optional abilities, at most 64

	// Grant is what the peer may do, as its transport proves it: the role of its
	// certificate, or admin for who shares our process or our user. Holder is the
	// name in the certificate, "" without one. Neither travels.
	Grant  pki.Role
	Holder string
}

// Handler receives what happens on links. Its methods are called one at a time
// from the goroutine that reads the link, in the order of events, and must not
// block for long: while they run nothing is read. Credit alone may also come
// from the link's writing goroutine, beside the others. No method is called
// from inside Send, Queue or Flush, nor after the link's Done is closed.
type Handler interface {
	// Up says that the link can carry messages. When resumed is false the peer
	// is a new incarnation, or has forgotten us: what was queued or
	// unacknowledged before is gone and numbering starts anew.
	Up(l *Link, peer Identity, resumed bool)
	// Message hands over one message. The receiver owns head and body; body is
	// nil when the message has none.
	Message(l *Link, head, body []byte)
	// Credit says that a queue that had refused a message has room again.
	Credit(l *Link)
	// Down says that the connection broke. When err matches ErrClosed the link
	// has ended for good; otherwise it will be Up again or end. It is not
	// called for the owner's own Close.
	Down(l *Link, err error)
}

// Pauser is a Handler that has work of its own to do in the goroutine that reads
// a link, once what has arrived is handed over: another goroutine would have to
// be woken for it.
type Pauser interface {
	Handler
	// Pause is called, like the methods of Handler, before each wait for more from
	// the peer, and perhaps at other times. Messages that it sends leave before the wait.
	Pause(l *Link)
}

// FeatureQuiet is the feature of a client without a thread of its own for its link: it
// answers a PING when its program looks at the link. Listeners with the feature send
// such a client none, and take its silence for nothing; its connection ends when it does.
// Of peers that are no clients it says only that they know it: an agent that is silent is lost.
const FeatureQuiet = "quiet"

// How long a peer may be silent before its connection is broken.
const (
	DefaultSilence = 10 * time.Second
	LeastSilence   = time.Second // that a user may choose: with less a busy host counts as gone
)

// CheckSilence says what is wrong with a HeartbeatTimeout that a user chose; 0 is the default.
func CheckSilence(d time.Duration) error {
	if d != 0 && d < LeastSilence {
		return fmt.Errorf("a silence of %v after which links break: want %v or more, or 0 for the default of %v", d, LeastSilence, DefaultSilence)
	}
	return nil
}

// Config says how links behave. Both ends should agree on Replay.
type Config struct {
	Self    Identity
	Handler Handler
	// Inproc holds the names that can be reached inside this process; nil for none.
	Inproc *Inproc
	// Replay keeps messages until they are acknowledged and goes on after a
	// broken connection. Without it a break is final.
	Replay bool

	MaxMessage int64 // bytes of a head that are accepted; 0 means 64 MiB
	MaxBody    int64 // bytes of a body that are accepted; 0 means 64 MiB
	// BodyBuffer, when set, provides the memory into which a body of size bytes
	// is read, such as a lease in shared memory. Nil from it means that the
	// link allocates. It is called from the reading goroutine; when the
	// connection breaks before the body is whole, no Message follows.
	BodyBuffer func(l *Link, head []byte, size int) []byte

	// Sent, when set, is called for each body that the kernel has taken: its memory is
	// not read any more. It is called in the order of the Sends, from the link's
	// writing goroutine and never from within Send, and not for bodies that are left
	// when the link ends. Only links without Replay have it.
	Sent func(l *Link, body []byte)

	QueueBytes    int // bound of a link's outbound queue; 0 means 32 MiB
	QueueMessages int // bound of a link's outbound queue; 0 means 16384

	HandshakeTimeout time.Duration // from connect to Welcome; 0 means 5 s
	MaxHandshakes    int           // handshakes in progress; beyond it the oldest is dropped; 0 means 256
	HeartbeatEvery   time.Duration // 0 means a fifth of HeartbeatTimeout, negative none
	HeartbeatTimeout time.Duration // silence after which a connection is broken; 0 means 5 x HeartbeatEvery, or DefaultSilence
	CloseTimeout     time.Duration // bound of Close; 0 means 2 s
	ResumeWindow     time.Duration // how long the listening side waits for a broken link; 0 means 60 s
	AckDelay         time.Duration // an acknowledgement waits this long for a message to ride on; 0 means 20 ms
	RetryMin         time.Duration // first pause of the dialing side's reconnects; 0 means 5 ms
	RetryMax         time.Duration // longest pause; 0 means 1 s

	// Pipes makes a dialed Unix socket carry the link through two pipes, which is
	// quicker between processes that sleep; a listener takes them from peers that do.
	Pipes bool

	// CheckPeer may refuse a peer after its greeting. uid is -1 where the
	// transport does not tell it. Unix sockets have required our own uid before.
	CheckPeer func(peer Identity, uid int) error
	// Security is needed for TCP: every connection is TLS with certificates.
	Security *Security
	// InsecureTestNetwork permits plain TCP, whose peers are all taken for admins.
	InsecureTestNetwork bool
	Log                 zerolog.Logger
}

// withDefaults returns cfg with every unset field filled, or what is wrong with it.
func (cfg Config) withDefaults() (Config, error) {
	if cfg.Handler == nil {
		return cfg, errors.New("link configuration: Handler is nil")
	}
	cfg.MaxMessage = cmp.Or(cfg.MaxMessage, 64<<20)
	cfg.MaxBody = cmp.Or(cfg.MaxBody, 64<<20)
	cfg.QueueBytes = cmp.Or(cfg.QueueBytes, 32<<20)
	cfg.QueueMessages = cmp.Or(cfg.QueueMessages, 16384)
	cfg.HandshakeTimeout = cmp.Or(cfg.HandshakeTimeout, 5*time.Second)
	cfg.MaxHandshakes = cmp.Or(cfg.MaxHandshakes, 256)
	cfg.HeartbeatEvery = cmp.Or(cfg.HeartbeatEvery, cmp.Or(cfg.HeartbeatTimeout, DefaultSilence)/5)
	cfg.HeartbeatTimeout = cmp.Or(cfg.HeartbeatTimeout, 5*cfg.HeartbeatEvery)
	cfg.CloseTimeout = cmp.Or(cfg.CloseTimeout, 2*time.Second)
	cfg.ResumeWindow = cmp.Or(cfg.ResumeWindow, time.Minute)
	cfg.AckDelay = cmp.Or(cfg.AckDelay, 20*time.Millisecond)
	cfg.RetryMin = cmp.Or(cfg.RetryMin, 5*time.Millisecond)
	cfg.RetryMax = cmp.Or(cfg.RetryMax, time.Second)
	for _, n := range []int64{cfg.MaxMessage, cfg.MaxBody, int64(cfg.QueueBytes), int64(cfg.QueueMessages), int64(cfg.MaxHandshakes)} {
		if n < 0 {
			return cfg, fmt.Errorf("link configuration: negative bound %d", n)
		}
	}
	if cfg.Replay && cfg.Sent != nil {
		return cfg, errors.New("link configuration: Sent and Replay exclude each other: what may be sent again is never let go")
	}
	g := cfg.greeting()
	if err := g.Validate(); err != nil {
		return cfg, fmt.Errorf("link configuration: %w", err)
	}
	return cfg, nil
}

// greeting describes this side.
func (cfg *Config) greeting() session.Greeting {
	return session.Greeting{
		ProtocolMin: LinkProtocolMin, ProtocolMax: LinkProtocolMax,
		Role: cfg.Self.Role, Name: cfg.Self.Name, Incarnation: cfg.Self.Incarnation,
		PID: int64(cfg.Self.PID), Build: cfg.Self.Build, Features: cfg.Self.Features,
		Replay: cfg.Replay, MaxHead: uint64(cfg.MaxMessage), MaxBody: uint64(cfg.MaxBody),
	}
}

// identityOf reads the identity out of a peer's greeting.
func identityOf(g *session.Greeting, proven credential) Identity {
	return Identity{Role: g.Role, Name: g.Name, Incarnation: g.Incarnation, PID: int(g.PID), Build: g.Build, Features: g.Features, Grant: proven.role, Holder: proven.name}
}

// checkGreeting says whether we can talk to the sender of g at all.
func (cfg *Config) checkGreeting(g *session.Greeting, proven credential) error {
	if g.ProtocolMax < LinkProtocolMin || g.ProtocolMin > LinkProtocolMax {
		return fmt.Errorf("link protocol: %s %s (build %s) speaks %d to %d, we speak %d to %d; use builds that overlap",
			g.Role, g.Name, g.Build, g.ProtocolMin, g.ProtocolMax, LinkProtocolMin, LinkProtocolMax)
	}
	if g.Replay != cfg.Replay {
		return fmt.Errorf("%s %s has replay %t, we have %t: the two ends belong to different kinds of link", g.Role, g.Name, g.Replay, cfg.Replay)
	}
	if err := proven.vouches(g); err != nil {
		return err
	}
	if cfg.CheckPeer == nil {
		return nil
	}
	return cfg.CheckPeer(identityOf(g, proven), proven.uid)
}
