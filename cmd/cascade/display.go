package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/cascade-run/cascade/internal/screen"
)

// display is the foot of a terminal that shows how something stands: some lines that are
// redrawn as they change. Other output goes above them.
type display struct {
	mu    sync.Mutex
	to    io.Writer
	size  func() (width, height int)
	lines int // that are drawn; the cursor is below
	last  []byte

	styled func(style, text string) string // nil: no styles
}

// styleSign is before and behind the style of a line that is drawn.
const styleSign = "\x00"

// styleText is a line with a style, for draw.
func styleText(style, text string) string {
	if style == "" {
		return text
	}
	return styleSign + style + styleSign + text
}

// splitStyle returns the style of a line, and its text.
func splitStyle(line string) (style, text string) {
	if rest, ok := strings.CutPrefix(line, styleSign); ok {
		if style, text, ok := strings.Cut(rest, styleSign); ok {
			return style, text
		}
	}
	return "", line
}

// plainLines are lines without styles, as one text.
func plainLines(lines []string) string {
	plain := make([]string, len(lines))
	for i, l := range lines {
		_, plain[i] = splitStyle(l)
	}
	return strings.Join(plain, "\n")
}

// Write writes p in place of the lines; they come back when they are drawn next.
func (d *display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.erase(); err != nil {
		return 0, err
	}
	return d.to.Write(p) // the display stands for the terminal
}

// draw shows lines in place of those before. Lines that do not fit on the terminal are left out:
// lines that have scrolled away cannot be redrawn.
func (d *display) draw(lines []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	width, height := d.size()
	lines = lines[:min(len(lines), max(height-1, 1))]
	var b bytes.Buffer
	for _, line := range lines {
		style, text := splitStyle(line)
		r := []rune(screen.Line(text))
		text = string(r[:min(len(r), max(width-1, 1))])
		if style != "" && d.styled != nil {
			text = d.styled(style, text)
		}
		b.WriteString(text)
		b.WriteByte('\n')
	}
	if bytes.Equal(b.Bytes(), d.last) {
		return nil
	}
	const noWrap, wrap = "\x1b[?7l", "\x1b[?7h" // some letters are two columns wide
	text := d.up() + noWrap + b.String() + wrap
	d.lines, d.last = len(lines), b.Bytes()
	_, err := io.WriteString(d.to, text)
	return err // as in Write
}

// end takes the lines away.
func (d *display) end() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.erase()
}

func (d *display) erase() error {
	if d.lines == 0 {
		return nil
	}
	text := d.up()
	d.lines, d.last = 0, nil
	_, err := io.WriteString(d.to, text)
	return err // as in Write
}

// up moves the cursor to the first line and erases from there on.
func (d *display) up() string {
	if d.lines == 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA\x1b[J", d.lines)
}

// terminalSize is the size of a terminal; of what is none that of an old one.
func terminalSize(w io.Writer) (width, height int) {
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	if f, ok := w.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}
