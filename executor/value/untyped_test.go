package value

import (
	"reflect"
	"strings"
	"testing"
)

// An open type takes mappings with keys of all kinds that Go has; none becomes another key.
func TestUnmarshal(t *testing.T) {
	for _, c := range []struct {
		data string
		into any // a pointer
		want any // or the error, as text
	}{
		{"\x81\xa1a\x01", new(any), map[string]any{"a": int8(1)}},
		{"\x80", new(any), map[string]any{}},
		{"\x82\xa1a\x01\x02\x03", new(any), map[any]any{"a": int8(1), int8(2): int8(3)}},
		{"\x81\xc0\x01", new(any), map[any]any{nil: int8(1)}},
		{"\x91\x81\xc3\x01", new(any), []any{map[any]any{true: int8(1)}}},
		{"\x81\x92\x01\x02\x03", new(any), "it is a mapping: a key of a mapping in it is a list, which no map of an open type takes"},
		{"\x81\xc4\x01a\x03", new(any), "it is a mapping: a key of a mapping in it is bytes, which no map of an open type takes"},
		{"\x81\x92\x01\x02\x03", new(map[any]int), "a key of a mapping is a list or a mapping, which map[any]int does not take"},
		{"\x81\x92\x01\x02\x03", new(map[[2]int]int), map[[2]int]int{{1, 2}: 3}},
		{"\xa1a", new(int), "it is a text: "},
		{"\x92\x01\x02", new(string), "it is a list: "},
	} {
		err := Unmarshal([]byte(c.data), c.into)
		got := reflect.ValueOf(c.into).Elem().Interface()
		if want, fails := c.want.(string); fails {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q as %T: %v, %v; want %s", c.data, got, got, err, want)
			}
		} else if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q as %T: %#v, %v; want %#v", c.data, got, got, err, c.want)
		}
	}
}
