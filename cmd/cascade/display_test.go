package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cascade-run/cascade"
	"github.com/cascade-run/cascade/comms"
	"github.com/cascade-run/cascade/dag"
	"github.com/cascade-run/cascade/internal/screen"
)

// glass is a terminal: what is to be seen on it, a line each.
type glass struct {
	t     *testing.T
	lines []string // the last is that of the cursor, in its first column
}

var control = regexp.MustCompile(`^\x1b\[(\??\d*)([A-Za-z])`)

func (g *glass) Write(p []byte) (int, error) {
	text := string(p)
	for len(text) > 0 {
		if m := control.FindStringSubmatch(text); m != nil {
			switch n, _ := strconv.Atoi(m[1]); m[2] {
			case "A":
				if n > len(g.lines)-1 {
					g.t.Fatalf("the cursor goes up by %d of %d lines: %q", n, len(g.lines), g.lines)
				}
				g.lines = append(g.lines[:len(g.lines)-1-n], "") // and all below is erased
				if !strings.HasPrefix(text[len(m[0]):], "\x1b[J") {
					g.t.Fatalf("lines are left below: %q", text)
				}
			case "J", "l", "h":
			default:
				g.t.Fatalf("an escape that is not expected: %q", m[0])
			}
			text = text[len(m[0]):]
			continue
		}
		if len(g.lines) == 0 {
			g.lines = []string{""}
		}
		switch c := text[0]; {
		case c == '\n':
			g.lines = append(g.lines, "")
		case c == '\r':
		case c < ' ' || c == 0x7f:
			g.t.Fatalf("a control character reaches the terminal: %q", text)
		default:
			g.lines[len(g.lines)-1] += string(c)
		}
		text = text[1:]
	}
	return len(p), nil
}

func (g *glass) want(what string, lines ...string) {
	g.t.Helper()
	if got := g.lines[:max(len(g.lines)-1, 0)]; !slices.Equal(got, lines) {
		g.t.Errorf("%s: the terminal shows\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

// A terminal shows a clock that runs, families, and the tasks that run; what is said goes
// above, and nothing of it is left at the end.
func TestProgressOnTerminal(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	g := &glass{t: t}
	width, height := 80, 24
	a := &app{environ: []string{"TERM=xterm"}, terminal: func(io.Writer) bool { return true }, now: func() time.Time { return now }}
	a.foot = &display{to: g, size: func() (int, int) { return width, height }}
	a.err = screen.NewWriter(a.foot)
	s := a.newProgress(&dag.Graph{Name: "night"}, comms.JobID{})
	p := &cascade.Progress{Name: "night", Phase: comms.JobRunning, Groups: []comms.GroupCounts{
		{Group: "read", Total: 4, Done: 4}, {Group: "model", Total: 3, Running: 2, Ready: 1}, {Group: "post", Total: 3}}}
	s.running = []comms.TaskRow{{Name: "model[0]", Started: "2026-11-20T08:00:00Z", Attempt: 1}, {Name: "model[\u202e\x1b[2J]", Started: "2026-11-20T07:59:58Z", Attempt: 2}}
	s.update(p)
	s.tick(t.Context(), nil, p)
	families := []string{"  read  [##########] 4/4 done", "  model [..........] 0/3 done, 2 running, 1 ready", "  post  [..........] 0/3 done"}
	show := func(clock, first, second string) []string {
		return slices.Concat([]string{clock + "  night [############..................] 4/10 done, 2 running, 1 ready"}, families,
			[]string{"  model[0] runs for " + first, `  model[\u202e\u001b[2J] runs for ` + second + ", attempt 2"})
	}
	g.want("at first", show("0s", "0s", "2s")...)
	now = now.Add(61300 * time.Millisecond)
	s.tick(t.Context(), nil, p) // no news: the clock runs all the same
	g.want("a minute later", show("1m1s", "1m1s", "1m3s")...)
	s.say("warning: %s", "a dataset\ndiffers")
	g.want("when something is said", `warning: a dataset\ndiffers`)
	s.tick(t.Context(), nil, p)
	g.want("behind it", append([]string{`warning: a dataset\ndiffers`}, show("1m1s", "1m1s", "1m3s")...)...)
	p.Groups[1] = comms.GroupCounts{Group: "model", Total: 3, Done: 3}
	p.Waits = "no host has enough"
	s.tick(t.Context(), nil, p)
	g.want("when nothing runs", `warning: a dataset\ndiffers`, "1m1s  night [#####################.........] 7/10 done",
		"  read  [##########] 4/4 done", "  model [##########] 3/3 done", "  post  [..........] 0/3 done", "  waits: no host has enough")
	width, height = 40, 3
	now = now.Add(time.Hour)
	s.tick(t.Context(), nil, p)
	g.want("on a low terminal", `warning: a dataset\ndiffers`, "1h1m1s  night [#######...] 7/10 done", "  read  [##########] 4/4 done")
	s.end()
	g.want("at the end", `warning: a dataset\ndiffers`)
}

// Of many families those of which something runs, failed or is to come are shown.
func TestFamiliesOnTerminal(t *testing.T) {
	p := &cascade.Progress{}
	for i := range 12 {
		g := comms.GroupCounts{Group: fmt.Sprint(i), Total: 1, Done: 1}
		switch i {
		case 3, 11:
			g.Done, g.Running = 0, 1
		case 10:
			g.Done, g.Failed = 0, 1
		case 9:
			g.Done = 0
		}
		p.Groups = append(p.Groups, g)
	}
	shown, more := liveGroups(p)
	var names []string
	for _, g := range shown {
		names = append(names, g.Group)
	}
	if got := strings.Join(names, " "); got != "0 1 2 3 4 9 10 11" || more != 4 {
		t.Errorf("%s and %d more", got, more)
	}
}

// A client that waits for a job reads that an agent was lost, and later that it is back.
func TestLossesAreTold(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	var out strings.Builder
	s := (&app{err: &out, to: "there", now: func() time.Time { return now }}).newProgress(&dag.Graph{Name: "two"}, comms.JobID{})
	out.Reset()
	at := func(second string) string { return "2026-11-20T08:00:" + second + "Z" }
	lost := comms.LossRow{At: at("01"), Agent: "node2", Why: "connection closed", Then: "its 7 tasks restart after a grace of 30 s", Awaited: true}
	back := lost
	back.Awaited, back.Back = false, at("05")
	old := comms.LossRow{At: at("00"), Agent: "node1", Why: "connection closed"}                                      // over before the client waited
	short := comms.LossRow{At: at("09"), Agent: "node3", Why: "connection closed", Then: "its task restarts at once"} // and has ended again
	for _, rows := range [][]comms.LossRow{{old}, {old, lost}, {old, lost}, {old, back}, {old, back, short}, {old, back, short}} {
		s.tellLosses(rows)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "  ")
		got = append(got, text)
	}
	want := []string{"agent node2 lost at " + atSecond(lost.At) + " (connection closed); its 7 tasks restart after a grace of 30 s",
		"agent node2 lost at " + atSecond(lost.At) + " (connection closed); it was back at " + atSecond(back.Back),
		"agent node3 lost at " + atSecond(short.At) + " (connection closed)"}
	if !slices.Equal(got, want) {
		t.Errorf("told is %q, want %q", got, want)
	}
	// A loss whose grace ended at once is told too, to one who begins to wait then; on a
	// terminal above the foot, once.
	out.Reset()
	s = (&app{err: &out, to: "there", now: func() time.Time { return now }}).newProgress(&dag.Graph{Name: "two"}, comms.JobID{})
	s.foot = &display{}
	out.Reset()
	short.Open = true
	for range 2 {
		s.tellLosses([]comms.LossRow{old, short})
	}
	if got, want := out.String(), "agent node3 lost at "+atSecond(short.At)+" (connection closed); its task restarts at once\n"; got != want {
		t.Errorf("told on a terminal is %q, want %q", got, want)
	}
}
