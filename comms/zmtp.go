package comms

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Framing of ZMTP 3.x after the handshake (https://rfc.zeromq.org/spec/23/):
// one byte of flags, a size of one or eight bytes, the body.
const (
	frameMore    = 0x01
	frameLong    = 0x02
	frameCommand = 0x04

	frameHeaderMax = 9
	commandMax     = 4 << 10   // bytes of a command frame
	growStep       = 256 << 10 // a frame's buffer starts at no more than this and doubles as bytes arrive
)

// errFraming is wrapped by every violation of ZMTP framing.
var errFraming = errors.New("ZMTP framing violated")

// appendFrameHeader appends the header of a frame of size bytes.
func appendFrameHeader(b []byte, flags byte, size int) []byte {
	if size < 256 {
		return append(b, flags, byte(size))
	}
	return binary.BigEndian.AppendUint64(append(b, flags|frameLong), uint64(size))
}

// appendCommand appends a whole command frame.
func appendCommand(b []byte, name string, body []byte) []byte {
	b = appendFrameHeader(b, frameCommand, 1+len(name)+len(body))
	b = append(b, byte(len(name)))
	b = append(b, name...)
	return append(b, body...)
}

// appendPing appends a PING whose TTL, in tenths of a second, is zero: the
// peer may time us out as it likes.
func appendPing(b []byte) []byte { return appendCommand(b, "PING", []byte{0, 0}) }

// frameReader reads the frames of one connection. It trusts no length: sizes
// are compared with a limit before anything is allocated.
type frameReader struct {
	br *bufio.Reader
	// ping is called for every PING with its context, which it must copy.
	ping func(context []byte)
}

// header reads one frame header.
func (r *frameReader) header() (flags byte, size uint64, err error) {
	h, err := r.br.Peek(2)
	if err != nil {
		if len(h) == 0 && errors.Is(err, io.EOF) {
			return 0, 0, io.EOF
		}
		return 0, 0, unexpected(err)
	}
	flags, size = h[0], uint64(h[1])
	used := 2
	if flags&frameLong != 0 {
		if h, err = r.br.Peek(frameHeaderMax); err != nil {
			return 0, 0, unexpected(err)
		}
		size, used = binary.BigEndian.Uint64(h[1:]), frameHeaderMax
	}
	if flags&^(frameMore|frameLong|frameCommand) != 0 {
		return 0, 0, fmt.Errorf("%w: frame flags %#02x", errFraming, flags)
	}
	_, err = r.br.Discard(used)
	return flags &^ frameLong, size, err
}

// message reads the header of the next message frame and answers the commands
// before it. libzmq sends a PING also between the frames of one message.
func (r *frameReader) message(limit uint64) (size int, more bool, err error) {
	for {
		flags, size, err := r.header()
		if err != nil {
			return 0, false, err
		}
		if flags&frameCommand != 0 {
			if err := r.command(flags, size); err != nil {
				return 0, false, err
			}
			continue
		}
		if size > limit {
			return 0, false, fmt.Errorf("%w: frame of %d bytes, the limit is %d", errFraming, size, limit)
		}
		return int(size), flags&frameMore != 0, nil
	}
}

// command consumes one command frame. Unknown commands are ignored, as ZMTP asks.
func (r *frameReader) command(flags byte, size uint64) error {
	if flags&frameMore != 0 || size > commandMax || size == 0 {
		return fmt.Errorf("%w: command frame of %d bytes with flags %#02x", errFraming, size, flags)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r.br, body); err != nil {
		return unexpected(err)
	}
	n := int(body[0])
	if n == 0 || n > len(body)-1 {
		return fmt.Errorf("%w: command name of %d bytes in a frame of %d", errFraming, n, len(body))
	}
	name, rest := string(body[1:1+n]), body[1+n:]
	if name == "PING" {
		if len(rest) < 2 || len(rest) > 2+16 {
			return fmt.Errorf("%w: PING of %d bytes", errFraming, len(rest))
		}
		r.ping(rest[2:])
	}
	return nil
}

// view returns the next n bytes without copying when the buffer can hold
// them. They are valid until the next read.
func (r *frameReader) view(n int) ([]byte, error) {
	if n > r.br.Size() {
		return r.bytes(n)
	}
	p, err := r.br.Peek(n)
	if err != nil {
		return nil, unexpected(err)
	}
	_, err = r.br.Discard(n)
	return p, err
}

// bytes reads n bytes into a new buffer. A frame may claim more bytes than it
// holds: the buffer grows with those that arrive.
func (r *frameReader) bytes(n int) ([]byte, error) {
	b := make([]byte, min(n, growStep))
	for filled := 0; ; {
		if _, err := io.ReadFull(r.br, b[filled:]); err != nil {
			return nil, unexpected(err)
		}
		if filled = len(b); filled == n {
			return b, nil
		}
		grown := make([]byte, min(n, 2*filled))
		copy(grown, b)
		b = grown
	}
}

// discard skips n bytes.
func (r *frameReader) discard(n int) error {
	_, err := r.br.Discard(n)
	return unexpected(err)
}

// unexpected names an end in the middle of a frame for what it is.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fill reads exactly len(p) bytes into p.
func (r *frameReader) fill(p []byte) error {
	_, err := io.ReadFull(r.br, p)
	return unexpected(err)
}
