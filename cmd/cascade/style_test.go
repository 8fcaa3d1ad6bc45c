package main

import (
	"io"
	"strings"
	"testing"
)

// Colours follow --color, else the conventions of the environment, else the terminal.
func TestColours(t *testing.T) {
	for _, c := range []struct {
		mode     string
		environ  string
		terminal bool
		want     bool
	}{
		{"auto", "", true, true},
		{"auto", "", false, false},
		{"auto", "NO_COLOR=1", true, false},
		{"auto", "NO_COLOR=", true, true},
		{"auto", "NO_COLOR=1 CLICOLOR_FORCE=1", true, false},
		{"auto", "CLICOLOR_FORCE=1", false, true},
		{"auto", "CLICOLOR_FORCE=0", false, false},
		{"auto", "CLICOLOR=0", true, false},
		{"auto", "TERM=dumb", true, false},
		{"auto", "TERM=dumb CLICOLOR_FORCE=1", true, true},
		{"always", "NO_COLOR=1 TERM=dumb", false, true},
		{"never", "CLICOLOR_FORCE=1", true, false},
	} {
		a := &app{color: c.mode, environ: strings.Fields(c.environ), terminal: func(io.Writer) bool { return c.terminal }}
		if got := a.coloured(io.Discard); got != c.want {
			t.Errorf("--color %s, %q, terminal %v: %v, want %v", c.mode, c.environ, c.terminal, got, c.want)
		}
	}
}

// What is no text of ours stays safe in an error with colours.
func TestColoursOfErrors(t *testing.T) {
	h := newHost(t)
	c := h.prepare("", "run", "no\x1b[2Jfile.yaml", "--color", "always").run()
	c.wait()
	if got := c.err.String(); !strings.HasPrefix(got, "\x1b[31;1mcascade:\x1b[0m ") || strings.Contains(got, "\x1b[2J") {
		t.Errorf("%q", got)
	}
}
