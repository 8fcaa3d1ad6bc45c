package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cascade-run/cascade"
)

var _ = cascade.Func1("Hostile", hostile, "with -> text")

type hostileSettings struct {
	X    string
	Fail bool
}

// hostileTitle is what a terminal would act on.
const (
	hostileTitle = "\x1b]0;PWN\x07 \u009b31m \u202edlrow\r\x9b"
	hostileName  = "\x1b]0;PWN\x07\u009b31m\u202edlrow" // of a call, without spaces
)

// hostile says it with all that it has: its log, its result, its error, and the names and errors of calls.
func hostile(ctx context.Context, s hostileSettings) (string, error) {
	fmt.Println("said:", hostileTitle)
	if s.Fail {
		return hostileCalled.Go(ctx, cascade.Val(hostileTitle), cascade.CallName(hostileName)).Get(ctx)
	}
	return hostileTitle, nil
}

func fails(_ context.Context, title string) (string, error) { return "", errors.New(title) }

var hostileCalled = cascade.Func1("HostileCalled", fails, "title -> text")

const hostileJob = `job: "nice\u202ename"
tasks:
  good: {for: {x: ["a\u009b31mb", "c\u202ed"]}, run: "Hostile", with: {x: "${x}", fail: false}, out: [text]}
  bad: {run: "Hostile", with: {x: "", fail: true}, out: [text]}
  after: {command: ["cat", "${in.x}"], in: {x: bad.text}, out: [z], stdout: z}
outputs: ["good[*].text", after.z]
keep_going: true
`

// hostileCalls are command lines over the hostile job, in an order in which each has
// something to say; harmlessCommands are those that tell nothing of jobs.
var (
	hostileCalls = []string{
		"validate job.yaml", "plan job.yaml", "plan job.yaml --json", "graph job.yaml --tasks", "graph job.yaml --tasks --format mermaid", "graph job.yaml --tasks --format svg",
		"run job.yaml", "run job.yaml --json", "run job.yaml --resume --explain", "-vv run job.yaml",
		"status", "status last", "status last --json", "ls jobs", "ls tasks last", "ls tasks last --json", "ls datasets last", "ls environments last", "ls calls last", "ls calls last --json", "ls functions last", "ls functions last --json", "memory last", "memory last --json", "ls hosts", "ls tasks last -o wide", "ls tasks last -o csv",
		"story last", "story last --json", "story last bad", "explain last bad", "explain last bad --json", "explain last after", "explain last good[c\u202ed]", "explain last nothing\u202e",
		"logs last", "logs last bad", "logs last --json", "get last good.text --value", "get last good[c\u202ed].text", "get last good.text --json", "get last after.z",
		"ls calls last", "ls calls last --json", "explain last", "explain last --json", "explain last bad/" + hostileName + "-0", "explain last bad/0", "graph last --calls --tasks", "graph last --calls --tasks --format svg",
		"replay last --task bad/" + hostileName + "-0", "graph last --tasks", "timeline last", "report last", "profile show", "profile export", "profile export -o profile.json", "profile diff profile.json", "replay last --simulate", "export last", "replay last --task bad", "replay last --task bad --json",
		"rerun last", "rerun last bad", "hold last", "release last", "cancel last", "import job.yaml imported.yaml", "submit job.yaml", "ls environments", "environment x\u202e", "rm environments --dry-run", "wait last", "diff last last", "diff last last --json", "cancel last nobody",
		"rm jobs last --yes", "no\u202ecommand", "status no\x1bjob", "run no\u202efile.yaml", "run \x1bjob.yaml",
	}
	harmlessCommands = []string{"doctor", "schema", "version", "perf", "clean", "completion", "help", "connect", "cluster", "profile import", "ls members", "ls tokens", "rm members", "init", "man", "config", "tune", "ui", "top"} // TestTopScreen and those of internal/ui have hostile jobs; what tune prints goes the way of all
)

// Text of a job's author and of its tasks does nothing to the terminal of the one who
// looks at it, by whichever command.
func TestHostileText(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", hostileJob)
	called := map[string]bool{}
	for _, line := range hostileCalls {
		args := strings.Split(line, " ")
		c := h.prepare("", args...)
		c.app.environ = append(c.app.environ, "NO_COLOR=1")
		c.app.terminal = func(io.Writer) bool { return !strings.Contains(line, "run") } // whose progress has escapes of its own
		c.run().wait()
		for _, text := range []string{c.out.String(), c.err.String()} {
			for i, r := range text {
				if _, n := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && n == 1 || r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
					t.Errorf("%q: %U at %d of %q", line, r, i, text)
					break
				}
			}
		}
		if strings.Contains(line, "--json") {
			checkJSON(t, args, c.out.String())
		}
		if found, _, err := c.app.command().Find(args); err == nil {
			called[strings.TrimPrefix(found.CommandPath(), "cascade ")] = true
		}
	}
	for _, name := range harmlessCommands {
		called[name] = true
	}
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "cascade ")
		if called[name] && !c.HasSubCommands() || called[name] && c.HasParent() {
			return
		}
		if !c.HasSubCommands() {
			t.Errorf("%s is not called over the hostile job", name)
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each((&app{}).command())
}

// A log is as it was written when it goes to a file or a program, or is asked for so.
func TestLogsAsTheyAre(t *testing.T) {
	h := newHost(t)
	h.write("job.yaml", hostileJob)
	h.start("", "run", "job.yaml").wait()
	const said = "said: \x1b]0;PWN\x07 \u009b31m \u202edlrow\r\x9b\n"
	for _, tt := range []struct {
		args     string
		terminal bool
		want     string
	}{
		{"logs last bad", false, said},
		{"logs last bad --raw", true, said},
		{"logs last bad", true, `said: \u001b]0;PWN\u0007 \u009b31m \u202edlrow\r\x9b` + "\n"},
		{"logs last good[a\u009b31mb]", false, said},
	} {
		c := h.prepare("", strings.Split(tt.args, " ")...)
		c.app.environ = append(c.app.environ, "NO_COLOR=1")
		c.app.terminal = func(io.Writer) bool { return tt.terminal }
		if code := <-c.run().code; code != exitOK {
			t.Errorf("%s: exit %d: %s", tt.args, code, c.err.String())
		}
		if got := c.out.String(); got != tt.want {
			t.Errorf("%s, on a terminal %t: %q, want %q", tt.args, tt.terminal, got, tt.want)
		}
	}
	c := h.start("", "logs", "last", "bad", "--json")
	<-c.code
	var line struct{ Line string }
	if err := json.Unmarshal([]byte(c.out.String()), &line); err != nil || !strings.HasPrefix(line.Line, "said: \x1b]0;PWN\x07 \u009b31m \u202edlrow\r") {
		t.Errorf("--json: %q says %q: %v", c.out.String(), line.Line, err)
	}
}
