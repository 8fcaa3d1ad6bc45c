package comms

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/go-zeromq/zmq4"
)

// zmq4's Conn trusts what it reads, in the handshake already: 73 bytes that
// claim a frame of 2^62 end the process, short metadata makes it slice out of
// range, and an unknown or missing socket type makes it panic. So it sees the
// wire only through a guard, which reads greeting and READY itself, checks
// every length and the socket type, and only then hands over the greeting and
// a READY of its own that says no more than the type. It never reads beyond
// the peer's READY: what follows belongs to the link.
const (
	greetingSize      = 64
	handshakeFrameMax = 4 << 10
)

// errHandshake is wrapped by every refusal of the guard.
var errHandshake = errors.New("ZMTP handshake refused")

// guard is the net.Conn that zmq4 sees during greeting and handshake.
type guard struct {
	net.Conn
	peers   []string // socket types that may talk to us
	pending []byte   // checked, not yet read by zmq4
	stage   int      // 0 greeting, 1 READY, 2 over
}

// Read hands out checked bytes.
func (g *guard) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(g.pending) == 0 {
		if err := g.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, g.pending)
	g.pending = g.pending[n:]
	return n, nil
}

func (g *guard) fill() (err error) {
	switch g.stage {
	case 0:
		g.pending, err = readGreeting(g.Conn)
	case 1:
		var body []byte
		var kind string
		if body, err = readReady(g.Conn); err == nil {
			kind, err = checkReady(body, g.peers)
		}
		property := binary.BigEndian.AppendUint32([]byte("\x0bSocket-Type"), uint32(len(kind)))
		g.pending = appendCommand(nil, zmq4.CmdReady, append(property, kind...))
	default:
		return fmt.Errorf("%w: read after READY", errHandshake)
	}
	g.stage++
	return err
}

// readGreeting reads the 64 bytes of a greeting. The first byte is judged at
// once, so that a peer that speaks another protocol learns it without waiting.
func readGreeting(r io.Reader) ([]byte, error) {
	b := make([]byte, greetingSize)
	if _, err := io.ReadFull(r, b[:1]); err != nil {
		return nil, fmt.Errorf("read greeting: %w", err)
	}
	if b[0] != 0xff {
		return nil, fmt.Errorf("%w: the peer does not speak ZMTP (first byte %#02x)", errHandshake, b[0])
	}
	if _, err := io.ReadFull(r, b[1:]); err != nil {
		return nil, fmt.Errorf("read greeting: %w", err)
	}
	if b[9] != 0x7f || b[10] < 3 {
		return nil, fmt.Errorf("%w: signature byte %#02x, version %d; version 3 or later is needed", errHandshake, b[9], b[10])
	}
	return b, nil
}

// readReady reads one command frame and returns its body.
func readReady(r io.Reader) ([]byte, error) {
	b := make([]byte, frameHeaderMax, 256)
	if _, err := io.ReadFull(r, b[:2]); err != nil {
		return nil, fmt.Errorf("read READY: %w", err)
	}
	size := uint64(b[1])
	switch b[0] {
	case frameCommand:
	case frameCommand | frameLong:
		if _, err := io.ReadFull(r, b[2:frameHeaderMax]); err != nil {
			return nil, fmt.Errorf("read READY: %w", err)
		}
		size = binary.BigEndian.Uint64(b[1:])
	default:
		return nil, fmt.Errorf("%w: frame with flags %#02x instead of READY", errHandshake, b[0])
	}
	if size > handshakeFrameMax {
		return nil, fmt.Errorf("%w: frame of %d bytes, the limit is %d", errHandshake, size, handshakeFrameMax)
	}
	b = make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("read READY: %w", err)
	}
	return b, nil
}

// checkReady requires the command READY with whole properties and nothing
// after them, and returns the peer's socket type, one of peers. Names of
// properties are compared without regard to case, as ZMTP asks.
func checkReady(body []byte, peers []string) (kind string, err error) {
	const name = "\x05READY"
	if len(body) < len(name) || string(body[:len(name)]) != name {
		if len(body) > 6 && string(body[:6]) == "\x05ERROR" {
			return "", fmt.Errorf("%w: the peer reports %q", errHandshake, body[6:])
		}
		return "", fmt.Errorf("%w: command other than READY", errHandshake)
	}
	for p := body[len(name):]; len(p) > 0; {
		n := int(p[0])
		if n == 0 || len(p) < 1+n+4 {
			return "", fmt.Errorf("%w: metadata name of %d bytes with %d left", errHandshake, n, len(p)-1)
		}
		key, size := string(p[1:1+n]), uint64(binary.BigEndian.Uint32(p[1+n:]))
		if p = p[1+n+4:]; size > uint64(len(p)) {
			return "", fmt.Errorf("%w: metadata value of %d bytes with %d left", errHandshake, size, len(p))
		}
		if strings.EqualFold(key, "Socket-Type") {
			if kind != "" {
				return "", fmt.Errorf("%w: two socket types", errHandshake)
			}
			kind = string(p[:size])
		}
		p = p[size:]
	}
	if !slices.Contains(peers, kind) {
		return "", fmt.Errorf("%w: the peer is a %.20q socket, want one of %q", errHandshake, kind, peers)
	}
	return kind, nil
}

// openZMTP does greeting and handshake over c with mechanism NULL and returns
// when both sides may send messages. We are ROUTER where we listen and DEALER
// where we dial. The caller sets the deadline.
func openZMTP(c net.Conn, server bool) error {
	kind, peers := zmq4.Dealer, []string{"ROUTER", "DEALER"}
	if server {
		kind, peers = zmq4.Router, []string{"DEALER", "ROUTER"}
	}
	if _, err := zmq4.Open(&guard{Conn: c, peers: peers}, nullMechanism{}, kind, nil, server, nil); err != nil {
		return fmt.Errorf("ZMTP handshake: %w", err)
	}
	return nil
}

// nullMechanism is ZMTP's NULL: READY each way, no encryption. (zmq4's own
// lives in a package that cannot be given a guard's expectations.)
type nullMechanism struct{}

func (nullMechanism) Type() zmq4.SecurityType { return zmq4.NullSecurity }

func (nullMechanism) Handshake(c *zmq4.Conn, _ bool) error {
	meta, err := c.Meta.MarshalZMTP()
	if err != nil {
		return fmt.Errorf("encode READY: %w", err)
	}
	if err := c.SendCmd(zmq4.CmdReady, meta); err != nil {
		return fmt.Errorf("send READY: %w", err)
	}
	ready, err := c.RecvCmd()
	if err != nil {
		return err
	}
	if err := c.Peer.Meta.UnmarshalZMTP(ready.Body); err != nil {
		return fmt.Errorf("decode READY: %w", err)
	}
	return nil
}

func (nullMechanism) Encrypt(w io.Writer, p []byte) (int, error) { return w.Write(p) }
func (nullMechanism) Decrypt(w io.Writer, p []byte) (int, error) { return w.Write(p) }
