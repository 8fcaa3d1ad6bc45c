package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Kind says what an envelope introduces. The numbers are the wire's.
type Kind uint8

// The kinds of envelope.
const (
	Hello   Kind = 1 // dialing side's first message
	Welcome Kind = 2 // listening side's answer to Hello
	Data    Kind = 3 // a message follows in one or two more frames
	Ack     Kind = 4 // an acknowledgement that found no message to ride on
	Close   Kind = 5 // the sender has sent all and leaves for good
	Refuse  Kind = 6 // the listening side will not talk to this peer; text says why
)

// MaxEnvelope bounds an encoded envelope, in bytes.
const MaxEnvelope = 16 << 10

// Limits of what a greeting may carry.
const (
	maxName     = 255
	maxFeatures = 64
	maxNesting  = 8
)

// ErrEnvelope is wrapped by every error of Decode.
var ErrEnvelope = errors.New("malformed envelope")

// Envelope is the first frame of every message of a link.
type Envelope struct {
	Kind     Kind
	Seq      uint64    // Data: number of this message, from 1; Close: number of the last one
	Ack      uint64    // highest number received from the peer, 0 for none
	WantAck  bool      // Data: the sender's buffer fills up, acknowledge soon
	Greeting *Greeting // Hello and Welcome
	Text     string    // Close and Refuse: the reason
}

// Greeting is what the two sides tell each other before any message.
type Greeting struct {
	ProtocolMin, ProtocolMax uint64
	Role, Name               string
	Incarnation              uint64 // grows with every start of the named process
	PID                      int64
	Build                    string
	Features                 []string
	Replay                   bool
	Session                  uint64 // chosen by the dialing side, tells its links apart
	Resume                   uint64 // Welcome: token of the listening side's half of the link; Hello: that of the last Welcome, 0 for none
	MaxHead, MaxBody         uint64 // bytes the sender of this greeting accepts
}

// AppendData appends the envelope of a message. It is the only envelope on the
// hot path and allocates nothing when b has room for 24 bytes.
func AppendData(b []byte, seq, ack uint64, wantAck bool) []byte {
	n := byte(0x93)
	if wantAck {
		n = 0x94
	}
	b = append(b, n, byte(Data))
	b = appendUint(b, seq)
	b = appendUint(b, ack)
	if wantAck {
		b = append(b, 1)
	}
	return b
}

// Append appends the encoding of e: a msgpack array of kind, seq, ack and the
// fields of the kind in the order of their declaration.
func (e *Envelope) Append(b []byte) []byte {
	switch e.Kind {
	case Data:
		return AppendData(b, e.Seq, e.Ack, e.WantAck)
	case Close, Refuse:
		b = append(b, 0x94, byte(e.Kind))
		b = appendUint(b, e.Seq)
		b = appendUint(b, e.Ack)
		return appendString(b, e.Text)
	case Hello, Welcome:
		return e.appendGreeting(b)
	default:
		b = appendUint(append(b, 0x93), uint64(e.Kind))
		b = appendUint(b, e.Seq)
		return appendUint(b, e.Ack)
	}
}

func (e *Envelope) appendGreeting(b []byte) []byte {
	g := e.Greeting
	b = append(b, 0xdc, 0, 16, byte(e.Kind))
	for _, v := range []uint64{e.Seq, e.Ack, g.ProtocolMin, g.ProtocolMax} {
		b = appendUint(b, v)
	}
	b = appendString(b, g.Role)
	b = appendString(b, g.Name)
	b = appendUint(b, g.Incarnation)
	b = appendUint(b, uint64(max(g.PID, 0)))
	b = appendString(b, g.Build)
	b = append(b, 0xdc)
	b = binary.BigEndian.AppendUint16(b, uint16(len(g.Features)))
	for _, f := range g.Features {
		b = appendString(b, f)
	}
	replay := uint64(0)
	if g.Replay {
		replay = 1
	}
	for _, v := range []uint64{replay, g.Session, g.Resume, g.MaxHead, g.MaxBody} {
		b = appendUint(b, v)
	}
	return b
}

// Validate says whether the greeting fits the wire's limits.
func (g *Greeting) Validate() error {
	for _, s := range []struct{ what, text string }{{"role", g.Role}, {"name", g.Name}, {"build", g.Build}} {
		if len(s.text) > maxName {
			return fmt.Errorf("%w: %s of %d bytes, the limit is %d", ErrEnvelope, s.what, len(s.text), maxName)
		}
	}
	if g.Role == "" || g.Name == "" {
		return fmt.Errorf("%w: role %q and name %q must not be empty", ErrEnvelope, g.Role, g.Name)
	}
	if len(g.Features) > maxFeatures {
		return fmt.Errorf("%w: %d features, the limit is %d", ErrEnvelope, len(g.Features), maxFeatures)
	}
	for _, f := range g.Features {
		if len(f) > maxName {
			return fmt.Errorf("%w: feature of %d bytes, the limit is %d", ErrEnvelope, len(f), maxName)
		}
	}
	if g.ProtocolMin > g.ProtocolMax {
		return fmt.Errorf("%w: protocol range %d to %d is empty", ErrEnvelope, g.ProtocolMin, g.ProtocolMax)
	}
	return nil
}

// Decode reads one envelope, which must fill p. Unknown kinds and unknown
// trailing fields are no error: the caller sees the kind and decides.
func Decode(p []byte) (Envelope, error) {
	var e Envelope
	if len(p) > MaxEnvelope {
		return e, fmt.Errorf("%w: %d bytes, the limit is %d", ErrEnvelope, len(p), MaxEnvelope)
	}
	r := reader{p: p}
	fields := r.array()
	kind := r.uint()
	if kind > math.MaxUint8 {
		return e, fmt.Errorf("%w: kind %d", ErrEnvelope, kind)
	}
	e.Kind = Kind(kind)
	e.Seq = r.uint()
	e.Ack = r.uint()
	if fields < 3 {
		return e, fmt.Errorf("%w: %d fields, at least 3 are needed", ErrEnvelope, fields)
	}
	read := 3
	switch e.Kind {
	case Data:
		if fields > 3 {
			e.WantAck = r.uint() != 0
			read++
		}
	case Close, Refuse:
		if fields > 3 {
			e.Text = r.string()
			read++
		}
	case Hello, Welcome:
		if fields < 16 {
			return e, fmt.Errorf("%w: greeting of %d fields, 16 are needed", ErrEnvelope, fields)
		}
		e.Greeting = r.greeting()
		read = 16
	}
	for ; read < fields && !r.bad; read++ {
		r.skip(0)
	}
	if r.bad {
		return e, fmt.Errorf("%w: kind %d cannot be read at byte %d of %d", ErrEnvelope, e.Kind, len(p)-len(r.p), len(p))
	}
	if len(r.p) > 0 {
		return e, fmt.Errorf("%w: %d bytes too many", ErrEnvelope, len(r.p))
	}
	if e.Greeting != nil {
		return e, e.Greeting.Validate()
	}
	return e, nil
}

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, 0xcc, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}

func appendString(b []byte, s string) []byte {
	if len(s) > math.MaxUint16 {
		s = s[:math.MaxUint16]
	}
	b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(s)))
	return append(b, s...)
}

// reader reads the few msgpack forms of envelopes. The first mistake sets bad
// and empties it, so that callers check once.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.p)) {
		r.bad, r.p = true, nil
		return nil
	}
	b := r.p[:n]
	r.p = r.p[n:]
	return b
}

// number reads n bytes, big-endian.
func (r *reader) number(n uint64) uint64 {
	v := uint64(0)
	for _, c := range r.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (r *reader) tag() byte { return byte(r.number(1)) }

func (r *reader) fail() { r.bad, r.p = true, nil }

func (r *reader) uint() uint64 {
	switch c := r.tag(); {
	case c < 0x80:
		return uint64(c)
	case c >= 0xcc && c <= 0xcf:
		return r.number(1 << (c - 0xcc))
	}
	r.fail()
	return 0
}

func (r *reader) array() int {
	switch c := r.tag(); {
	case c&0xf0 == 0x90:
		return int(c & 15)
	case c == 0xdc:
		return int(r.number(2))
	}
	r.fail() // a 32-bit array never fits an envelope
	return 0
}

func (r *reader) string() string {
	switch c := r.tag(); {
	case c&0xe0 == 0xa0:
		return string(r.take(uint64(c & 31)))
	case c == 0xd9:
		return string(r.take(r.number(1)))
	case c == 0xda:
		return string(r.take(r.number(2)))
	}
	r.fail()
	return ""
}

func (r *reader) greeting() *Greeting {
	g := &Greeting{ProtocolMin: r.uint(), ProtocolMax: r.uint(), Role: r.string(), Name: r.string(), Incarnation: r.uint()}
	pid := r.uint()
	if pid > math.MaxInt64 {
		r.fail()
	}
	g.PID = int64(pid)
	g.Build = r.string()
	n := r.array()
	for range min(n, len(r.p)) {
		g.Features = append(g.Features, r.string())
	}
	g.Replay = r.uint() != 0
	g.Session, g.Resume, g.MaxHead, g.MaxBody = r.uint(), r.uint(), r.uint(), r.uint()
	return g
}

// skip passes over one msgpack value of any type.
func (r *reader) skip(depth int) {
	if depth > maxNesting {
		r.fail()
		return
	}
	c := r.tag()
	children := uint64(0)
	switch {
	case c < 0x80, c >= 0xe0, c == 0xc0, c == 0xc2, c == 0xc3: // small number, nil, bool
	case c&0xf0 == 0x80:
		children = 2 * uint64(c&15)
	case c&0xf0 == 0x90:
		children = uint64(c & 15)
	case c&0xe0 == 0xa0:
		r.take(uint64(c & 31))
	case c >= 0xc4 && c <= 0xc6: // bin
		r.take(r.number(1 << (c - 0xc4)))
	case c >= 0xc7 && c <= 0xc9: // ext
		r.take(r.number(1<<(c-0xc7)) + 1)
	case c == 0xca:
		r.take(4)
	case c == 0xcb:
		r.take(8)
	case c >= 0xcc && c <= 0xcf:
		r.take(1 << (c - 0xcc))
	case c >= 0xd0 && c <= 0xd3:
		r.take(1 << (c - 0xd0))
	case c >= 0xd4 && c <= 0xd8: // fixext
		r.take(1<<(c-0xd4) + 1)
	case c >= 0xd9 && c <= 0xdb:
		r.take(r.number(1 << (c - 0xd9)))
	case c == 0xdc || c == 0xdd:
		children = r.number(2 << (c - 0xdc))
	case c == 0xde || c == 0xdf:
		children = 2 * r.number(2<<(c-0xde))
	default:
		r.fail()
	}
	for ; children > 0 && !r.bad; children-- {
		r.skip(depth + 1)
	}
}
