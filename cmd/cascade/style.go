package main

import (
	"fmt"
	"io"

	"github.com/cascade-run/cascade/internal/screen"
)

// Colours of a terminal, by what they say: what failed is red, what is late or waits is
// yellow, what is done is green. A colour never says something that no word says too.
const (
	styleBold   = "1"
	styleDim    = "2"
	styleRed    = "31"
	styleGreen  = "32"
	styleYellow = "33"
	styleBlue   = "34"
)

// coloured tells whether what is written to w, an output as it is, has colours: as --color
// says, else by the conventions of NO_COLOR, CLICOLOR_FORCE, CLICOLOR and TERM, and on a
// terminal only.
func (a *app) coloured(w io.Writer) bool {
	switch force := a.getenv("CLICOLOR_FORCE"); {
	case a.color == "always":
		return true
	case a.color == "never", a.getenv("NO_COLOR") != "":
		return false
	case force != "" && force != "0":
		return true
	case a.getenv("TERM") == "dumb", a.getenv("CLICOLOR") == "0":
		return false
	}
	return a.onTerminal(w)
}

// styled is a text in a style, if what goes to w has colours.
func (a *app) styled(w io.Writer, style, text string) string {
	if style == "" || text == "" || !a.coloured(w) {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

func (a *app) red(w io.Writer, text string) string { return a.styled(w, styleRed+";"+styleBold, text) }

// paint is where text with styles is written to in place of to, one of the app's outputs.
// All else in it is safe for a terminal already.
func (a *app) paint(to io.Writer) io.Writer {
	switch w, safe := to.(*screen.Writer); {
	case !safe:
		return to
	case to == a.out:
		return flushed{w, a.raw.out}
	default:
		return flushed{w, a.foot}
	}
}

// flushed writes to what a screen.Writer writes to, after what that holds.
type flushed struct {
	before *screen.Writer
	to     io.Writer
}

func (w flushed) Write(p []byte) (int, error) {
	if err := w.before.Flush(); err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	return w.to.Write(p) // it stands for the one that it writes to
}

// plainText is text of others for an output that paint returns.
func (a *app) plainText(s string) string { return screen.Text(s) }

// styleOf is the style of how a task, job or host stands.
func styleOf(state string) string {
	switch state {
	case "failed", "lost":
		return styleRed
	case "done", "succeeded", "ready":
		return styleGreen
	case "cancelled", "skipped", "cut off", "away", "held":
		return styleYellow
	case "running", "building":
		return styleBlue
	}
	return ""
}
