package value

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

type (
	place struct{ X, Y int }
	byDay map[time.Weekday]string
	own   map[string]int
	named struct {
		Counts map[int]map[string]int
		Any    any
		More   []any `msgpack:",omitempty"`
		Next   *named
	}
	// taught is a map whose encoding the program itself has registered.
	taught map[string]int
	// texted is one whose registered encoding is a map, too.
	texted map[int]time.Duration
	// node leads back to itself by fields that do not travel.
	node struct {
		V      any
		Kids   []*node
		parent *node
		Shared map[string]any `msgpack:"-"`
	}
)

func (own) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeString("own") }

const members = 40

// mapOf makes a map with members entries, put in in a random order.
func mapOf[K comparable](key func(i int) K) map[K]int {
	m := map[K]int{}
	for i := range members {
		m[key(i)] = i
	}
	return m
}

// Equal maps are equal bytes, whatever their keys and wherever they lie.
func TestMapsHaveOneEncoding(t *testing.T) {
	msgpack.Register(taught{}, func(e *msgpack.Encoder, v reflect.Value) error { return e.EncodeInt(int64(v.Len())) }, nil)
	if _, err := msgpack.Marshal(named{Counts: map[int]map[string]int{1: {"a": 1}}}); err != nil { // a program may have encoded it before
		t.Fatal(err)
	}
	texts := mapOf(func(i int) string { return fmt.Sprintf("%c%d", 'z'-i%20, i) })
	pointers := map[*int]int{}
	nans := map[float64]int{math.Inf(1): 1}
	for i := range members {
		k := i % 7
		pointers[&k] = i
		nans[math.NaN()] = i
	}
	for _, v := range []any{
		texts,
		map[string]string{"b": "1", "a": "2", "c": "3", "d": "4", "e": "5", "f": "6", "g": "7", "h": "8", "i": "9"},
		map[string]any{"b": texts, "a": []any{texts, map[any]any{1: texts, "x": 2, 2.5: nil, true: place{}, int8(3): 4}}, "c": named{Any: texts}},
		mapOf(func(i int) label { return label(fmt.Sprint(i)) }),
		mapOf(func(i int) int { return i*i - 300 }), mapOf(func(i int) int8 { return int8(3 * i) }), mapOf(func(i int) int16 { return int16(i) - 20 }),
		mapOf(func(i int) int32 { return 1 << (i % 31) }), mapOf(func(i int) int64 { return -1 << i }),
		mapOf(func(i int) uint { return uint(i) }), mapOf(func(i int) uint8 { return uint8(i) }), mapOf(func(i int) uint16 { return 1 << (i % 16) }),
		mapOf(func(i int) uint32 { return 1 << (i % 32) }), mapOf(func(i int) uint64 { return 1 << i }),
		mapOf(func(i int) float32 { return float32(i) / 3 }), mapOf(func(i int) float64 { return math.Exp(float64(i - 20)) }),
		mapOf(func(i int) bool { return i%2 == 0 }), mapOf(func(i int) [2]int { return [2]int{i % 3, i} }), mapOf(func(i int) [3]byte { return [3]byte{byte(i % 4), byte(i)} }),
		mapOf(func(i int) place { return place{i % 3, i} }), mapOf(func(i int) any { return []any{i, fmt.Sprint(i), i % 2, 0.5 * float64(i)}[i%4] }),
		mapOf(func(i int) time.Duration { return time.Duration(i) * time.Hour }), mapOf(func(i int) time.Time { return time.Unix(int64(i*i), 0).UTC() }),
		mapOf(func(i int) netip.Addr { return netip.AddrFrom4([4]byte{byte(i % 3), byte(i)}) }),
		pointers, nans,
		byDay{time.Monday: "m", time.Tuesday: "t", time.Friday: "f", time.Sunday: "s"},
		named{Counts: map[int]map[string]int{1: texts, 2: texts, 3: nil}, Any: []map[int]bool{{1: true, 2: false, 3: true}}, More: []any{pointers, &texts}, Next: &named{Any: mapOf(func(i int) int { return i })}},
		[]map[int]string{{1: "a", 2: "b", 3: "c", 4: "d"}},
	} {
		t.Run(fmt.Sprintf("%T", v), func(t *testing.T) {
			k, err := new(Codecs).For(reflect.TypeOf(v))
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for range 100 {
				f, err := k.Encode(v)
				if err != nil {
					t.Fatal(err)
				}
				if err := CheckMsgpack(f.Bytes); err != nil {
					t.Fatal(err)
				}
				seen[string(f.Bytes)] = true
			}
			if len(seen) != 1 {
				t.Errorf("%d encodings", len(seen))
			}
		})
	}
	for _, tt := range []struct {
		v    any
		want string
	}{
		{map[int]string{3: "c", -1: "a", 200: "d", 0: "b"}, "84 ff a161 00 a162 03 a163 ccc8 a164"},
		{map[string]int{"b": 1, "a": 2, "aa": 3}, "83 a161 02 a26161 03 a162 01"},
		{place{2, 1}, "82 a158 02 a159 01"}, // a struct's fields are in its own order
		{map[int]own(nil), "c0"},
		{map[int]own{1: {}}, "81 01 a36f776e"},
		{taught{"x": 1, "y": 2}, "02"},
	} {
		b, _, err := marshal(tt.v)
		if got := hex.EncodeToString(b); err != nil || got != strings.ReplaceAll(tt.want, " ", "") {
			t.Errorf("%#v is %s, %v, want %s", tt.v, got, err, tt.want)
		}
	}
}

// Only fields that travel are looked at: others may lead back, or belong to another goroutine.
func TestFieldsThatDoNotTravel(t *testing.T) {
	root := &node{V: map[int]int{2: 1, 1: 2}, Shared: map[string]any{}}
	root.Shared["root"] = root
	root.Kids = []*node{{V: "leaf", parent: root}}
	if root.Kids[0].parent != root {
		t.Fatal("the node does not lead back")
	}
	b, _, err := marshal(root)
	if got, want := hex.EncodeToString(b), "82a15682010202 01a44b6964739182a156a46c656166a44b696473c0"; err != nil || got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}

// A program's own encoding of a map stays its own, also when it writes a map.
func TestRegisteredMapsStay(t *testing.T) {
	msgpack.Register(texted{}, func(e *msgpack.Encoder, v reflect.Value) error {
		return e.Encode(map[string]string{"all": fmt.Sprint(v.Interface())})
	}, nil)
	b, _, err := marshal(texted{1: time.Second})
	if want := "81a3616c6caa6d61705b313a31735d"; err != nil || !strings.HasPrefix(hex.EncodeToString(b), want[:10]) {
		t.Errorf("%x, %v, want a map of one text", b, err)
	}
}

// What is written in order is read as what it was.
func TestOrderedMapsAreThoseOfBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.MapOf(rapid.Int16(), rapid.MapOf(rapid.String(), rapid.Float32Range(-9, 9))).Draw(t, "v")
		if back, f := roundTrip(t, v); !reflect.DeepEqual(back, v) {
			t.Fatalf("%v became %v", v, back)
		} else if again, _, err := marshal(back); err != nil || !bytes.Equal(again, f.Bytes) {
			t.Fatalf("%v has two encodings: %x and %x, %v", v, f.Bytes, again, err)
		}
	})
}
