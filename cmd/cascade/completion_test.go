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

// Tab offers jobs, tasks, outputs, hosts and the words that flags take; where nothing has run it
// offers none and writes nothing.
func TestCompletionOfNames(t *testing.T) {
	h := newHost(t)
	offers := func(args ...string) string {
		c := h.start("", append([]string{"__complete"}, args...)...)
		c.wait()
		words, _, _ := strings.Cut(c.out.String(), ":")
		return strings.Join(strings.Fields(words), " ")
	}
	if got := offers("status", ""); got != "" {
		t.Errorf("of nothing it offers %s", got)
	}
	h.write("job.yaml", "job: words\ntasks:\n  split: {command: \"echo > ${out.x}\", out: [x]}\n  count: {for: {n: 0..2}, command: \"cat ${in.x} > ${out.y}\", in: {x: split.x}, out: [y]}\n")
	h.expect(h.start("", "run", "job.yaml"), "job words done")
	for _, c := range []struct {
		args string
		want string
	}{
		{"status wo", "words"},
		{"status la", "last"},
		{"explain last ", "split count"},
		{"get last co", "count.y"},
		{"ls hosts --host ", "local"},
		{"ls jobs -o ", "table wide csv json name"},
		{"graph last --format ", "dot mermaid svg"},
		{"run job.yaml --progress ", "auto plain none"},
		{"--color ", "auto always never"},
		{"cancel words wo", "words"},
		{"version x", ""},
	} {
		if got := offers(strings.Split(c.args, " ")...); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.args, got, c.want)
		}
	}
}
