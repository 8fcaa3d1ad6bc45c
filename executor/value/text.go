package value

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
// times as in RFC 3339 and in UTC, numbers that are not finite as null. It fails for keys that are
// neither text nor numbers or would be there twice, and for text that is not UTF-8.
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
	return t.sorted(), nil
}

// transcript is JSON being written while msgpack is read: no tree of values lies between them.
type transcript struct {
	from  *msgpack.Decoder
	to    bytes.Buffer
	plain *json.Encoder // of what is neither list nor map, to the same

	unsorted []unsorted // from left to right, none within another
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
	case string:
		if !utf8.ValidString(x) {
			return fmt.Errorf("the text %q is not UTF-8, as JSON is", x)
		}
	case time.Time:
		x = x.UTC() // the decoder has it in the zone of this host
		v = x
		if y := x.Year(); y < 0 || y > 9999 {
			return fmt.Errorf("a time in the year %d: JSON has the years 0 to 9999", y)
		}
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

// member is the text of a key and its value: text[start:end], and which maps in it are
// not in order, of those of the map around.
type member struct {
	key         string
	start, end  int
	first, last int
}

// unsorted is a map, text[start:end] with its braces, whose members did not come in the order of their keys.
type unsorted struct {
	start, end int
	members    []member // in order
	within     []unsorted
}

// mapping writes the members as they come. When their keys are not in order it notes what is.
func (t *transcript) mapping() error {
	n, err := t.from.DecodeMapLen()
	if err != nil {
		return err
	}
	start, base := t.to.Len(), len(t.unsorted)
	members := make([]member, n)
	t.to.WriteByte('{')
	for i := range members {
		if i > 0 {
			t.to.WriteByte(',')
		}
		key, err := t.key()
		if err != nil {
			return err
		}
		m := member{key: key, start: t.to.Len(), first: len(t.unsorted) - base}
		if err := t.leaf(m.key); err != nil {
			return err
		}
		t.to.WriteByte(':')
		if err := t.value(); err != nil {
			return err
		}
		m.end, m.last = t.to.Len(), len(t.unsorted)-base
		members[i] = m
	}
	t.to.WriteByte('}')
	byKey := func(a, b member) int { return strings.Compare(a.key, b.key) }
	ordered := slices.IsSortedFunc(members, byKey)
	if !ordered {
		slices.SortStableFunc(members, byKey)
	}
	for i := range members[min(1, n):] {
		if key := members[i].key; key == members[i+1].key {
			return fmt.Errorf("two keys are %q as text: return keys of one kind", key)
		}
	}
	if ordered {
		return nil
	}
	within := slices.Clone(t.unsorted[base:])
	t.unsorted = append(t.unsorted[:base], unsorted{start, t.to.Len(), members, within})
	return nil
}

// key reads a key as the text that JSON has of it.
func (t *transcript) key() (string, error) {
	key, err := t.from.DecodeInterface()
	if err != nil {
		return "", err
	}
	kind := kindText(key)
	switch x := key.(type) {
	case string:
		return x, nil
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64:
		text, err := json.Marshal(x)
		if err != nil {
			return "", fmt.Errorf("the key %v is no finite number: return text or numbers as keys", x)
		}
		return string(text), nil
	case []any:
		kind = "a list (in Python a tuple)"
	case time.Time:
		kind = "a time"
	}
	text, err := json.Marshal(key)
	if err != nil {
		text = []byte("?")
	}
	return "", fmt.Errorf("the key %s is %s: JSON has text and numbers as keys, so return such (in Python {str(k): v for k, v in x.items()})", text, kind)
}

// sorted returns the text with all maps in order, each byte of it copied once at most.
func (t *transcript) sorted() []byte {
	if len(t.unsorted) == 0 {
		return t.to.Bytes()
	}
	text := t.to.Bytes()
	return appendSorted(make([]byte, 0, len(text)+1), text, 0, len(text), t.unsorted)
}

// appendSorted appends text[start:end], in which these maps are not in order.
func appendSorted(to, text []byte, start, end int, maps []unsorted) []byte {
	for i := range maps {
		u := &maps[i]
		to = append(append(to, text[start:u.start]...), '{')
		for k, m := range u.members {
			if k > 0 {
				to = append(to, ',')
			}
			to = appendSorted(to, text, m.start, m.end, u.within[m.first:m.last])
		}
		to = append(to, '}')
		start = u.end
	}
	return append(to, text[start:end]...)
}
