// Package screen makes text of others safe for a terminal. Text of tasks, job files and
// other hosts may hold characters that move the cursor, name the window, or show one text
// as another. Such characters are shown as escapes, as in JSON, and have no effect.
package screen

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns s with every character that does more than show itself as an escape, such
// as \u001b. Ends of lines and tabs stay.
func Text(s string) string { return safe(s, true) }

// Line returns s as Text does, on one line: ends of lines and tabs are escapes too.
func Line(s string) string { return safe(s, false) }

// Bytes is Text for what is written as a whole.
func Bytes(b []byte) []byte {
	if plain(b, true) == len(b) {
		return b
	}
	return []byte(Text(string(b)))
}

func safe(s string, lines bool) string {
	n := plain(s, lines)
	if n == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:n])
	for i := n; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if harmless(r, size, lines) {
			b.WriteString(s[i : i+size])
		} else {
			escape(&b, r, size, s[i])
		}
		i += size
	}
	return b.String()
}

// plain is how many of the first bytes of s stay as they are; all ASCII, or all of it.
func plain[T string | []byte](s T, lines bool) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' && !(lines && (c == '\n' || c == '\t')) || c >= 0x7f {
			return i
		}
	}
	return len(s)
}

// harmless tells whether a character shows itself and does nothing else. Bytes that are
// not UTF-8 do not: some terminals take them for controls.
func harmless(r rune, size int, lines bool) bool {
	switch {
	case r == '\n' || r == '\t':
		return lines
	case r == utf8.RuneError && size == 1:
		return false
	}
	return !unicode.IsControl(r) && !unicode.In(r, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) &&
		(!unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Prepended_Concatenation_Mark, r))
}

// escape writes a character as an escape that JSON knows too, so that the text of a value
// within JSON stays the same value.
func escape(b *strings.Builder, r rune, size int, first byte) {
	switch {
	case r == utf8.RuneError && size == 1:
		fmt.Fprintf(b, `\x%02x`, first)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
	default:
		fmt.Fprintf(b, `\u%04x`, r)
	}
}

// Writer writes what it is given as Text has it. It may be used by several goroutines.
type Writer struct {
	to   io.Writer
	mu   sync.Mutex
	rest []byte // the beginning of a character whose other bytes have not come
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{to: w} }

// Write writes p, but for the beginning of a character at its end, which waits for the rest.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := p
	if len(w.rest) > 0 {
		all = append(w.rest, p...)
	}
	n := len(all) - unfinished(all)
	safe := Bytes(all[:n])
	w.rest = bytes.Clone(all[n:])
	if len(safe) == 0 {
		return len(p), nil
	}
	if _, err := w.to.Write(safe); err != nil {
		return 0, err // the Writer stands for the one that it writes to
	}
	return len(p), nil
}

// Flush writes the beginning of a character whose rest does not come.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	rest := w.rest
	w.rest = nil
	if len(rest) == 0 {
		return nil
	}
	_, err := w.to.Write(Bytes(rest))
	return err // as in Write
}

// unfinished is how many bytes at the end are the beginning of a character.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if tail := p[len(p)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
