package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cascade-run/cascade/comms/internal/msgpack"
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
	b = msgpack.AppendUint(b, seq)
	b = msgpack.AppendUint(b, ack)
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
		b = msgpack.AppendUint(b, e.Seq)
		b = msgpack.AppendUint(b, e.Ack)
		return appendString(b, e.Text)
	case Hello, Welcome:
		return e.appendGreeting(b)
	default:
		b = msgpack.AppendUint(append(b, 0x93), uint64(e.Kind))
		b = msgpack.AppendUint(b, e.Seq)
		return msgpack.AppendUint(b, e.Ack)
	}
}

func (e *Envelope) appendGreeting(b []byte) []byte {
	g := e.Greeting
	b = append(b, 0xdc, 0, 16, byte(e.Kind))
	for _, v := range []uint64{e.Seq, e.Ack, g.ProtocolMin, g.ProtocolMax} {
		b = msgpack.AppendUint(b, v)
	}
	b = appendString(b, g.Role)
	b = appendString(b, g.Name)
	b = msgpack.AppendUint(b, g.Incarnation)
	b = msgpack.AppendUint(b, uint64(max(g.PID, 0)))
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
		b = msgpack.AppendUint(b, v)
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
	r := msgpack.Reader{Buf: p}
	fields := r.Array()
	kind := r.Uint()
	if kind > math.MaxUint8 {
		return e, fmt.Errorf("%w: kind %d", ErrEnvelope, kind)
	}
	e.Kind = Kind(kind)
	e.Seq = r.Uint()
	e.Ack = r.Uint()
	if fields < 3 {
		return e, fmt.Errorf("%w: %d fields, at least 3 are needed", ErrEnvelope, fields)
	}
	read := 3
	switch e.Kind {
	case Data:
		if fields > 3 {
			e.WantAck = r.Uint() != 0
			read++
		}
	case Close, Refuse:
		if fields > 3 {
			e.Text = string(r.Bytes())
			read++
		}
	case Hello, Welcome:
		if fields < 16 {
			return e, fmt.Errorf("%w: greeting of %d fields, 16 are needed", ErrEnvelope, fields)
		}
		e.Greeting = readGreeting(&r)
		read = 16
	}
	for ; read < fields && r.Err == nil; read++ {
		r.Skip(maxNesting)
	}
	if r.Err != nil {
		return e, fmt.Errorf("%w: kind %d, %d bytes: %w", ErrEnvelope, e.Kind, len(p), r.Err)
	}
	if len(r.Buf) > 0 {
		return e, fmt.Errorf("%w: %d bytes too many", ErrEnvelope, len(r.Buf))
	}
	if e.Greeting != nil {
		return e, e.Greeting.Validate()
	}
	return e, nil
}

func appendString(b []byte, s string) []byte {
	if len(s) > math.MaxUint16 {
		s = s[:math.MaxUint16]
	}
	b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(s)))
	return append(b, s...)
}

func readGreeting(r *msgpack.Reader) *Greeting {
	g := &Greeting{ProtocolMin: r.Uint(), ProtocolMax: r.Uint(), Role: string(r.Bytes()), Name: string(r.Bytes()), Incarnation: r.Uint()}
	pid := r.Uint()
	if pid > math.MaxInt64 {
		r.Fail(msgpack.ErrMalformed)
	}
	g.PID = int64(pid)
	g.Build = string(r.Bytes())
	n := r.Array()
	for range min(n, len(r.Buf)) {
		g.Features = append(g.Features, string(r.Bytes()))
	}
	g.Replay = r.Uint() != 0
	g.Session, g.Resume, g.MaxHead, g.MaxBody = r.Uint(), r.Uint(), r.Uint(), r.Uint()
	return g
}
