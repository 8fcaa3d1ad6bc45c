package msgpack

import (
	"bytes"
	"errors"
	"math"
	"testing"

	vm "github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

// What is written is read back, and reads the same in another implementation,
// which writes the same bytes where it is asked for short forms.
func TestAgainstAnotherImplementation(t *testing.T) {
	other := func(t *rapid.T, v any) []byte {
		var b bytes.Buffer
		e := vm.NewEncoder(&b)
		e.UseCompactInts(true)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	same := func(t *rapid.T, what string, ours, theirs []byte) {
		if !bytes.Equal(ours, theirs) {
			t.Fatalf("%s is written as %x, elsewhere as %x", what, ours, theirs)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint64().Draw(t, "uint") >> rapid.IntRange(0, 63).Draw(t, "shift")
		i := int64(u)
		if rapid.Bool().Draw(t, "negative") {
			i = -int64(u >> 1)
		}
		f := rapid.Float64().Draw(t, "float")
		s := rapid.String().Draw(t, "string")
		p := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
		n := rapid.IntRange(0, 70000).Draw(t, "array")
		same(t, "uint", AppendUint(nil, u), other(t, u))
		same(t, "float", AppendFloat(nil, f), other(t, f))
		same(t, "string", AppendString(nil, s), other(t, s))
		if len(p) > 0 {
			same(t, "bytes", AppendBytes(nil, p), other(t, p))
		}

		b := AppendUint(nil, u)
		b = AppendInt(b, i)
		b = AppendFloat(b, f)
		b = AppendBool(b, i < 0)
		b = AppendString(b, s)
		b = AppendBytes(b, p)
		b = append(AppendArray(b, n), make([]byte, n)...)
		r := Reader{Buf: b}
		if got := r.Uint(); got != u {
			t.Fatalf("uint %d is read as %d", u, got)
		}
		if got := r.Int(); got != i {
			t.Fatalf("int %d is read as %d", i, got)
		}
		if got := r.Float(); got != f && !math.IsNaN(f) {
			t.Fatalf("float %v is read as %v", f, got)
		}
		if got := r.Bool(); got != (i < 0) {
			t.Fatalf("bool is read as %v", got)
		}
		if got := string(r.Bytes()); got != s {
			t.Fatalf("string %q is read as %q", s, got)
		}
		if got := r.Bytes(); !bytes.Equal(got, p) {
			t.Fatalf("bytes %x are read as %x", p, got)
		}
		if got := r.Array(); got != n || r.Err != nil || len(r.Buf) != n {
			t.Fatalf("array of %d is read as %d, %v", n, got, r.Err)
		}
		skip := Reader{Buf: b}
		for range 7 {
			skip.Skip(1)
		}
		if skip.Err != nil || len(skip.Buf) != 0 {
			t.Fatalf("skipping leaves %d bytes and %v", len(skip.Buf), skip.Err)
		}
	})
}

func TestTheFirstErrorSticks(t *testing.T) {
	r := Reader{Buf: []byte{0xc1, 1, 2}}
	if v := r.Uint(); v != 0 || !errors.Is(r.Err, ErrMalformed) {
		t.Errorf("read %d, %v", v, r.Err)
	}
	if v, b := r.Uint(), r.Bytes(); v != 0 || b != nil || !errors.Is(r.Err, ErrMalformed) {
		t.Errorf("then %d, %x, %v", v, b, r.Err)
	}
}

// Skip takes exactly the bytes of what another implementation can decode.
func FuzzSkip(f *testing.F) {
	for _, v := range []any{nil, 1, -1, 1.5, float32(1), "text", []byte{1}, []any{1, "a", nil}, map[string]any{"a": []any{true}}, math.MaxInt64} {
		b, err := vm.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := Reader{Buf: b}
		r.Skip(16)
		if r.Err != nil {
			return
		}
		d := vm.NewDecoder(bytes.NewReader(b[:len(b)-len(r.Buf)]))
		if err := d.Skip(); err != nil && !isExtension(b) {
			t.Fatalf("%x: skipped %d bytes, elsewhere: %v", b, len(b)-len(r.Buf), err)
		}
	})
}

// isExtension tells whether an extension type occurs, of which the other
// implementation wants to know the type.
func isExtension(b []byte) bool {
	for _, k := range b {
		if k >= 0xc7 && k <= 0xc9 || k >= 0xd4 && k <= 0xd8 {
			return true
		}
	}
	return false
}
