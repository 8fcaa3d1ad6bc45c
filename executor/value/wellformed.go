package value

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// maxNesting bounds arrays and maps within each other: the decoder recurses.
const maxNesting = 1000

// ErrMsgpack says that bytes are not one msgpack value.
var ErrMsgpack = errors.New("damaged msgpack")

// CheckMsgpack tells whether b is one msgpack value, all of whose lengths are
// covered by bytes that are there. The decoder allocates by announced lengths,
// so a damaged dataset could otherwise take all memory.
func CheckMsgpack(b []byte) error {
	left := make([]uint64, 1, 16) // values still to come in each array that is open
	left[0] = 1
	at := 0
	for len(left) > 0 {
		top := len(left) - 1
		if left[top] == 0 {
			left = left[:top]
			continue
		}
		left[top]--
		skip, values, err := item(b[at:])
		if err != nil {
			return fmt.Errorf("%w at byte %d: %w", ErrMsgpack, at, err)
		}
		at += skip
		if values == 0 {
			continue
		}
		if values > uint64(len(b)-at) {
			return fmt.Errorf("%w at byte %d: it announces %d values in %d bytes", ErrMsgpack, at, values, len(b)-at)
		}
		if len(left) == maxNesting {
			return fmt.Errorf("%w at byte %d: more than %d levels", ErrMsgpack, at, maxNesting)
		}
		left = append(left, values)
	}
	if at != len(b) {
		return fmt.Errorf("%w: %d bytes follow the value", ErrMsgpack, len(b)-at)
	}
	return nil
}

var errShort = errors.New("it ends too early")

// item looks at one code: how many bytes it takes with its payload, and how many
// values follow that belong to it.
func item(b []byte) (skip int, values uint64, err error) {
	if len(b) == 0 {
		return 0, 0, errShort
	}
	code := b[0]
	width, payload := 0, uint64(0) // of a length, and of what the length says
	switch {
	case code < 0x80, code >= 0xe0, code == 0xc0, code == 0xc2, code == 0xc3:
	case code < 0x90:
		values = 2 * uint64(code&15)
	case code < 0xa0:
		values = uint64(code & 15)
	case code < 0xc0:
		payload = uint64(code & 31)
	case code == 0xc1:
		return 0, 0, errors.New("code 0xc1 is never used")
	case code <= 0xc6: // bin
		width = 1 << (code - 0xc4)
	case code <= 0xc9: // ext
		width = 1 << (code - 0xc7)
	case code == 0xca:
		payload = 4
	case code == 0xcb:
		payload = 8
	case code <= 0xcf:
		payload = 1 << (code - 0xcc)
	case code <= 0xd3:
		payload = 1 << (code - 0xd0)
	case code <= 0xd8: // fixext: a type and its data
		payload = 1 + 1<<(code-0xd4)
	case code <= 0xdb: // str
		width = 1 << (code - 0xd9)
	default: // array 0xdc, 0xdd; map 0xde, 0xdf
		width = 2 << (code & 1)
	}
	if width > len(b)-1 {
		return 0, 0, errShort
	}
	var n uint64
	switch width {
	case 1:
		n = uint64(b[1])
	case 2:
		n = uint64(binary.BigEndian.Uint16(b[1:]))
	case 4:
		n = uint64(binary.BigEndian.Uint32(b[1:]))
	}
	switch {
	case code >= 0xde && code <= 0xdf:
		values = 2 * n
	case code >= 0xdc && code <= 0xdd:
		values = n
	case code >= 0xc7 && code <= 0xc9:
		payload = n + 1
	case width > 0:
		payload = n
	}
	if payload > uint64(len(b)-1-width) {
		return 0, 0, errShort
	}
	return 1 + width + int(payload), values, nil
}
