package screen_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/cascade-run/cascade/internal/screen"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ what, text, want, line string }{
		{"plain text", "spread[2,500]: 3 €, 北京, café", "spread[2,500]: 3 €, 北京, café", ""},
		{"lines", "a\n\tb\n", "a\n\tb\n", `a\n\tb\n`},
		{"the title of a window", "\x1b]0;PWN\x07", `\u001b]0;PWN\u0007`, ""},
		{"a return over what was said", "done\rfailed\r\n", `done\rfailed\r` + "\n", `done\rfailed\r\n`},
		{"erasing letters", "rm\b\b\x7fls", `rm\u0008\u0008\u007fls`, ""},
		{"controls of eight bits", "\u009b31m\u0090\u009c", `\u009b31m\u0090\u009c`, ""},
		{"bytes that are no UTF-8", "\x9b31m\xff", `\x9b31m\xff`, ""},
		{"text from right to left", "a\u202eb\u2066c\u200f\u061c", `a\u202eb\u2066c\u200f\u061c`, ""},
		{"what has no width", "a\u200bb\ufeffc\u00add\u2060\u3164", `a\u200bb\ufeffc\u00add\u2060\u3164`, ""},
		{"other ends of lines", "a\u2028b\u2029\u0085", `a\u2028b\u2029\u0085`, ""},
		{"tags", "\U000e0041", `\udb40\udc41`, ""},
		{"a replacement character", "\ufffd", "\ufffd", ""},
		{"Arabic, with a sign of numbers", "\u0600\u0661 \u0628", "\u0600\u0661 \u0628", ""},
	} {
		if got := screen.Text(c.text); got != c.want {
			t.Errorf("%s: Text is %q, want %q", c.what, got, c.want)
		}
		if c.line == "" {
			c.line = c.want
		}
		if got := screen.Line(c.text); got != c.line {
			t.Errorf("%s: Line is %q, want %q", c.what, got, c.line)
		}
	}
}

// shows tells whether a character does nothing but show itself, by its category alone.
func shows(r rune) bool {
	return r == '\n' || r == '\t' || !unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) && r != 0x200b && r != 0xfeff
}

// FuzzWriter writes text in two pieces: what comes out is safe, the same as that of the
// whole, twice the same, and within JSON the same value.
func FuzzWriter(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b]0;PWN\x07", "a\u009bb", "\xe2\x80", "\u202e\U000e0041", "\xf0\x9f\x98\x80x"} {
		f.Add([]byte(s), 1)
	}
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		cut = min(max(cut, 0), len(text))
		var b strings.Builder
		w := screen.NewWriter(&b)
		for _, part := range [][]byte{text[:cut], text[cut:]} {
			if n, err := w.Write(part); n != len(part) || err != nil {
				t.Fatalf("Write: %d of %d bytes, %v", n, len(part), err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if want := screen.Text(string(text)); got != want {
			t.Errorf("written as %q and %q it is %q, whole %q", text[:cut], text[cut:], got, want)
		}
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !shows(r) }) {
			t.Errorf("%q is not safe: %q", text, got)
		}
		if again := screen.Text(got); again != got {
			t.Errorf("%q becomes %q and then %q", text, got, again)
		}
		if line := screen.Line(string(text)); strings.ContainsAny(line, "\n\t") {
			t.Errorf("%q is %q, which is no line", text, line)
		}
		asJSON, err := json.Marshal(string(text))
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if err := json.Unmarshal(asJSON, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(screen.Bytes(asJSON), &after); err != nil || before != after {
			t.Errorf("%s says %q, as a terminal has it %q: %v", asJSON, before, after, err)
		}
	})
}

// refusing is a writer that fails.
type refusing struct{}

func (refusing) Write([]byte) (int, error) { return 0, fmt.Errorf("no space") }

func TestWriterFails(t *testing.T) {
	w := screen.NewWriter(refusing{})
	if n, err := w.Write([]byte("text")); n != 0 || err == nil {
		t.Errorf("Write: %d, %v; want the error", n, err)
	}
}
