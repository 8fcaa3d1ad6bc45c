package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The completion scripts are those of this command, and their shells can read them.
func TestCompletion(t *testing.T) {
	h := newHost(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			c := h.start("", "completion", shell)
			c.wait()
			script := c.out.String()
			if !strings.Contains(script, "__complete") || !strings.Contains(script, shell+" ") {
				t.Errorf("no script for %s: %.200s", shell, script)
			}
			path, err := exec.LookPath(shell)
			if err != nil {
				return // what it prints is all that can be seen here
			}
			read := exec.Command(path, "-n")
			read.Stdin = strings.NewReader(script)
			if out, err := read.CombinedOutput(); err != nil {
				t.Errorf("%s cannot read it: %v\n%s", shell, err, out)
			}
		})
	}
	c := h.start("", "__complete", "st")
	if got := c.wait(); !strings.Contains(got, "status\t") || !strings.Contains(got, "story\t") {
		t.Errorf("st becomes\n%s", got)
	}
}
