package value

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

func packed(t interface{ Fatal(...any) }, v any) []byte {
	b, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestText(t *testing.T) {
	type point struct {
		Name string
		At   [2]float64
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "null"},
		{true, "true"},
		{-3, "-3"},
		{uint64(math.MaxUint64), "18446744073709551615"},
		{1.5, "1.5"},
		{float32(0.1), "0.1"},
		{"<é>\n", `"<é>\n"`},
		{[]byte("\x00\xff"), `"AP8="`},
		{[]any{}, "[]"},
		{map[string]int{}, "{}"},
		{map[string]any{"b": []int{1, 2}, "a": map[int]string{10: "x", 2: "y"}, "c": nil}, `{"a":{"10":"x","2":"y"},"b":[1,2],"c":null}`},
		{map[float64]int{0.5: 1, 1e6: 2, 1e21: 3}, `{"0.5":1,"1000000":2,"1e+21":3}`},
		{map[any]int{1: 1, "b": 2, uint64(math.MaxUint64): 3}, `{"1":1,"18446744073709551615":3,"b":2}`},
		{point{"p", [2]float64{1, math.Inf(1)}}, `{"At":[1,null],"Name":"p"}`},
		{time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC), `"2026-11-22T06:00:00Z"`},
	} {
		got, err := Text(Flat{Codec: Msgpack, Bytes: packed(t, c.v)})
		if err != nil || string(got) != c.want+"\n" {
			t.Errorf("%v: %q, %v; want %q", c.v, got, err, c.want)
		}
	}
	for _, c := range []struct {
		v    any
		want string
	}{
		{map[bool]int{true: 1}, "the key true is a truth value: JSON has text and numbers as keys"},
		{map[any]int{nil: 1}, "the key null is null"},
		{map[[2]int]int{{1, 2}: 1}, "the key [1,2] is a list (in Python a tuple)"},
		{map[any]int{1: 1, "1": 2}, `two keys are "1" as text`},
		{[]any{map[any]int{1.0: 1, "a": 2, int8(1): 2}}, `two keys are "1" as text`},
		{map[float64]int{math.NaN(): 1}, "the key NaN is no finite number"},
		{map[time.Time]int{time.Unix(0, 0).UTC(): 1}, `the key "1970-01-01T00:00:00Z" is a time`},
		{[]string{"a\xff"}, `the text "a\xff" is not UTF-8`},
		{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), "a time in the year 10000: JSON has the years 0 to 9999"},
	} {
		if got, err := Text(Flat{Codec: Msgpack, Bytes: packed(t, c.v)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %q, %v; want %q", c.v, got, err, c.want)
		}
	}
	for _, f := range []Flat{{Codec: Raw, Bytes: []byte("{}")}, {Codec: "mine", Bytes: []byte("\x81")}, {Codec: Numbers, Bytes: make([]byte, 8)}} {
		if got, err := Text(f); err != nil || string(got) != string(f.Bytes) {
			t.Errorf("%+v: %q, %v", f, got, err)
		}
	}
	for _, damaged := range []string{"", "\xc1", "\x92\x01", "\x01\x01", "\xdd\xff\xff\xff\xff", strings.Repeat("\x91", 2000) + "\x01", "\xd4\x05\x00"} {
		if got, err := Text(Flat{Codec: Msgpack, Bytes: []byte(damaged)}); err == nil {
			t.Errorf("%q: %q", damaged, got)
		}
	}
}

// The Python client writes the same.
func TestTextAsInPython(t *testing.T) {
	defer func(was *time.Location) { time.Local = was }(time.Local)
	time.Local = time.FixedZone("elsewhere", 3600)
	table, err := os.ReadFile("testdata/text.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		packed, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if packed == "#" {
			continue
		}
		b, err := hex.DecodeString(packed)
		if err != nil {
			t.Fatal(line, err)
		}
		got, err := Text(Flat{Codec: Msgpack, Bytes: b})
		if want == "refused" {
			if err == nil {
				t.Errorf("%s is not refused: %s", packed, got)
			}
		} else if err != nil || string(got) != want+"\n" {
			t.Errorf("%s: %s, %v, want %s", packed, got, err, want)
		}
	}
}

// However deep maps lie in each other, a byte of a value is not copied for each level.
func TestTextOfNestedMaps(t *testing.T) {
	const levels, size = 900, 64 << 10
	b := packed(t, strings.Repeat("x", size))
	for range levels { // {"b": 0, "a": what is below}
		b = append([]byte("\x82\xa1b\x00\xa1a"), b...)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, err := Text(Flat{Codec: Msgpack, Bytes: b})
	runtime.ReadMemStats(&after)
	want := strings.Repeat(`{"a":`, levels) + `"` + strings.Repeat("x", size) + `"` + strings.Repeat(`,"b":0}`, levels) + "\n"
	if err != nil || string(got) != want {
		t.Errorf("%.99q..., %v", got, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > levels*size/10 {
		t.Errorf("%d bytes are allocated for a value of %d", n, len(b))
	}
}

// What JSON can say comes back as it was, with all maps in order.
func TestTextSaysTheSame(t *testing.T) {
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(), rapid.Float64Range(-1e300, 1e300).AsAny())
	var tree func(depth int) *rapid.Generator[any]
	tree = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return leaf
		}
		below := rapid.Deferred(func() *rapid.Generator[any] { return tree(depth - 1) })
		return rapid.OneOf(leaf, rapid.SliceOfN(below, 0, 4).AsAny(), rapid.MapOfN(rapid.String(), below, 0, 4).AsAny())
	}
	rapid.Check(t, func(t *rapid.T) {
		v := tree(4).Draw(t, "value")
		got, err := msgpackJSON(packed(t, v))
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil { // its maps are in order
			t.Fatal(err)
		}
		if string(got)+"\n" != want.String() {
			t.Fatalf("%s, want %s", got, &want)
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add([]byte("\x81\xa1a\x92\x01\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\xd6\xff\x00\x00\x00\x00"))
	f.Add([]byte("\x81\x91\x01\xc4\x01x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if text, err := Text(Flat{Codec: Msgpack, Bytes: b}); err == nil && !json.Valid(text) {
			t.Errorf("%q becomes %q", b, text)
		}
	})
}
