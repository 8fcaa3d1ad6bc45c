package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// Text returns what programs and people read that know no codec of ours: of msgpack
// the same as JSON, on a line with its end; of all others the bytes as they are.
func Text(f Flat) ([]byte, error) {
	if f.Codec != Msgpack {
		return f.Bytes, nil
	}
	b, err := msgpackJSON(f.Bytes)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// msgpackJSON writes as JSON what msgpack holds: keys sorted and as text, bytes in base64,
// times as in RFC 3339, numbers that are not finite as null.
func msgpackJSON(b []byte) ([]byte, error) {
	if err := CheckMsgpack(b); err != nil {
		return nil, err
	}
	t := transcript{from: msgpack.NewDecoder(bytes.NewReader(b))}
	t.plain = json.NewEncoder(&t.to)
	t.plain.SetEscapeHTML(false)
	if err := t.value(); err != nil {
		return nil, fmt.Errorf("write msgpack as JSON: %w", err)
	}
	return t.to.Bytes(), nil
}

// transcript is JSON being written while msgpack is read: no tree of values lies between them.
type transcript struct {
	from  *msgpack.Decoder
	to    bytes.Buffer
	plain *json.Encoder // of what is neither list nor map, to the same
}

func (t *transcript) value() error {
	code, err := t.from.PeekCode()
	switch {
	case err != nil:
		return err
	case code >= 0x90 && code < 0xa0, code == 0xdc, code == 0xdd:
		return t.list()
	case code >= 0x80 && code < 0x90, code == 0xde, code == 0xdf:
		return t.mapping()
	}
	v, err := t.from.DecodeInterface()
	if err != nil {
		return err
	}
	return t.leaf(v)
}

func (t *transcript) leaf(v any) error {
	switch x := v.(type) {
	case float32:
		v = finite(float64(x), 32)
	case float64:
		v = finite(x, 64)
	}
	if err := t.plain.Encode(v); err != nil {
		return err
	}
	t.to.Truncate(t.to.Len() - 1) // an encoder ends each value with a line
	return nil
}

func (t *transcript) list() error {
	n, err := t.from.DecodeArrayLen()
	if err != nil {
		return err
	}
	t.to.WriteByte('[')
	for i := range n {
		if i > 0 {
			t.to.WriteByte(',')
		}
		if err := t.value(); err != nil {
			return err
		}
	}
	t.to.WriteByte(']')
	return nil
}

// mapping writes the members as they come, and then sorts them.
func (t *transcript) mapping() error {
	n, err := t.from.DecodeMapLen()
	if err != nil {
		return err
	}
	type member struct {
		key  string
		text []byte
	}
	start := t.to.Len()
	members := make([]member, n)
	ends := make([]int, n)
	for i := range members {
		key, err := t.from.DecodeInterface()
		if err != nil {
			return err
		}
		members[i].key = fmt.Sprint(key)
		if err := t.leaf(members[i].key); err != nil {
			return err
		}
		t.to.WriteByte(':')
		if err := t.value(); err != nil {
			return err
		}
		ends[i] = t.to.Len()
	}
	at := start
	for i, end := range ends {
		members[i].text, at = t.to.Bytes()[at:end], end
	}
	slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.key, b.key) })
	sorted := make([]byte, 0, t.to.Len()-start+n+2)
	sorted = append(sorted, '{')
	for i := range members {
		if i > 0 {
			sorted = append(sorted, ',')
		}
		sorted = append(sorted, members[i].text...)
	}
	t.to.Truncate(start)
	t.to.Write(append(sorted, '}'))
	return nil
}
